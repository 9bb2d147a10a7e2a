"""Watch the life of a channel's messages by notices in real time.

All watches of a process share its one listening connection. It passes each notice to the watches
of the notice's channel.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any, Literal

import psycopg

from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.database.transactions import is_pooled
from pgqueue.engine import notifications
from pgqueue.exceptions import ChannelNotWatched, NothingToHear
from pgqueue.threads.listener import Topic, TopicListener, subscribe

NoticeKind = Literal["created", "started", "deferred", "ended", "replayed"]


@dataclass(frozen=True, slots=True)
class Notice:
    """A change of a message's state.

    Attributes:
        event: *created*: the message was stored. *started*: a worker claimed it. *deferred*: its
            run is over, and another run will follow. *ended*: it left the queue, or is dead.
            *replayed*: it was dead, and starts again.
        outcome: for *ended*: succeeded, dead, cancelled, discarded or expired. For *deferred*
            after a fault: failed (the run raised an error) or lost (its worker died). Else None.
    """

    channel: str
    id: str
    event: NoticeKind
    outcome: str | None = None


NOTICE_FIELDS = [field.name for field in fields(Notice)]


def _read(text: str) -> tuple[str, Notice]:
    """Return the channel and the notice of a notification."""
    told = json.loads(text)
    # A later version may send further fields.
    known = {name: told[name] for name in NOTICE_FIELDS if name in told}
    return told["channel"], Notice(**{**known, "id": str(told["id"])})


NOTICES = Topic(notifications.NOTICES, read=_read)


class Watch:
    """The notices of a channel while the watch is open. Any thread may open and close it.

    A `with` opens and closes the watch. A loop over a watch that is not open does so, too.
    """

    def __init__(self, channel: str, database: str) -> None:
        self._channel = channel
        self._database = database
        self._subscription: TopicListener | None = None
        self._mailbox = Mailbox()

    def __enter__(self) -> Watch:
        begun = self._subscribe()
        try:
            with needing_tables(self._database):
                begun.result()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Watch:
        begun = self._subscribe()
        try:
            with needing_tables(self._database):
                await asyncio.wrap_future(begun)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Notice]:
        with nullcontext() if self._subscription else self:
            while notice := self._mailbox.take().result():
                yield notice

    async def __aiter__(self) -> AsyncIterator[Notice]:
        async with nullcontext() if self._subscription else self:
            while notice := await asyncio.wrap_future(self._mailbox.take()):
                yield notice

    def close(self) -> None:
        """Stop listening. Loops end when they have yielded the notices that came before."""
        subscription, self._subscription = self._subscription, None
        if subscription:
            subscription.close()
        self._mailbox.close()

    def _subscribe(self) -> Future[None]:
        self._mailbox = Mailbox()
        self._subscription = subscribe(
            self._database,
            TopicListener(topic=NOTICES, key=self._channel, heard=self._hear, check=self._check),
        )
        return self._subscription.begun

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        if is_pooled(connection):
            raise NothingToHear
        if not notifications.is_watched(connection, self._channel):
            raise ChannelNotWatched(
                f"Notices of the channel {self._channel!r} are off: switch them on by "
                f"Channel({self._channel!r}).configure(watched=True), or in the admin."
            )

    def _hear(self, notice: Notice | None) -> None:
        if notice:
            self._mailbox.put(notice)


class Mailbox:
    """A queue of notices, and the promises of the waits for the next notice.

    It is not bounded, so that a slow loop delays neither the listener nor other watches.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notices: deque[Notice] = deque()
        self._promises: deque[Future[Notice | None]] = deque()
        self._is_closed = False

    def put(self, notice: Notice) -> None:
        """Add a notice."""
        with self._lock:
            self._notices.append(notice)
            self._keep_promises()

    def take(self) -> Future[Notice | None]:
        """Return a promise of the next notice; None: the mailbox is empty and closed."""
        promise: Future[Notice | None] = Future()
        with self._lock:
            self._promises.append(promise)
            self._keep_promises()
        return promise

    def close(self) -> None:
        """End all waits: no further notice will come."""
        with self._lock:
            self._is_closed = True
            self._keep_promises()

    def _keep_promises(self) -> None:
        while self._promises and (self._notices or self._is_closed):
            # If a wait was cancelled, the next wait gets the notice.
            if (promise := self._promises.popleft()).set_running_or_notify_cancel():
                promise.set_result(self._notices.popleft() if self._notices else None)


def watch(channel: str, *, database: str | None = None) -> Watch:
    """Yield a `Notice` for each change of state of the channel's messages, in real time.

        for notice in watch("mail"): ...
        async for notice in watch("mail"): ...

    The `watched` setting of a channel switches its notices on. A watch yields the notices of
    transactions that commit while it listens, in the order of the commits. It yields no notices
    from before, and none from the time of a lost connection.

    Args:
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        ChannelNotWatched: at the start of the loop or `with`: notices of the channel are off.
        NothingToHear: a transaction pooler is in between.
        NotMigrated: the database lacks pgqueue's tables, or has old ones.
    """
    return Watch(channel, database or settings().database)
