"""Wait for any number of results on this process's one listening connection.

A waiter row announces the wait, so that the end of the message is notified. A transaction that
writes the end at the same time may not see the row. So this polls each message, first after 10 ms,
then after twice as long each time, up to the poll interval. The polls also find an end whose
notification was lost.
"""

from __future__ import annotations

import heapq
import os
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg

from pgqueue.conf import settings
from pgqueue.database.transactions import is_pooled
from pgqueue.engine import notifications, wait
from pgqueue.engine.lookup import Found
from pgqueue.threads.listener import (
    PROBE_EVERY,
    Topic,
    TopicListener,
    subscribe,
)
from pgqueue.threads.service import NO_NAP

SHORTEST_NAP = timedelta(milliseconds=10)
DEAF_NAP = timedelta(seconds=0.5)
"""The longest nap behind a transaction pooler, where notifications do not arrive."""
RENEW_EVERY = timedelta(minutes=1)
LASTING = 3 * RENEW_EVERY
Promise = Future["Found | None"]


@dataclass(slots=True, eq=False)
class Awaited:
    """An awaited message: the promises of its waits, and the time of its next poll."""

    nap: timedelta
    promises: list[Promise] = field(default_factory=list)
    row: int | None = None
    look_at: float = 0


def ended(alias: str, id: int) -> Promise:
    """Return a promise of the message, kept when the message has ended or is dead.

    Cancelling the promise ends the wait. Its result is None if the message is not visible: the
    transaction that enqueued it is not committed, or the message was purged.
    """
    with _lock:
        waiting = _open.get((os.getpid(), alias))
        if waiting is None:
            waiting = _open[os.getpid(), alias] = AwaitedMessages(alias)
        return waiting.add(id)


class AwaitedMessages:
    """The messages in one database that this process waits for."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        # Filled by any thread; only the listener's thread uses the rest.
        self._coming: deque[tuple[int, Promise]] = deque()
        self._left: deque[int] = deque()
        self._awaited: dict[int, Awaited] = {}
        self._looks: list[tuple[float, int]] = []
        self._renew_at = monotonic() + RENEW_EVERY.total_seconds()
        self._subscription = subscribe(
            alias, TopicListener(topic=RESULTS, heard=self._hear, between=self._look)
        )

    def add(self, id: int) -> Promise:
        """Wait for a message, too."""
        promise: Promise = Future()
        promise.add_done_callback(lambda _: self._leave(id))
        self._coming.append((id, promise))
        self._subscription.wake()
        return promise

    def _leave(self, id: int) -> None:
        self._left.append(id)
        self._subscription.wake()

    def _hear(self, notification: str | None) -> None:
        """Poll the message that has ended, or all messages if notifications may have been lost."""
        ids = self._awaited if notification is None else [int(notification)]
        for id in ids:
            if id in self._awaited:
                self._look_in(NO_NAP, id)

    def _look(self, connection: psycopg.Connection[Any]) -> timedelta:
        """Poll the messages that are due, and return the time until the next poll."""
        self._withdraw(connection)
        self._receive()
        is_deaf = is_pooled(connection)
        if due := self._due(DEAF_NAP if is_deaf else settings().poll_interval):
            ended = wait.ended(connection, due)
            for id, found in ended.items():
                self._keep_promises(id, found)
            if not is_deaf:
                self._announce(connection, due - set(ended))
        self._renew(connection)
        return self._pause()

    def _withdraw(self, connection: psycopg.Connection[Any]) -> None:
        """Forget messages whose promises were all kept or cancelled."""
        rows = []
        while self._left:
            id = self._left.popleft()
            if not (awaited := self._awaited.get(id)):
                continue
            awaited.promises = [each for each in awaited.promises if not each.done()]
            if not awaited.promises:
                del self._awaited[id]
                rows += [awaited.row] if awaited.row is not None else []
        if rows:
            wait.withdraw(connection, rows)

    def _receive(self) -> None:
        while self._coming:
            id, promise = self._coming.popleft()
            if not promise.done():  # a cancelled promise has left already
                self._awaited.setdefault(id, Awaited(SHORTEST_NAP)).promises.append(promise)
                self._look_in(NO_NAP, id)

    def _due(self, longest: timedelta) -> set[int]:
        """Return the ids of the messages to poll now, and plan their next polls."""
        due, now = set(), monotonic()
        while self._looks and self._looks[0][0] <= now:
            look_at, id = heapq.heappop(self._looks)
            if id in self._awaited and self._awaited[id].look_at == look_at:
                due.add(id)
        for id in due:
            awaited = self._awaited[id]
            self._look_in(min(awaited.nap, longest), id)
            awaited.nap = min(2 * awaited.nap, longest)
        return due

    def _keep_promises(self, id: int, found: Found | None) -> None:
        for promise in self._awaited[id].promises:
            if promise.set_running_or_notify_cancel():
                promise.set_result(found)

    def _announce(self, connection: psycopg.Connection[Any], ids: set[int]) -> None:
        """Insert missing waiter rows, and poll again: some messages may have ended meanwhile."""
        new = [id for id in ids if self._awaited[id].row is None]
        if not new:
            return
        for id, row in wait.announce(connection, new, lasting=LASTING).items():
            self._awaited[id].row = row
            self._awaited[id].nap = SHORTEST_NAP
            self._look_in(NO_NAP, id)

    def _look_in(self, nap: timedelta, id: int) -> None:
        look_at = self._awaited[id].look_at = monotonic() + nap.total_seconds()
        heapq.heappush(self._looks, (look_at, id))

    def _renew(self, connection: psycopg.Connection[Any]) -> None:
        if monotonic() >= self._renew_at:
            self._renew_at = monotonic() + RENEW_EVERY.total_seconds()
            rows = [each.row for each in self._awaited.values() if each.row is not None]
            wait.renew(connection, rows, lasting=LASTING)

    def _pause(self) -> timedelta:
        """Return the time until the next poll; end the subscription if no message is awaited."""
        if self._awaited:
            return timedelta(seconds=max(0, self._looks[0][0] - monotonic()))
        with _lock:
            if self._coming:
                return NO_NAP
            _open.pop((os.getpid(), self._alias), None)
            self._subscription.close()
        return PROBE_EVERY


RESULTS = Topic(notifications.RESULTS)

_lock = threading.Lock()
_open: dict[tuple[int, str], AwaitedMessages] = {}
"""Keyed by process, too: a forked child does not inherit the listener's thread."""

if hasattr(os, "register_at_fork"):
    # If another thread held the lock at the fork, it would stay locked in the child for ever.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
