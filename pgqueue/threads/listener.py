"""Listen for notifications on one connection a process and database.

Everything in the process that waits for notifications subscribes here: watches, waits for results,
and a worker that claims nothing. (A worker that claims listens on its claim connection instead.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

from pgqueue import signals
from pgqueue.database.connections import Session
from pgqueue.database.transactions import is_pooled
from pgqueue.engine import notifications
from pgqueue.engine.values import Connection
from pgqueue.exceptions import PGQueueError
from pgqueue.threads.service import NO_NAP, Service
from pgqueue.threads.wakeup import Wakeup

# A connection whose server vanished says nothing: send it a query now and then.
PROBE_EVERY = timedelta(seconds=10)
LINGER = timedelta(seconds=1)
"""How long the connection stays open without subscriptions. DROP DATABASE waits for 5 s."""
LONGEST_BACKOFF = timedelta(seconds=1)
"""After failures. A new subscription may have to wait for so long, although nothing fails now."""


def _one_key(text: str) -> tuple[str, Any]:
    return "", text


@dataclass(frozen=True)
class Topic:
    """A PostgreSQL channel, and how to read its notifications.

    Attributes:
        name: of the PostgreSQL channel, without the part that all of ours begin with.
        read: returns the key of a notification, and what subscriptions to that key are given. It is
            called once for each notification, however many subscriptions there are.
    """

    name: str
    read: Callable[[str], tuple[str, Any]] = _one_key


@dataclass(eq=False, kw_only=True)
class TopicListener:
    """The callbacks of the notifications of a topic that have one key.

    Everything is called in the listener's thread: it must be quick, or others hear late.

    Attributes:
        heard: is given each notification, as the topic read it; and None once it listens, and
            whenever notifications may have been missed, because the connection was lost.
        check: is called before it listens; a PGQueueError that it raises is passed on by `begun`.
        between: does its own work on the connection between notifications, and returns for how
            long there is none. `wake()` has it called again at once.
        begun: is done once it listens, or with the error that was met. After an error of the
            database it listens as soon as that is possible, unless it is closed.
    """

    topic: Topic
    heard: Callable[[Any], None]
    key: str = ""
    check: Callable[[Connection], None] | None = None
    between: Callable[[Connection], timedelta] | None = None
    begun: Future[None] = field(default_factory=Future)
    listener: Listener | None = None

    @property
    def name(self) -> str:
        """The name of its listener, for a watchdog."""
        return "listener"

    @property
    def is_stuck(self) -> bool:
        """Whether its listener's thread died, or waits too long for an answer."""
        listener = self.listener  # another thread may close it
        return bool(listener and listener.is_stuck)

    def cut(self) -> None:
        """End the listener's connection; it continues with a new one."""
        if listener := self.listener:
            listener.cut()

    def wake(self) -> None:
        """Have `between` called."""
        if listener := self.listener:
            listener.wake()

    def close(self) -> None:
        """Hear no more. Closing it again does nothing."""
        with _lock:
            listener, self.listener = self.listener, None
            if listener:
                listener.remove(self)
        if listener:
            listener.wake()

    def settle(self, error: Exception | None = None) -> None:
        """Say that it has begun, or why it has not."""
        if not self.begun.done() and self.begun.set_running_or_notify_cancel():
            if error:
                self.begun.set_exception(error)
            else:
                self.begun.set_result(None)


def subscribe(alias: str, subscription: TopicListener) -> TopicListener:
    """Subscribe on this process's connection to the database; wait for nothing.

    The listener's thread starts with the first subscription, and ends a while after the last one.
    """
    with _lock:
        listener = _open.get((os.getpid(), alias))
        if listener is None:
            listener = Listener(Session(alias, name="listener"))
            listener.start()
            _open[os.getpid(), alias] = listener
        listener.add(subscription)
    listener.wake()
    return subscription


class Listener(Service):
    """Listens on one connection to everything that is subscribed to.

    Args:
        session: a connection of its own. Behind a transaction pooler it only does the work
            `between`: notifications don't arrive there.
    """

    longest_backoff = LONGEST_BACKOFF

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._wakeup = Wakeup()
        self._connection: Connection | None = None
        # Changed by any thread, under the lock.
        self._subscribed: dict[Topic, dict[str, set[TopicListener]]] = {}
        self._coming: dict[TopicListener, None] = {}  # in their order
        self._working: set[TopicListener] = set()
        self._idle_since = monotonic()
        # The thread's own: the channels that the connection listens to, and since when in vain.
        self._channels: dict[str, Topic] = {}
        self._unused_since: dict[str, float] = {}

    @property
    def is_listening(self) -> bool:
        """Whether it has an open connection that listens."""
        return bool(self._channels and self._connection and not self._connection.closed)

    def add(self, subscription: TopicListener) -> None:
        """Add a subscription. The lock is held, or the thread not started."""
        subscription.listener = self
        keys = self._subscribed.setdefault(subscription.topic, {})
        keys.setdefault(subscription.key, set()).add(subscription)
        self._coming[subscription] = None
        if subscription.between:
            self._working.add(subscription)

    def remove(self, subscription: TopicListener) -> None:
        """Remove a subscription. The lock is held."""
        keys = self._subscribed[subscription.topic]
        keys[subscription.key].discard(subscription)
        if not keys[subscription.key]:
            del keys[subscription.key]
        if not keys:
            del self._subscribed[subscription.topic]
        self._idle_since = monotonic()
        self._coming.pop(subscription, None)
        self._working.discard(subscription)

    def tick(self) -> timedelta:
        """Listen to what is subscribed to, wait for notifications, and pass them on."""
        if self._has_ended():
            return NO_NAP
        connection = self._begin()
        try:
            patience = min(PROBE_EVERY, self._unlisten(connection), self._work(connection))
        finally:
            # Some may have come with the answers to other statements: no readable socket says so.
            has_passed = self._pass_on(connection)
        if not has_passed:
            ready = self._wakeup.wait(patience.total_seconds(), connection)
            if not ready and patience >= PROBE_EVERY:
                connection.execute("SELECT 1")
            self._pass_on(connection)
        return NO_NAP

    def _has_ended(self) -> bool:
        """End if there was no subscription for long enough; return whether that is so."""
        with _lock:
            if self._subscribed or monotonic() < self._idle_since + LINGER.total_seconds():
                return False
            if _open.get((os.getpid(), self._session.alias)) is self:
                del _open[os.getpid(), self._session.alias]
            self.stop()
            return True

    def _begin(self) -> Connection:
        """Listen for all subscriptions, on a new connection if the old one was lost."""
        was_open = False
        connection = None
        try:
            connection = self._session.connection
            was_open = connection is self._connection
            if not was_open:
                self._listen_again(connection)
            for each in self._new():
                self._begin_one(connection, each)
        except Exception as error:
            # An old connection may have been lost long ago: then another one is tried first.
            if not (was_open and connection and connection.closed):
                for each in self._new():
                    each.settle(error)
            raise
        return connection

    def _listen_again(self, connection: Connection) -> None:
        self._channels.clear()
        self._unused_since.clear()
        for each in self._all():
            if each not in self._coming:
                self._listen(connection, each.topic)
        self._connection = connection
        for each in self._all():
            if each not in self._coming:
                self._tell(each, None)

    def _begin_one(self, connection: Connection, subscription: TopicListener) -> None:
        error = None
        try:
            if subscription.check:
                subscription.check(connection)
            self._listen(connection, subscription.topic)
        except PGQueueError as raised:
            error = raised
        # Notifications from before it begins are not for it, and have come with the answers.
        self._pass_on(connection)
        with _lock:
            if subscription not in self._coming:
                return  # it was closed meanwhile
            del self._coming[subscription]
        if not error:
            self._tell(subscription, None)
        subscription.settle(error)

    def _listen(self, connection: Connection, topic: Topic) -> None:
        if topic not in self._channels.values() and not is_pooled(connection):
            self._channels[notifications.listen_to(connection, topic.name)] = topic

    def _unlisten(self, connection: Connection) -> timedelta:
        """Stop listening to what was not subscribed to for a while; return how long to wait."""
        now, left = monotonic(), PROBE_EVERY.total_seconds()
        for channel, topic in list(self._channels.items()):
            if topic in self._subscribed:
                self._unused_since.pop(channel, None)
                continue
            lingers = self._unused_since.setdefault(channel, now) + LINGER.total_seconds() - now
            if lingers <= 0:
                notifications.unlisten(connection, channel)
                del self._channels[channel], self._unused_since[channel]
            else:
                left = min(left, lingers)
        if not self._subscribed:
            left = min(left, self._idle_since + LINGER.total_seconds() - now)
        return timedelta(seconds=max(0, left))

    def _work(self, connection: Connection) -> timedelta:
        """Do the subscriptions' own work; return until when there is none."""
        with _lock:
            working = [each.between for each in self._working if each.between]
        return min([PROBE_EVERY, *(between(connection) for between in working)])

    def _pass_on(self, connection: Connection) -> bool:
        """Pass on the notifications that have come; return whether there were any."""
        came = list(connection.notifies(timeout=0))
        for notification in came:
            if topic := self._channels.get(notification.channel):
                self._pass_on_one(topic, notification.payload)
        return bool(came)

    def _pass_on_one(self, topic: Topic, text: str) -> None:
        try:
            key, news = topic.read(text)
        except Exception as error:  # anyone may notify anything on our channels
            signals.send(signals.service_failed, type(self), service=self.name, error=error)
            return
        with _lock:
            subscribed = self._subscribed.get(topic, {}).get(key, ())
            subscriptions = [each for each in subscribed if each not in self._coming]
        for each in subscriptions:
            self._tell(each, news)

    def _tell(self, subscription: TopicListener, news: Any) -> None:
        try:
            subscription.heard(news)
        except BaseException as error:  # the others must hear it all the same
            signals.send(signals.service_failed, type(self), service=self.name, error=error)

    def _new(self) -> list[TopicListener]:
        with _lock:
            return list(self._coming)

    def _all(self) -> list[TopicListener]:
        with _lock:
            keys = [key for topic in self._subscribed.values() for key in topic.values()]
            return [each for subscriptions in keys for each in subscriptions]

    def wake(self) -> None:
        """End the wait."""
        super().wake()
        self._wakeup.set()

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
        self._wakeup.close()


_lock = threading.Lock()
_open: dict[tuple[int, str], Listener] = {}
"""By process: a fork inherits its parent's connection, but not the thread that listens on it."""

if hasattr(os, "register_at_fork"):
    # If another thread held the lock at the fork, it would stay locked in the child for ever.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
