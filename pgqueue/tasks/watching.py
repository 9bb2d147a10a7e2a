"""See what happens to the messages of a channel as it happens.

All watches of a process share its one listening connection, which looks up by a notice's channel
which of them it is for.
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
    """What happened to a message.

    Attributes:
        event: *created*: it was stored. *started*: a worker took it. *deferred*: its run is over,
            and there will be another. *ended*: it left the queue, or is dead. *replayed*: it was
            dead, and begins again.
        outcome: of what ended, how: succeeded, dead, cancelled, discarded or expired. Of what was
            deferred, why, if something went wrong: failed (it raised an error) or lost (its worker
            died). Else None.
    """

    channel: str
    id: str
    event: NoticeKind
    outcome: str | None = None


NOTICE_FIELDS = [field.name for field in fields(Notice)]


def _read(text: str) -> tuple[str, Notice]:
    """Return the channel and the notice of a notification."""
    told = json.loads(text)
    # A later version may tell more.
    known = {name: told[name] for name in NOTICE_FIELDS if name in told}
    return told["channel"], Notice(**{**known, "id": str(told["id"])})


NOTICES = Topic(notifications.NOTICES, read=_read)


class Watch:
    """The notices of a channel, from when it is opened until it is closed; any thread may do that.

    `with` opens and closes it; so does a loop, of one that is not open.
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
        """Hear no more. Loops end when they have yielded what came until now."""
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
    """Notices that came, and promises to those who wait for the next one.

    It is not bounded: a loop that is slow delays neither the listener nor other watches.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notices: deque[Notice] = deque()
        self._promises: deque[Future[Notice | None]] = deque()
        self._is_closed = False

    def put(self, notice: Notice) -> None:
        """Add what came."""
        with self._lock:
            self._notices.append(notice)
            self._keep_promises()

    def take(self) -> Future[Notice | None]:
        """Promise the next one; None: there is none, and it is closed."""
        promise: Future[Notice | None] = Future()
        with self._lock:
            self._promises.append(promise)
            self._keep_promises()
        return promise

    def close(self) -> None:
        """End all waits: nothing more will come."""
        with self._lock:
            self._is_closed = True
            self._keep_promises()

    def _keep_promises(self) -> None:
        while self._promises and (self._notices or self._is_closed):
            # A wait may have been cancelled: then the notice is for the next one.
            if (promise := self._promises.popleft()).set_running_or_notify_cancel():
                promise.set_result(self._notices.popleft() if self._notices else None)


def watch(channel: str, *, database: str | None = None) -> Watch:
    """Yield a `Notice` of each thing that happens to the channel's messages, as it happens.

        for notice in watch("mail"): ...
        async for notice in watch("mail"): ...

    Notices are switched on for a channel by its `watched`. A watch yields those of transactions
    that commit while it listens, in the order of the commits: none from before, and none from while
    the connection was lost.

    Args:
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        ChannelNotWatched: as the loop, or a `with`, begins: notices of the channel are off.
        NothingToHear: a transaction pooler is in between.
        NotMigrated: the database lacks our tables, or has old ones.
    """
    return Watch(channel, database or settings().database)
