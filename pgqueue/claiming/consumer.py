"""Claim messages for a consumer, which takes them one by one."""

from __future__ import annotations

import os
import platform
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import NamedTuple

from psycopg import Error, InternalError, OperationalError

from pgqueue import signals
from pgqueue.calls.outcomes import Ending, HandedBack
from pgqueue.claiming.claimer import Claimed, Claimer, size_left
from pgqueue.claiming.idle import SHORTEST_PAUSE, Idle
from pgqueue.claiming.listener import ClaimListener
from pgqueue.claiming.registration import Registration
from pgqueue.claiming.run_counts import Tally, TimedRun
from pgqueue.conf import settings
from pgqueue.database.connections import Session, borrow
from pgqueue.database.migration_check import needing_tables
from pgqueue.duties.all import consumer_duties
from pgqueue.duties.inline import InlineDuties
from pgqueue.engine import lease as leases
from pgqueue.engine import promote, settle
from pgqueue.engine.values import Claim, Connection
from pgqueue.engine.workers import WorkerInfo, versions
from pgqueue.threads.service import backoff_after

LONGEST_BACKOFF = timedelta(seconds=2)
LONGEST_NAP = 1.0
"""Seconds that one look waits for an unreachable database."""


class Taken(NamedTuple):
    """A claim, and when it was there, by the monotonic clock."""

    claim: Claim
    taken_at: float


class PullClient:
    """Claims up to `limit` messages whenever none of its claimed messages is left.

    Call `look()` until it returns True, then `next()` until it returns None. Several threads may
    use one consumer: they look one at a time. Any thread may close it, and so may a signal handler:
    closing waits for no lock.

    Args:
        database: the alias of the queue's database.
        channels: the channels to claim from; None: all, also future ones.
        lease: how long each message is leased.
        tenant_of: see `run_counts.Tally`.
    """

    def __init__(
        self,
        database: str,
        *,
        channels: Sequence[str] | None,
        limit: int,
        lease: timedelta,
        tenant_of: Callable[[Claim], str] | None = None,
    ) -> None:
        options = settings()
        self.database = database
        self.lease = lease
        self._channels = channels
        self._limit = limit
        self._session = Session(database, name="receiver")
        self._registration = Registration(self._info(), notify_for=2 * options.heartbeat)
        self._claimer = Claimer(
            self._session,
            self._registration,
            channels=channels,
            excluded=[],
            lease=lease,
        )
        self._tally = Tally(tenant_of)
        self._duties = InlineDuties(consumer_duties(), lease=options.lease)
        self._listener = ClaimListener(self._claimer.serves)
        self._taken: deque[Taken] = deque()
        self._using = threading.Lock()
        self._idle = Idle(options.poll_interval, full_claims_when_busy=None)
        self._beat_every = options.heartbeat.total_seconds()
        self._beat_at = monotonic() + self._beat_every
        self._has_ended = False
        self._has_looked = False
        self._failures = 0
        self.is_closed = False
        self.next_due_in: timedelta | None = None
        """After a look that found nothing in time: how long until the next message is due."""

    def __len__(self) -> int:
        return len(self._taken)

    def look(self, until: float) -> bool:
        """Claim, or nap for a second at most; return whether the search is over.

        It is over once a message was claimed, the consumer was closed, or `until` has passed.

        Args:
            until: by the monotonic clock.

        Raises:
            psycopg.OperationalError: the first look found no database, or none came back in time.
            NotMigrated: the database lacks our tables, or has old ones.
        """
        try:
            with self._using, needing_tables(self.database):
                return self._look_or_wait(until)
        finally:
            if self.is_closed:
                self._end()

    def next(self) -> Taken | None:
        """Return the next claimed message; None if there is none, or the consumer is closed."""
        return None if self.is_closed else self._pop()

    @contextmanager
    def putting_back(self, taken: Sequence[Taken]) -> Iterator[None]:
        """Put these messages back if the block fails: they were not delivered."""
        try:
            yield
        except BaseException:
            self._taken.extendleft(reversed(taken))
            raise

    def begin(self, claim: Claim) -> None:
        """Store that the delivery of a message has begun, where an earlier run lost its lease.

        Raises:
            psycopg.OperationalError: the database is out of reach.
        """
        try:
            with self._using:
                leases.begin(self._claimer.connect().connection, [claim])
        finally:
            if self.is_closed:
                self._end()

    def count(self, run: TimedRun, ending: Ending) -> None:
        """Count the outcome of a delivered message, once it is committed.

        The next heartbeat stores the count. After the consumer's end it is stored at once.
        """
        if isinstance(ending, HandedBack):
            self._tally.add_released([run.claim])
        else:
            self._tally.add([(run, ending)])
        if self._has_ended:
            with borrow(self.database) as connection:
                self._tally.close(connection)

    def stop(self) -> None:
        """Close it for all threads; a `look()` that waits returns."""
        self.is_closed = True
        self._listener.wake()

    def close(self) -> None:
        """Hand back the messages that were not taken, and close the connection.

        If another thread is in `look()` now, that thread does both.
        """
        self.stop()
        self._end()

    def _look_or_wait(self, until: float) -> bool:
        """Look; wait a while for a database that was there before, if there is time left."""
        try:
            is_over = self._look(until)
        except (OperationalError, InternalError) as error:
            self._session.close_after(error)
            left = until - monotonic()
            if self._has_looked and left > 0:
                self._failures += 1
                signals.send(signals.service_failed, type(self), service="receiver", error=error)
                nap = backoff_after(self._failures, longest=LONGEST_BACKOFF).total_seconds()
                self._listener.wait(min(nap, left, LONGEST_NAP))
                return self.is_closed
            if isinstance(error, InternalError):
                raise OperationalError(str(error)) from error
            raise
        self._has_looked, self._failures = True, 0
        return is_over

    def _look(self, until: float) -> bool:
        if self._taken or self.is_closed:
            return True
        is_the_last = until <= monotonic()
        try:
            claimed = self._claim(is_the_last)
        except OperationalError:
            if self._session.is_open:
                raise
            # The connection broke while it was unused: try once with a new one.
            claimed = self._claim(is_the_last)
        if not claimed and is_the_last:
            self.next_due_in = self._next_due()
        if claimed or is_the_last:
            return True
        self._wait(until - monotonic())
        return self.is_closed

    def _claim(self, is_the_last: bool) -> int:
        connection = self._claimer.connect().connection
        self._duties.look(connection)
        self._beat(connection)
        # A claim divides its limit among channels and keys. Claim again where some use less.
        claimed = more = self._take(self._limit, is_the_last)
        while more and claimed < self._limit and self._size_left() > 0:
            more = self._take(self._limit - claimed, False)
            claimed += more
        if claimed:
            self._found(connection, claimed)
        else:
            self._idle.found_nothing()
        return claimed

    def _found(self, connection: Connection, claimed: int) -> None:
        now = monotonic()
        self._idle.found(now, is_full=claimed >= self._limit)
        if self._registration.wants_notice and self._idle.should_withdraw(now):
            self._registration.want_notice(connection, False)
            self._idle.withdrew(now)

    def _beat(self, connection: Connection) -> None:
        """Renew the heartbeat, and with it the wish to be notified."""
        now = monotonic()
        if now >= self._beat_at:
            self._beat_at = now + self._beat_every
            self._registration.want_notice(connection, self._registration.wants_notice)
            self._tally.store(connection)

    def _wait(self, left: float) -> None:
        """Ask for notifications, if enough claims found nothing; else nap."""
        connection = self._claimer.connect().connection
        hears = self._listener.listen(connection)
        if hears and not self._registration.wants_notice and self._idle.should_ask():
            self._registration.want_notice(connection, True)
            self._idle.asked()
            return  # and claim once more: now producers can see it
        nap = self._idle.next_nap(is_listening=hears, wake_in=self._claimer.wake_in)
        nap = min(nap, timedelta(seconds=min(self._duties.due_in, left)))
        self._listener.wait(max(nap, SHORTEST_PAUSE).total_seconds())

    def _next_due(self) -> timedelta | None:
        comes_in = promote.may_come(self._session.connection, self._channels)
        return None if comes_in is None else max(comes_in, timedelta())

    def _take(self, limit: int, thoroughly: bool) -> int:
        claimed = self._claimer.claim(limit, thoroughly=thoroughly)
        # Measured after the claim: measured before it, a short run would end in the future.
        taken_at = monotonic()
        self._taken.extend(Taken(each.claim, taken_at) for each in claimed)
        return len(claimed)

    def _size_left(self) -> int:
        return size_left([Claimed(*each) for each in list(self._taken)])

    def _pop(self) -> Taken | None:
        try:
            return self._taken.popleft()
        except IndexError:  # another thread may have taken it
            return None

    def _end(self) -> None:
        """Clean up; where another thread uses the consumer, leave that to this thread."""
        if not self._using.acquire(blocking=False):
            return
        try:
            if not self._has_ended:
                self._has_ended = True
                self._hand_back()
        finally:
            self._using.release()

    def _hand_back(self) -> None:
        try:
            if self._session.is_open:
                if left := [taken.claim for taken in iter(self._pop, None)]:
                    settle.release(self._session.connection, left)
                self._tally.close(self._session.connection)
                self._registration.retire(self._session.connection)
        except Error as error:
            # The leases run out instead.
            signals.send(signals.service_failed, type(self), service="receiver", error=error)
        finally:
            self._session.close()
            self._listener.close()

    def _info(self) -> WorkerInfo:
        return WorkerInfo(
            host=platform.node(),
            pid=os.getpid(),
            started_at=datetime.now(UTC),
            channels=self._channels,
            excluded=[],
            info={"receives": self._limit, **versions()},
        )
