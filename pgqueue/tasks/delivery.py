from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, partial
from time import monotonic
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from pgqueue.calls.outcomes import (
    Deferred,
    Died,
    Ending,
    HandedBack,
    Retried,
    Succeeded,
)
from pgqueue.calls.stand_ins import stand_in
from pgqueue.claiming.run_counts import CountedRun, TimedRun
from pgqueue.codec import raw
from pgqueue.codec.arguments import Codec
from pgqueue.codec.encoding import Returned
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import lease as leases
from pgqueue.engine import settle
from pgqueue.engine.errors import describe
from pgqueue.engine.settle import Deferral, Done, Failure
from pgqueue.engine.values import Claim, Connection
from pgqueue.exceptions import InvalidMessage, LeaseLost, RetryRequested, UnreadablePayload
from pgqueue.options.retries import Backoff, Exponential
from pgqueue.tasks import flow_results, redacting, registry
from pgqueue.tasks.options import checked_message
from pgqueue.values.error_words import checked_option
from pgqueue.values.escaping import logger_of
from pgqueue.values.number_checks import as_duration, as_timedelta

logger = logger_of(__name__)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Delivery:
    """A received message, leased by this consumer.

    Each method that changes the message joins the transaction that is open on the queue's
    database. It raises `LeaseLost` if the lease has ended: another consumer may have the message.
    A message that is neither settled nor released is received again after its lease has ended.
    That counts as a lost consumer.
    """

    claim: Claim
    database: str
    """The alias of the database that the message is in."""
    lease: timedelta
    """The duration of the lease. Nothing renews it by itself."""
    taken_at: float
    """The time of the lease's start, by the monotonic clock."""
    started: float
    """Seconds from `taken_at` until the consumer got the delivery."""
    _count: Callable[[TimedRun, Ending], None] = field(default=lambda run, ending: None, repr=False)
    """Counts the delivery's ending."""

    def __repr__(self) -> str:
        return f"<Delivery {self.id} of {self.channel}>"

    @property
    def id(self) -> int:
        """The message's id."""
        return self.claim.id

    @property
    def channel(self) -> str:
        """The channel it is on."""
        return self.claim.channel

    @property
    def key(self) -> str:
        """Its sub-queue in the channel."""
        return self.claim.key

    @property
    def task(self) -> str:
        """The import path of its task; '' of a raw message."""
        return self.claim.task

    @cached_property
    def payload(self) -> Any:
        """The payload that was sent; for a task's message, a dict of its args and kwargs."""
        return raw.decode(f"the payload of message {self.id}", self.claim.payload)

    @property
    def body(self) -> bytes | None:
        """The bytes that were sent, perhaps beside a payload."""
        return self.claim.body

    @property
    def args(self) -> list[Any]:
        """The positional arguments that its task is called with.

        Raises:
            UnreadablePayload: its task is unknown here, or the arguments do not fit that task.
        """
        return self._call[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments that its task is called with."""
        return self._call[1]

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata that the producer gave the message."""
        metadata: dict[str, Any] = json.loads(self.claim.metadata)
        return metadata

    @cached_property
    def progress(self) -> Any:
        """The progress that the last `checkpoint()` or `defer()` noted; None at first."""
        if self.claim.progress and self._encrypts:
            return self._encrypts.decode_progress(self.claim.progress)
        return raw.decode(f"the progress of message {self.id}", self.claim.progress)

    @property
    def attempt(self) -> int:
        """The number of times that it was received or run, including this one."""
        return self.claim.attempt

    @property
    def failures(self) -> int:
        """The number of its failures."""
        return self.claim.failures

    @property
    def lost(self) -> int:
        """The number of its lost leases."""
        return self.claim.lost

    def complete(self) -> None:
        """Mark the message as succeeded: it moves into history.

        Raises:
            LeaseLost: the lease has ended; another consumer may have the message.
        """
        took = monotonic() - self.taken_at
        done = Done(self.claim, None, self.started, took)
        self._settle(settle.complete, done, Succeeded(None))

    def retry(
        self,
        delay: float | timedelta | None = None,
        *,
        error: BaseException | str = "",
    ) -> None:
        """Charge a failure, and have the message received again.

        After `max_attempts` failures the message is dead.

        Args:
            delay: seconds or a timedelta; None: as `PGQUEUE["BACKOFF"]` says, which may give up.
                If that fails, it is logged, and the default backoff applies.
            error: an exception or a text that is stored with the message.

        Raises:
            LeaseLost: the lease has ended; another consumer may have the message.
        """
        cause = error if isinstance(error, BaseException) else RetryRequested(error)
        failed = replace(self, claim=self.claim._replace(failures=self.failures + 1))
        if delay is None:
            delay = self._delay(settings().backoff, cause, failed)
        shown = stand_in(cause, redacting.hiding(self.claim))
        entry = describe(shown, attempt=self.attempt, worker=str(self.claim.worker_id))
        if delay is None or failed.failures >= self.claim.max_attempts:
            failure = Failure(self.claim, entry, self.started)
            self._settle(settle.bury, failure, Died(cause, entry))
        else:
            after = as_timedelta(delay)
            failure = Failure(self.claim, entry, self.started, after)
            self._settle(settle.retry, failure, Retried(cause, entry, after))

    def defer(
        self,
        delay: float | timedelta,
        *,
        progress: Any = None,
        payload: Any = None,
        body: bytes | None = None,
    ) -> None:
        """Have the message received again after a delay, without charging it.

        Args:
            delay: seconds or a timedelta.
            progress: a value for the next receiver, of any type that a payload may have.
            payload, body: new values; only for a raw message.

        Raises:
            LeaseLost: the lease has ended; another consumer may have the message.
            InvalidMessage: a value is not storable, or the message is not raw.
        """
        deferral = Deferral(self.claim, as_timedelta(delay))
        with transaction.atomic(using=self.database):
            self.checkpoint(progress, payload=payload, body=body)
            self._settle(settle.defer, deferral, Deferred(deferral.delay, None))

    def release(self) -> None:
        """Hand the message back at once, without charging it.

        Raises:
            LeaseLost: the lease has ended; another consumer may have the message.
        """
        self._settle(settle.defer, Deferral(self.claim, timedelta()), HandedBack())

    def extend(self, lease: float | timedelta | None = None) -> None:
        """Lease the message for this time from now, in seconds or as a timedelta.

        None: for the duration of its first lease. In an open transaction the new lease takes
        effect at the commit.

        Raises:
            LeaseLost: the lease has ended; another consumer may have the message.
            ValueError: `lease` is not above 0 seconds, or is beyond a hundred years.
        """
        span = self.lease if lease is None else checked_option(as_duration, "lease", lease)
        with borrow(self.database) as connection:
            if not leases.extend(connection, [self.claim], lease=span):
                raise self._lost()

    def checkpoint(
        self, progress: Any = None, *, payload: Any = None, body: bytes | None = None
    ) -> None:
        """Store the progress for the next receiver, in case this one fails.

        Args:
            progress: a value of any type that a payload may have; None: unchanged.
            payload, body: new values; only for a raw message.

        Raises:
            LeaseLost: the lease has ended; another consumer may have the message.
            InvalidMessage: a value is not storable, or the message is not raw.
        """
        if self.task and not (payload is None and body is None):
            raise InvalidMessage(
                f"Message {self.id} is of {self.task}: only a raw one's payload and body change."
            )
        noted = {
            "progress": self._progress(progress),
            "payload": raw.encode(f"the payload of message {self.id}", payload),
            "body": checked_message({"body": body})["body"],
        }
        with borrow(self.database) as connection:
            if not leases.checkpoint(connection, self.claim, **noted):
                raise self._lost()

    async def acomplete(self) -> None:
        """Do the same as `complete`, from async code."""
        await sync_to_async(self.complete)()

    async def aretry(
        self,
        delay: float | timedelta | None = None,
        *,
        error: BaseException | str = "",
    ) -> None:
        """Do the same as `retry`, from async code."""
        await sync_to_async(self.retry)(delay, error=error)

    async def adefer(
        self,
        delay: float | timedelta,
        *,
        progress: Any = None,
        payload: Any = None,
        body: bytes | None = None,
    ) -> None:
        """Do the same as `defer`, from async code."""
        await sync_to_async(self.defer)(delay, progress=progress, payload=payload, body=body)

    async def arelease(self) -> None:
        """Do the same as `release`, from async code."""
        await sync_to_async(self.release)()

    async def aextend(self, lease: float | timedelta | None = None) -> None:
        """Do the same as `extend`, from async code."""
        await sync_to_async(self.extend)(lease)

    async def acheckpoint(
        self, progress: Any = None, *, payload: Any = None, body: bytes | None = None
    ) -> None:
        """Do the same as `checkpoint`, from async code."""
        await sync_to_async(self.checkpoint)(progress, payload=payload, body=body)

    def _progress(self, progress: Any) -> str | None:
        if progress is not None and self._encrypts:
            return self._encrypts.encode_progress(progress)
        return raw.encode(f"the progress of message {self.id}", progress)

    @cached_property
    def _encrypts(self) -> Codec | None:
        """The codec of its task, if the task is encrypted."""
        declared = registry.find(self.task) if self.task else None
        return declared.codec if declared is not None and declared.encrypted else None

    @cached_property
    def _call(self) -> tuple[list[Any], dict[str, Any]]:
        declared = registry.find(self.task) if self.task else None
        if declared is None:
            named = f"no task is named {self.task} here" if self.task else "it is a raw one"
            raise UnreadablePayload(f"Message {self.id} has no arguments: {named}.")
        is_of_flow = self.claim.flow_id is not None
        return declared.codec.decode(self.claim.payload or b"", self._take if is_of_flow else None)

    def _take(self, ids: Collection[int]) -> Mapping[int, Returned]:
        """Return the results of other messages of its flow, for the arguments."""
        taken = flow_results.results(self.database, ids, since=self.claim.created_at)
        # Errors must not quote redacted values of the results.
        object.__setattr__(self, "claim", self.claim._replace(taken=tuple(taken.items())))
        return taken

    def _delay(self, backoff: Backoff, error: BaseException, failed: Delivery) -> timedelta | None:
        """Return the delay by the project's backoff; None: it gives up."""
        try:
            delay = backoff(error, failed)
            return None if delay is None else max(as_timedelta(delay), timedelta())
        except Exception as second:
            shown = stand_in(second, redacting.hiding(self.claim))
            logger.error(
                "The backoff of the channel %s failed; the default backoff applies",
                self.channel,
                exc_info=shown,
            )
            return timedelta(seconds=Exponential()(error, failed))

    def _settle(
        self, verb: Callable[[Connection, list[T]], set[int]], end: T, ending: Ending
    ) -> None:
        with borrow(self.database) as connection:
            settled = verb(connection, [end])
        if not settled:
            # The lease has ended; or another transaction, for example an operator's, has the lock.
            with self._locked() as connection:
                verb(connection, [end])
        started = self.taken_at + self.started
        count = partial(
            self._count, CountedRun(self.claim, self.taken_at, started, monotonic()), ending
        )
        if connections[self.database].in_atomic_block:
            transaction.on_commit(count, using=self.database)
        else:
            count()

    @contextmanager
    def _locked(self) -> Iterator[Connection]:
        """Lock the message's row in the block, after waiting for other transactions."""
        with transaction.atomic(using=self.database), borrow(self.database) as connection:
            if not leases.lock(connection, self.claim):
                raise self._lost()
            yield connection

    def _lost(self) -> LeaseLost:
        return LeaseLost(
            f"Message {self.id} of the channel {self.channel!r} may be another consumer's by now: "
            f"its lease of {self.lease.total_seconds():g} s ran out, or it was settled before. "
            "Ask for a longer lease=, or extend() it in time."
        )
