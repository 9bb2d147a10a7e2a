"""The service that reads the database for all clients of a process, on one connection."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any, Generic, TypeVar

from pgqueue.database.connections import Session
from pgqueue.streams.client import Client
from pgqueue.threads.service import Service

C = TypeVar("C", bound=Client)
S = TypeVar("S", bound="StreamSource[Any]")

LINGER = timedelta(seconds=1)
"""The wait for another client after the last one; shorter than the 5 s of DROP DATABASE."""
LONGEST_BACKOFF = timedelta(seconds=1)
"""The longest delay after failures: clients wait for the return of the database."""


class StreamSource(Service, Generic[C]):
    """Serves the clients of one process and database, until the last one has left."""

    longest_backoff = LONGEST_BACKOFF
    longest_step = float("inf")

    def __init__(self, alias: str) -> None:
        super().__init__()
        self.name = f"sse {type(self).__name__.lower()}"
        self._session = Session(alias, name="sse")
        self._lock = threading.Lock()
        self._coming: deque[C] = deque()
        self._idle_since = monotonic()

    @classmethod
    def serve(cls: type[S], alias: str, client: Any) -> S:
        """Add a client to the source of this process; return the source. Any thread may call it."""
        with _lock:
            key = os.getpid(), cls, alias
            source = _open.get(key)
            if source is None or not source.is_alive():
                source = _open[key] = cls(alias)
                source.start()
            with source._lock:
                source._coming.append(client)
        source.wake()
        found: S = source
        return found

    def leave(self, client: C) -> None:
        """Remove a client; do nothing if it is removed already."""
        with self._lock:
            if client in self._coming:
                self._coming.remove(client)
            self._forget(client)
            self._idle_since = monotonic()

    def _forget(self, client: C) -> None:
        """Remove a client. The caller holds the lock."""
        raise NotImplementedError

    def _is_unused(self) -> bool:
        """Return whether there are no clients. The caller holds the lock."""
        raise NotImplementedError

    def has_ended(self) -> bool:
        """End the source if it has had no client for LINGER; return whether it has ended."""
        with _lock, self._lock:
            if self._coming or not self._is_unused():
                return False
            if monotonic() < self._idle_since + LINGER.total_seconds():
                return False
            key = os.getpid(), type(self), self._session.alias
            if _open.get(key) is self:
                del _open[key]
            self.stop()
            return True

    def tell(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        """Let an event loop call a function; forget the loop's clients if it is closed."""
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            with self._lock:
                for client in self._each_of(loop):
                    self._forget(client)

    def _each_of(self, loop: asyncio.AbstractEventLoop) -> list[C]:
        """Return the clients of a loop. The caller holds the lock."""
        raise NotImplementedError

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()


def is_unused() -> bool:
    """Return whether this process serves no client. Tests call it after stopping their server."""
    with _lock:
        each = [source for (pid, *_), source in _open.items() if pid == os.getpid()]
    for source in each:
        with source._lock:
            if source._coming or not source._is_unused():
                return False
    return True


def end_all() -> None:
    """End all sources of this process, for tests that empty the tables."""
    with _lock:
        each = [source for (pid, *_), source in _open.items() if pid == os.getpid()]
        _open.clear()
    for source in each:
        source.stop()
    for source in each:
        source.stopped(timedelta(seconds=5))


_lock = threading.Lock()
_open: dict[tuple[int, type, str], Any] = {}
"""The key contains the process, because a forked child has no reading thread."""

if hasattr(os, "register_at_fork"):
    # If another thread held the lock at the fork, the lock would stay locked in the child.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
