"""What reads the database for all clients of a process, in one thread, on one connection."""

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
"""How long it waits for another client after the last one. DROP DATABASE waits for 5 s."""
LONGEST_BACKOFF = timedelta(seconds=1)
"""After failures: clients wait for the database, and see that it is back."""


class StreamSource(Service, Generic[C]):
    """Serves the clients of one process and database, until there are none."""

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
        """Have the one of this process serve a client; call it from any thread."""
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
        """Serve a client no more; doing so again is fine."""
        with self._lock:
            if client in self._coming:
                self._coming.remove(client)
            self._forget(client)
            self._idle_since = monotonic()

    def _forget(self, client: C) -> None:
        """Leave a client out. The lock is held."""
        raise NotImplementedError

    def _is_unused(self) -> bool:
        """Return whether there are no clients. The lock is held."""
        raise NotImplementedError

    def has_ended(self) -> bool:
        """End if there was no client for long enough; return whether that is so."""
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
        """Have an event loop call something; forget its clients if it is closed."""
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            with self._lock:
                for client in self._each_of(loop):
                    self._forget(client)

    def _each_of(self, loop: asyncio.AbstractEventLoop) -> list[C]:
        """Return the clients of a loop. The lock is held."""
        raise NotImplementedError

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()


def is_unused() -> bool:
    """Return whether this process serves no client: for tests, which stop their server."""
    with _lock:
        each = [source for (pid, *_), source in _open.items() if pid == os.getpid()]
    for source in each:
        with source._lock:
            if source._coming or not source._is_unused():
                return False
    return True


def end_all() -> None:
    """End what this process reads: for tests, which empty the tables."""
    with _lock:
        each = [source for (pid, *_), source in _open.items() if pid == os.getpid()]
        _open.clear()
    for source in each:
        source.stop()
    for source in each:
        source.stopped(timedelta(seconds=5))


_lock = threading.Lock()
_open: dict[tuple[int, type, str], Any] = {}
"""By process, too: a forked child has no thread that reads."""

if hasattr(os, "register_at_fork"):
    # If another thread held the lock at the fork, it would stay locked in the child for ever.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
