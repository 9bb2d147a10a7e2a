"""Receive messages without a worker: in a script, a thread or an event loop of one's own.

Nothing renews the lease of a received message. The consumer must ask for a lease that is long
enough for all messages that it receives at once, or extend it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic
from typing import Literal

from pgqueue.claiming.consumer import PullClient, Taken
from pgqueue.conf import settings
from pgqueue.exceptions import ReceiverClosed
from pgqueue.tasks import tenants
from pgqueue.tasks.delivery import Delivery
from pgqueue.tasks.options import checked_message
from pgqueue.values.error_words import checked_option
from pgqueue.values.number_checks import as_duration, as_timedelta

Wait = float | timedelta | Literal[True]


def receive(
    *channels: str,
    limit: int = 1,
    lease: float | timedelta | None = None,
    wait: Wait = 0,
    database: str | None = None,
) -> Receiver:
    """Receive raw messages and messages of tasks. The receiver must settle each of them.

        with receive("mail", limit=10, lease=60, wait=5) as deliveries:
            for delivery in deliveries:
                post(delivery.payload)
                delivery.complete()

    Args:
        channels: the channels to receive from; none: all channels.
        limit: the maximum number of messages that are leased at once.
        lease: seconds or a timedelta. The lease of each message starts when it is leased, also
            while it waits for its turn in the loop. None: as `PGQUEUE["LEASE"]` says.
        wait: seconds or a timedelta to wait for the first message. True: go on until the
            receiver is closed.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Returns:
        An iterator of deliveries: up to `limit`; with wait=True, one after the other without end.

    Raises:
        ValueError, TypeError, InvalidMessage: an argument is invalid.
    """
    patience = _patience(wait)
    return Receiver(_consumer(channels, limit, lease, database), patience)


def areceive(
    *channels: str,
    limit: int = 1,
    lease: float | timedelta | None = None,
    wait: Wait = 0,
    database: str | None = None,
) -> AsyncReceiver:
    """Receive messages in async code, as `receive` does: use the receiver in an `async for`."""
    patience = _patience(wait)
    return AsyncReceiver(_consumer(channels, limit, lease, database), patience)


class Receiver:
    """An iterable of deliveries. `receive` makes it.

    Use it in a `with`, and iterate over it as often as you like. Without a `with`, the end of the
    first iteration closes it. Closing hands back the leased messages that were not yielded.
    """

    def __init__(self, consumer: PullClient, patience: float) -> None:
        self._consumer = consumer
        self._patience = patience
        self._is_entered = False

    @property
    def next_due_in(self) -> timedelta | None:
        """The time until a delayed or rate-limited message may be due, if none was due."""
        return self._consumer.next_due_in

    def __enter__(self) -> Receiver:
        self._is_entered = True
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Delivery]:
        """Yield up to `limit` deliveries, or all until it is closed.

        Raises:
            psycopg.OperationalError: the database is unreachable at the start, or for longer than
                `wait`. With `wait=True` the receiver waits until the database is back.
        """
        try:
            while not self._consumer.is_closed:
                self._fill()
                while taken := _next(self._consumer):
                    yield _delivery(taken, self._consumer)
                if self._patience < math.inf:
                    return
        finally:
            if not self._is_entered:
                self.close()

    def take(self) -> list[Delivery]:
        """Return up to `limit` deliveries; none if no message came in time, or on a close.

        Raises:
            ReceiverClosed: the receiver was closed before the call.
            psycopg.OperationalError: the database is unreachable.
        """
        if self._consumer.is_closed:
            raise ReceiverClosed
        self._fill()
        taken: list[Taken] = []
        with self._consumer.putting_back(taken):
            taken.extend(iter(lambda: _next(self._consumer), None))
        return [_delivery(each, self._consumer) for each in taken]

    def close(self) -> None:
        """End the receiver, and any iteration in another thread. Safe in a signal handler."""
        self._consumer.close()

    def _fill(self) -> None:
        until = monotonic() + self._patience
        while not self._consumer.look(until):
            pass


class AsyncReceiver:
    """A Receiver for an event loop. `areceive` makes it.

    It looks for messages in a thread of its own. A cancelled wait loses no message: the next wait
    begins with the messages that the cancelled one has leased.
    """

    def __init__(self, consumer: PullClient, patience: float) -> None:
        self._consumer = consumer
        self._patience = patience
        self._is_entered = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="receiver")

    @property
    def next_due_in(self) -> timedelta | None:
        """The time until a delayed or rate-limited message may be due, if none was due."""
        return self._consumer.next_due_in

    async def __aenter__(self) -> AsyncReceiver:
        self._is_entered = True
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Yield up to `limit` deliveries, or all until it is closed."""
        try:
            while not self._consumer.is_closed:
                await self._fill()
                while taken := await self._next():
                    yield _delivery(taken, self._consumer)
                if self._patience < math.inf:
                    return
        finally:
            if not self._is_entered:
                await self.aclose()

    async def take(self) -> list[Delivery]:
        """Do the same as `Receiver.take`."""
        if self._consumer.is_closed:
            raise ReceiverClosed
        await self._fill()
        taken: list[Taken] = []
        with self._consumer.putting_back(taken):
            while each := await self._next():
                taken.append(each)
        return [_delivery(each, self._consumer) for each in taken]

    async def aclose(self) -> None:
        """End the receiver, and any iteration in another coroutine."""
        self._consumer.stop()
        await asyncio.to_thread(self._consumer.close)
        self._thread.shutdown(wait=False)

    async def _fill(self) -> None:
        until = monotonic() + self._patience
        loop = asyncio.get_running_loop()
        while not self._consumer.is_closed:
            if await loop.run_in_executor(self._thread, self._consumer.look, until):
                return

    async def _next(self) -> Taken | None:
        taken = self._consumer.next()
        if taken and taken.claim.lost:
            loop = asyncio.get_running_loop()
            with self._consumer.putting_back([taken]):
                await loop.run_in_executor(self._thread, self._consumer.begin, taken.claim)
        return taken


def _consumer(
    channels: Sequence[str],
    limit: int,
    lease: float | timedelta | None,
    database: str | None,
) -> PullClient:
    for name in channels:
        checked_message({"channel": name})
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ValueError(f"limit={limit!r}: it must be a whole number, 1 or more.")
    leased = settings().lease if lease is None else checked_option(as_duration, "lease", lease)
    return PullClient(
        database or settings().database,
        channels=channels or None,
        limit=limit,
        lease=leased,
        tenant_of=tenants.counted_for(),
    )


def _patience(wait: Wait) -> float:
    return math.inf if wait is True else as_timedelta(wait).total_seconds()


def _next(consumer: PullClient) -> Taken | None:
    taken = consumer.next()
    if taken and taken.claim.lost:
        with consumer.putting_back([taken]):
            consumer.begin(taken.claim)
    return taken


def _delivery(taken: Taken, consumer: PullClient) -> Delivery:
    waited = monotonic() - taken.taken_at
    return Delivery(
        taken.claim, consumer.database, consumer.lease, taken.taken_at, waited, consumer.count
    )
