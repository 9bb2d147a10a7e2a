"""Wait until the log has grown. All readers of the log in a process wait here.

Published events get their positions when a session sequences them. Each reader sequences events
before it reads, so that no worker needs to run. An idle process has a row in the database: then
producers notify it, or the WAL feed if one runs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from uuid import uuid4

from pgqueue.conf import settings
from pgqueue.database.transactions import is_pooled
from pgqueue.engine import notifications, readers
from pgqueue.engine.values import Connection
from pgqueue.threads.listener import (
    PROBE_EVERY,
    Topic,
    TopicListener,
    subscribe,
)

EVENTS = Topic(notifications.EVENTS)
SHORTEST_NAP = 0.01  # seconds
DEAF_NAP = 0.5
"""The longest nap behind a transaction pooler, where notifications do not arrive."""
WITHDRAW_AFTER = 2.0
"""Seconds without a wait after which the process withdraws its wish: longer than naps."""


class LogGrowth:
    """The wish of a process to be notified of events, and the waits that depend on it."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._id = uuid4()
        self._lock = threading.Lock()
        self._waiting: set[Callable[[], None]] = set()
        self._asked_at = monotonic()
        self._wants_notice = False
        self._beat_at = 0.0
        self._is_deaf = False
        self._subscription = subscribe(
            alias, TopicListener(topic=EVENTS, heard=self._hear, between=self._work)
        )

    @property
    def is_deaf(self) -> bool:
        """Whether notifications do not arrive, so that waiters poll more often."""
        return self._is_deaf

    @property
    def is_asking(self) -> bool:
        """Whether producers see the wish of this process to be notified."""
        return self._wants_notice

    def add(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever the log may have grown."""
        with self._lock:
            self._waiting.add(wake)

    def remove(self, wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        with self._lock:
            self._waiting.discard(wake)
        # The listener ends this after the last waiter is gone.
        self._subscription.wake()

    def ask(self) -> None:
        """Ask to be notified. Poll once more after that: open transactions may not see the wish."""
        self._asked_at = monotonic()
        if not self._wants_notice:
            self._subscription.wake()

    def end(self) -> None:
        """Stop listening."""
        self._subscription.close()

    def _hear(self, notification: str | None) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for wake in waiting:
            wake()

    def _work(self, connection: Connection) -> timedelta:
        """Renew, withdraw or delete the row; return the time until the next step."""
        if not self._waiting:
            return self._end(connection)
        self._is_deaf = is_pooled(connection)
        if self._is_deaf:
            return PROBE_EVERY
        now = monotonic()
        silent_for = now - self._asked_at
        wants = silent_for < WITHDRAW_AFTER
        if wants != self._wants_notice or now >= self._beat_at:
            options = settings()
            every = options.heartbeat
            notify_for = 2 * every if wants else None
            readers.beat(connection, self._id, notify_for=notify_for, fed_by=options.fed_by)
            self._beat_at = now + every.total_seconds()
            is_new = wants and not self._wants_notice
            self._wants_notice = wants
            if is_new:
                self._hear(None)
        left = WITHDRAW_AFTER - silent_for if wants else self._beat_at - now
        return timedelta(seconds=max(left, SHORTEST_NAP))

    def _end(self, connection: Connection) -> timedelta:
        with _lock, self._lock:
            if self._waiting:
                return timedelta()  # a new waiter has come meanwhile
            if _open.get((os.getpid(), self._alias)) is self:
                del _open[os.getpid(), self._alias]
        readers.retire(connection, self._id)
        self._subscription.close()
        return PROBE_EVERY


class GrowthWaiter:
    """Waits for growth in one thread: first 10 ms, then twice as long each time, unless woken.

    A transaction that was open when the process asked to be notified does not see the wish. Readers
    see its events late, by at most the rest of its duration.
    """

    def __init__(self, alias: str, wake: Callable[[], None]) -> None:
        self._alias = alias
        self._wake = wake
        self._nap = SHORTEST_NAP
        self._growth: LogGrowth | None = None

    def found(self) -> None:
        """Note that events were found."""
        self._nap = SHORTEST_NAP

    def nap(self, *, is_behind: bool = False) -> float:
        """Return the number of seconds to wait now, unless woken.

        Args:
            is_behind: whether another session is sequencing events, which are readable soon.
        """
        growth = self._grown()
        growth.ask()
        if is_behind:
            return SHORTEST_NAP / 2
        longest = settings().poll_interval.total_seconds()
        if growth.is_deaf or not growth.is_asking:
            longest = min(longest, DEAF_NAP)
        nap = min(self._nap, longest)
        self._nap = min(2 * nap, longest)
        return nap

    def _grown(self) -> LogGrowth:
        with _lock:
            growth = _open.get((os.getpid(), self._alias))
            if growth is None:
                growth = _open[os.getpid(), self._alias] = LogGrowth(self._alias)
            if growth is not self._growth:
                growth.add(self._wake)
                self._growth = growth
            return growth

    def close(self) -> None:
        """End the wait. A second close does nothing."""
        growth, self._growth = self._growth, None
        if growth:
            growth.remove(self._wake)


def forget_all() -> None:
    """End all waits of this process, for tests, which empty the tables."""
    with _lock:
        each = [growth for (pid, _), growth in _open.items() if pid == os.getpid()]
        _open.clear()
    for growth in each:
        growth.end()


_lock = threading.Lock()
_open: dict[tuple[int, str], LogGrowth] = {}
"""Keyed by process, too: a forked child does not inherit the listener's thread."""

if hasattr(os, "register_at_fork"):
    # If another thread held the lock at the fork, it would stay locked in the child for ever.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
