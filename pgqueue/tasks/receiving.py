"""Receive messages without a worker: in a script, a thread or an event loop of one's own.

Nothing renews the lease of what was received: a consumer asks for one that is long enough for
all that it receives at once, or extends it.
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
from pgqueue.tasks.delivery import Delivery
from pgqueue.tasks.options import checked_message
from pgqueue.values.number_checks import as_timedelta

Wait = float | timedelta | Literal[True]


def receive(
    *channels: str,
    limit: int = 1,
    lease: float | timedelta | None = None,
    wait: Wait = 0,
    database: str | None = None,
) -> Receiver:
    """Receive messages, raw ones and those of tasks, to be settled by who receives them.

        with receive("mail", limit=10, lease=60, wait=5) as deliveries:
            for delivery in deliveries:
                post(delivery.payload)
                delivery.complete()

    Args:
        channels: those to receive from; none: all of them.
        limit: how many are leased at once, at most.
        lease: seconds or a timedelta for which each is the consumer's, from when it was leased,
            also as it waits for its turn; None: as `PGQUEUE["LEASE"]` says.
        wait: seconds or a timedelta to wait for the first one where there is none; True: to go
            on until closed.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Returns:
        An iterator of deliveries: up to `limit`; with wait=True, one after the other without end.

    Raises:
        ValueError, TypeError, InvalidMessage: an argument can't be.
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
    """Receive messages in async code: what `receive` returns, to be used by `async for`."""
    patience = _patience(wait)
    return AsyncReceiver(_consumer(channels, limit, lease, database), patience)


class Receiver:
    """Deliveries, as they are iterated over. `receive` makes one.

    Use it in a `with`, and iterate over it as often as you like; without one, it is closed at
    the end of the first iteration. Closing hands back what was leased and not iterated to.
    """

    def __init__(self, consumer: PullClient, patience: float) -> None:
        self._consumer = consumer
        self._patience = patience
        self._is_entered = False

    @property
    def next_due_in(self) -> timedelta | None:
        """Where there was none: how long until one may be, being delayed or bound by a rate."""
        return self._consumer.next_due_in

    def __enter__(self) -> Receiver:
        self._is_entered = True
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Delivery]:
        """Yield up to `limit` deliveries, or all until it is closed.

        Raises:
            psycopg.OperationalError: the database is away as it begins, or for longer than `wait`.
                With `wait=True` it waits until the database is back.
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
        """Return up to `limit` deliveries; none if there was none in time, or it is closed.

        Raises:
            ReceiverClosed: it was closed before.
            psycopg.OperationalError: the database can't be reached.
        """
        if self._consumer.is_closed:
            raise ReceiverClosed
        self._fill()
        taken: list[Taken] = []
        with self._consumer.putting_back(taken):
            taken.extend(iter(lambda: _next(self._consumer), None))
        return [_delivery(each, self._consumer) for each in taken]

    def close(self) -> None:
        """End it, and the iteration that another thread is at. A signal handler may."""
        self._consumer.close()

    def _fill(self) -> None:
        until = monotonic() + self._patience
        while not self._consumer.look(until):
            pass


class AsyncReceiver:
    """What a Receiver is, in an event loop. `areceive` makes one.

    It looks for messages in a thread of its own. A wait that is cancelled loses nothing: what
    it leased after all is what the next one begins with.
    """

    def __init__(self, consumer: PullClient, patience: float) -> None:
        self._consumer = consumer
        self._patience = patience
        self._is_entered = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="receiver")

    @property
    def next_due_in(self) -> timedelta | None:
        """Where there was none: how long until one may be, being delayed or bound by a rate."""
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
        """Do what `Receiver.take` does."""
        if self._consumer.is_closed:
            raise ReceiverClosed
        await self._fill()
        taken: list[Taken] = []
        with self._consumer.putting_back(taken):
            while each := await self._next():
                taken.append(each)
        return [_delivery(each, self._consumer) for each in taken]

    async def aclose(self) -> None:
        """End it, and the iteration that another coroutine is at."""
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
    leased = settings().lease if lease is None else as_timedelta(lease)
    if leased <= timedelta():
        raise ValueError(f"lease={lease!r}: it must be longer than 0 seconds.")
    return PullClient(
        database or settings().database, channels=channels or None, limit=limit, lease=leased
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
