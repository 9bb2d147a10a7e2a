"""Write the endings of runs in batches."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from math import inf
from time import monotonic
from typing import Any

from psycopg import DataError
from psycopg.errors import LockNotAvailable, ProgramLimitExceeded, StatementTooComplex

from pgqueue import signals
from pgqueue.calls.outcomes import (
    Cancelled,
    Closed,
    Completed,
    Continued,
    Deferred,
    Died,
    Discarded,
    Ending,
    HandedBack,
    Retried,
    Succeeded,
    Suspended,
)
from pgqueue.calls.stand_ins import stand_in
from pgqueue.claiming.run_counts import Tally
from pgqueue.database.connections import Session
from pgqueue.database.transactions import wait_at_most
from pgqueue.engine import lease, settle
from pgqueue.engine.culprits import (
    MOST,
    by_halves,
    may_be_own,
    tell,
)
from pgqueue.engine.errors import describe
from pgqueue.engine.settle import (
    Deferral,
    Done,
    DoneDurably,
    Failure,
    Finish,
    Pause,
    Restart,
    Suspension,
)
from pgqueue.engine.values import Connection
from pgqueue.tasks import redacting
from pgqueue.threads.service import NO_NAP, Service
from pgqueue.worker.failures import was_handed_back
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.run_logs import RunLogs
from pgqueue.worker.wakeups import Wakeups

BATCH = 1000
RESULTS = 64 * 1024 * 1024
"""The limit of characters of a batch's results: PostgreSQL refuses a statement of 1 GB."""
GATHER = timedelta(milliseconds=5)
"""The time in which a batch may grow while endings keep coming."""
BESIDE_A_LOCK = timedelta(milliseconds=50)
"""The time until the next attempt for messages that another transaction has locked."""
BESIDE_OTHERS = timedelta(seconds=10)
"""The time until the next attempt for endings that a trigger or a constraint refuses."""
PATIENCE = "100ms"
"""The time for which endings wait for a breaker, or a channel, of another transaction."""
MOST_LOCKED = 3
"""The lanes whose endings wait so long in one tick."""
FAILED = (Retried, Died)
FOREVER = timedelta(hours=1)
# Endings with these errors are not storable: a retry would end the same way.
UNWRITABLE = (DataError, ProgramLimitExceeded, StatementTooComplex)

Ended = tuple[LeasedMessage, Ending]


class Settler(Service):
    """Takes endings from the threads, and writes them with one statement for each kind.

    A message that another transaction has locked, for example to cancel it, is kept apart and
    retried, so that no other message waits for it. The same is done if a trigger or a constraint
    refuses it. It stays leased until its ending is written, or its lease is lost.

    Args:
        tally: counts the settled runs.
        wakeups: wake the fetcher when fewer messages are leased than before, when a flow's message
            has ended, or when there is a new connection; and the promoter for a due time.
    """

    def __init__(
        self,
        session: Session,
        leases: Leases,
        tally: Tally,
        wakeups: Wakeups,
    ) -> None:
        super().__init__()
        self._session = session
        self._leases = leases
        self._tally = tally
        self._wakeups = wakeups
        self._fetcher = wakeups.fetcher
        self._ended: deque[Ended] = deque()
        self._locked: list[Ended] = []
        self._try_at = 0.0
        self._refused: dict[LeasedMessage, Ending] = {}
        self._try_refused_at = 0.0
        # The messages in all queues. After a batch failed halfway, the set has its remaining ones.
        self._unwritten: set[LeasedMessage] = set()
        self._is_idle = False
        self.logs = RunLogs(self.wake)
        """The log lines of runs, which it stores."""
        self._losing = threading.Lock()
        self.leases_lost = 0
        """The number of ended runs whose lease this worker had lost."""

    def put(self, leased: LeasedMessage, ending: Ending) -> None:
        """Hand over the ending of a run. Any thread may call this."""
        if isinstance(ending, Closed):
            if leased.lost or not leased.given_up:  # otherwise, it may not be handed back yet
                self._leases.drop(leased)
            if leased.lost and not leased.given_up:
                self._note_lost()
            self._fetcher.make_room()
            if ending.delay:
                self._wakeups.wake_promoter()
            if leased.claim.flow_id is not None:
                self._fetcher.wake()
            return
        self._unwritten.add(leased)
        self._ended.append((leased, ending))
        if self._is_idle:
            self._is_idle = False
            self.wake()

    def tick(self) -> timedelta:
        """Write one batch. It stays queued until the database has accepted it."""
        self._connect()
        self._take_back()
        self._try_refused()
        # Copy the whole queue in one step: other threads append meanwhile.
        taken = _fitting(list(self._ended)[:BATCH])
        # Each run has handed over its lines before its ending: store the lines first.
        self.logs.store(self._session.connection)
        if not taken:
            return self._rest()
        locked: list[Ended] = []
        for batch in sorted(by_kind(self._left(taken)), key=may_wait):
            locked += self._write_each(batch)
        self._keep_apart(locked)
        for _ in taken:
            self._ended.popleft()
        if len(locked) < len(taken):
            self._fetcher.make_room()
        return GATHER if 1 < len(self._ended) < BATCH else NO_NAP

    def _connect(self) -> None:
        """Connect, even if no run has ended yet: the fetcher claims nothing before."""
        if not self._session.is_open:
            self._session.open()
            self._fetcher.make_room()

    @property
    def is_connected(self) -> bool:
        """Whether it has a connection; a broken connection counts until its next use."""
        return self._session.is_open

    def _left(self, batch: Sequence[Ended]) -> list[Ended]:
        """Return the endings that are neither written nor refused."""
        left = [each for each in batch if each[0] in self._unwritten]
        if self._refused:
            left = [each for each in left if each[0] not in self._refused]
        return left

    def _rest(self) -> timedelta:
        """Return the nap until the next attempt for locked or refused messages."""
        self._is_idle = True
        if self.is_behind:
            return NO_NAP
        due = [self._try_at] if self._locked else []
        due += [self._try_refused_at] if self._refused else []
        due += [self.logs.next_at] if self.logs.next_at < inf else []
        return timedelta(seconds=min(due) - monotonic()) if due else FOREVER

    def _keep_apart(self, locked: list[Ended]) -> None:
        if locked and not self._locked:
            self._try_at = monotonic() + BESIDE_A_LOCK.total_seconds()
        self._locked += locked

    def _take_back(self) -> None:
        """Queue the locked messages behind the others, when their next attempt is due."""
        if self._locked and monotonic() >= self._try_at:
            self._ended.extend(self._locked)
            self._locked.clear()

    def _write(self, batch: Sequence[Ended]) -> list[Ended]:
        """Write endings of one kind; return the ones that another transaction has locked."""
        connection = self._session.connection
        if may_wait(batch):
            with connection.transaction():
                wait_at_most(connection, PATIENCE)
                settled = write(connection, batch)
        else:
            settled = write(connection, batch)
        if any(getattr(ending, "delay", None) for _, ending in batch):
            self._wakeups.wake_promoter()
        if any(leased.claim.flow_id is not None for leased, _ in batch):
            # Fast chains make a worker withdraw its wish for notifications.
            self._fetcher.wake()
        if len(settled) == len(batch):  # the usual case
            self._tally.add(batch)
            self._let_go(*(leased for leased, _ in batch))
            return []
        missing = []
        runs = Counter(leased.claim.id for leased, _ in batch)
        for each in batch:
            # A message may be here twice: a run that lost its lease, and a later run. Otherwise,
            # the message may have been handed back and claimed again.
            id = each[0].claim.id
            if id in settled and (runs[id] == 1 or self._leases.has(each[0])):
                self._tally.add([each])
                self._let_go(each[0])
            else:
                missing.append(each)
        locked = lease.valid(connection, [leased.claim for leased, _ in missing])
        for leased, _ in missing:
            if leased.claim.id not in locked:
                self._let_go(leased)
                self._note_lost()
                signals.send(signals.lease_lost, type(self), claim=leased.claim)
        return [each for each in missing if each[0].claim.id in locked]

    def _note_lost(self) -> None:
        with self._losing:
            self.leases_lost += 1

    def _let_go(self, *leased: LeasedMessage) -> None:
        self._leases.drop(*leased)
        self._unwritten.difference_update(leased)

    def _write_each(self, batch: Sequence[Ended]) -> list[Ended]:
        """Write endings of one kind; if some make the statement fail, treat these separately."""
        try:
            return self._write(batch)
        except LockNotAvailable:
            return self._write_by_lanes(batch)
        except Exception as error:
            if not may_be_own(error):
                raise
            return self._write_halved(batch, error)

    def _write_halved(self, batch: Sequence[Ended], error: Exception) -> list[Ended]:
        """Write endings of one kind of which some make the statement fail: these separately."""
        verb, _ = VERBS[type(batch[0][1])]

        def some(part: Sequence[Ended]) -> list[Ended]:
            # Some of them may be written: a lane commits by itself.
            part = self._left(part)
            if not part:
                verb(self._session.connection, [])
                return []
            try:
                return self._write(part)
            except LockNotAvailable:
                return self._write_by_lanes(part)

        before = len(self._refused)

        def otherwise(ended: Ended, error: Exception) -> list[Ended]:
            locked = self._write_otherwise(ended, error)
            if len(self._refused) - before >= MOST:
                raise error  # perhaps every write fails
            return locked

        parts = by_halves(some, batch, otherwise, error=error)
        return [each for part in parts for each in part]

    def _write_by_lanes(self, batch: Sequence[Ended]) -> list[Ended]:
        """Write endings lane by lane; return those that another transaction keeps waiting.

        A long transaction of the user's, which settles a failure or changes a channel, must not
        keep all endings of this worker waiting.
        """
        lanes: defaultdict[tuple[str, str], list[Ended]] = defaultdict(list)
        for each in batch:
            lanes[each[0].claim.channel, each[0].claim.key].append(each)
        if len(lanes) == 1:
            return list(batch)
        locked: list[Ended] = []
        refusals = 0
        for lane in lanes.values():
            if refusals >= MOST_LOCKED:
                locked += lane
                continue
            try:
                locked += self._write(lane)
            except LockNotAvailable:
                refusals += 1
                locked += lane
            except Exception as error:
                if not may_be_own(error):
                    raise
                locked += self._write_halved(lane, error)
        return locked

    def _write_otherwise(self, ended: Ended, error: Exception) -> list[Ended]:
        """Bury the message if its ending is not storable; otherwise keep it apart for a retry."""
        leased, ending = ended
        if isinstance(error, UNWRITABLE) and not isinstance(ending, HandedBack):
            claim = leased.claim
            shown = stand_in(error, redacting.hiding(claim))
            entry = describe(shown, attempt=claim.attempt, worker=str(claim.worker_id))
            try:
                return self._write([(leased, Died(error, entry))])
            except LockNotAvailable:
                return [ended]
            except Exception as second:
                if not may_be_own(second):
                    raise
                error = second
        tell("settle", row=f"pgqueue_message {leased.claim.id}", error=error)
        if not self._refused:
            self._try_refused_at = monotonic() + BESIDE_OTHERS.total_seconds()
        self._refused[leased] = ending
        return []

    def _try_refused(self) -> None:
        """Retry the refused endings one by one, when they are due."""
        if self._refused and monotonic() >= self._try_refused_at:
            self._try_refused_at = monotonic() + BESIDE_OTHERS.total_seconds()
            for leased, ending in list(self._refused.items()):
                del self._refused[leased]
                try:
                    self._locked += self._write_each([(leased, ending)])
                except BaseException:
                    self._refused[leased] = ending
                    raise

    def is_done(self) -> bool:
        """Return whether all endings are written, and the log lines of their runs."""
        return not self._unwritten and self.logs.is_done

    @property
    def unsettled(self) -> int:
        """The number of endings that are not written yet, including locked messages."""
        return len(self._unwritten)

    @property
    def is_behind(self) -> bool:
        """Whether endings wait for the database, and not for a lock."""
        return len(self._ended) > 0

    @property
    def is_waiting(self) -> bool:
        """Whether endings wait for the database, or for a lock; refused ones do not count."""
        return any(each not in self._refused for each in self._unwritten.copy())

    @property
    def is_failing(self) -> bool:
        """Whether its last attempt failed: most likely, the database is away."""
        return self._failures > 0

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()


def _fitting(ended: Sequence[Ended]) -> Sequence[Ended]:
    """Return as many endings as a statement should carry, at least one."""
    size = 0
    for number, (_, ending) in enumerate(ended):
        if isinstance(ending, Succeeded | Completed) and ending.result:
            size += len(ending.result)
            if size > RESULTS and number:
                return ended[:number]
    return ended


def by_kind(ended: Iterable[Ended]) -> Collection[list[Ended]]:
    """Return the endings grouped by kind."""
    kinds: defaultdict[type[Ending], list[Ended]] = defaultdict(list)
    for each in ended:
        kinds[type(each[1])].append(each)
    return kinds.values()


def have_failed(batch: Sequence[Ended]) -> bool:
    """Return whether endings of one kind are failures: circuit breakers count them."""
    return isinstance(batch[0][1], FAILED)


def may_wait(batch: Sequence[Ended]) -> bool:
    """Return whether writing endings of one kind may wait for a transaction of the user's.

    Failures may wait for a circuit breaker, and an ending that pauses a channel for its row.
    """
    return have_failed(batch) or any(getattr(ending, "pauses", "") for _, ending in batch)


def write(connection: Connection, ended: Sequence[Ended]) -> set[int]:
    """Settle runs with endings of one kind; return the ids whose leases were still held."""
    verb, of = VERBS[type(ended[0][1])]
    return verb(connection, [of(*each) for each in ended])


def _done(leased: LeasedMessage, ending: Succeeded | Completed) -> Done:
    return Done(
        leased.claim,
        ending.result,
        leased.started - leased.claimed,
        leased.finished - leased.claimed,
    )


def _completed(leased: LeasedMessage, ending: Completed) -> DoneDurably:
    return DoneDurably(_done(leased, ending), ending.steps)


def _restart(leased: LeasedMessage, ending: Continued) -> Restart:
    return Restart(leased.claim, ending.payload)


def _suspension(leased: LeasedMessage, ending: Suspended) -> Suspension:
    return Suspension(
        leased.claim,
        ending.steps,
        ending.delay,
        ending.until,
        ending.is_woken,
        ending.has_progressed,
        ending.leaves_lane,
    )


def _failure(leased: LeasedMessage, ending: Retried | Died) -> Failure:
    delay = ending.delay if isinstance(ending, Retried) else timedelta()
    started = leased.started - leased.claimed
    return Failure(leased.claim, ending.entry, started, delay, ending.anew)


def _deferral(leased: LeasedMessage, ending: Deferred) -> Deferral:
    # Its task ran, so the count of hand-backs in a row restarts.
    counted = "null" if was_handed_back(leased.claim) else None
    return Deferral(leased.claim, ending.delay, ending.progress, counted, pause_of(leased, ending))


def pause_of(leased: LeasedMessage, ending: Deferred) -> Pause | None:
    """Return the scope that a deferral pauses."""
    if not ending.pauses:
        return None
    claim = leased.claim
    if ending.pauses == "task":
        return Pause(task=claim.task)
    return Pause(claim.channel, claim.key if ending.pauses == "key" else None)


def _return(leased: LeasedMessage, ending: HandedBack) -> Deferral:
    return Deferral(leased.claim, ending.delay, counted=ending.counted)


def _discarded(leased: LeasedMessage, ending: Discarded) -> Finish:
    return Finish(leased.claim, "discarded", ending.entry, leased.started - leased.claimed)


def _cancelled(leased: LeasedMessage, ending: Cancelled) -> Finish:
    return Finish(leased.claim, "cancelled", ending.entry, leased.started - leased.claimed)


VERBS: dict[
    type, tuple[Callable[[Connection, Any], set[int]], Callable[[LeasedMessage, Any], Any]]
] = {
    Succeeded: (settle.complete, _done),
    Completed: (settle.complete_durable, _completed),
    Suspended: (settle.suspend, _suspension),
    Continued: (settle.restart, _restart),
    Retried: (settle.retry, _failure),
    Died: (settle.bury, _failure),
    Deferred: (settle.defer, _deferral),
    Discarded: (settle.finish, _discarded),
    Cancelled: (settle.finish, _cancelled),
    HandedBack: (settle.defer, _return),
}
