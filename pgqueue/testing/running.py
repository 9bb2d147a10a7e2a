"""Claim, run and settle messages in a test, as a worker does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

from django.db import connections

from pgqueue import signals
from pgqueue.calls.outcomes import (
    Closed,
    Ending,
    HandedBack,
    Retried,
    Suspended,
)
from pgqueue.claiming.run_counts import Tally
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.database.django_connections import kept_open
from pgqueue.database.paths import own_path
from pgqueue.engine import lookup, promote
from pgqueue.engine.values import Claim
from pgqueue.tasks import TaskResult, registry, tenants
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.storing import on_stored
from pgqueue.testing.claiming import claim_next
from pgqueue.testing.following import Followers
from pgqueue.testing.savepoints import savepoints
from pgqueue.worker.batch_runner import BatchRunner
from pgqueue.worker.collector import batch_of, kind_of
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.leased_batch import LeasedBatch
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.runner import Runner
from pgqueue.worker.settler import write
from pgqueue.worker.timeouts import Timeouts


def run_all(
    *, retries: bool = False, raise_errors: bool = False, database: str | None = None
) -> list[TaskResult[Any]]:
    """Run all ready messages, in this thread and on Django's connection, until none is left.

    Messages that are enqueued meanwhile are run, too. Published events get their positions. They
    become messages for the subscriptions, which are run, and the handlers of all declared groups
    are called with them. Messages with a higher priority run first,
    then messages that were due earlier. A message stays if a worker would not run it now, because
    of a delay, a hold, a pending retry, a paused channel, a policy, or the order of its key.

    A batch task runs once for up to `batch` of its ready messages; nothing waits for `batch_wait`.

    In a transaction, for example in a TestCase, each run has a savepoint: after a database error in
    a task, only the writes of this run are undone.

    Args:
        retries: whether to run failed messages again at once, without the delay of their
            backoff, until they succeed or are dead; the same for steps of durable tasks, and for
            events of groups, until they are handled or given up.
        raise_errors: whether to raise the first error of a task or a group's handler; with
            `retries`, of a dead message or an event that was given up.
        database: the alias of the queue's database, if it is not the one of `PGQUEUE`.

    Returns:
        The message of each run as it is stored after the run, in the order of the runs. See its
        `task`, `args`, `kwargs`, `status`, `return_value` and `errors`.

    Raises:
        Exception: the error of a task or a group's handler, with `raise_errors`.
        EndlessEvents: events lead to further events, again and again.
        InvalidSubscription, InvalidGroup: a declared subscription or group is invalid.
    """
    ran = []
    alias = database or settings().database
    followers = Followers(alias, retries=retries, raise_errors=raise_errors)
    with _Bench.opened(alias) as bench:
        while True:
            while together := bench.run_next():
                for run in together:
                    ran.append(run.result)
                    if retries and _is_retried(run.ending):
                        bench.make_ready(run.claim)
                    elif raise_errors and run.ending.error is not None:
                        raise run.ending.error
            if not followers.follow():
                return ran


@contextmanager
def immediate(*, retries: bool = False, raise_errors: bool = False) -> Iterator[None]:
    """Run the messages of tasks as soon as they are enqueued in the block, as by `run_all()`.

    `enqueue()` returns after the run, and its result has the outcome. With enqueue_on_commit a
    message is run when it is stored. Delayed and held messages stay; raw messages wait for
    `run_all()`.

    Args:
        retries, raise_errors: as for `run_all`. `enqueue()` raises the error.
    """

    def run(results: Sequence[TaskResult[Any]]) -> None:
        task = results[0].task
        if task.connection is None:
            run_all(retries=retries, raise_errors=raise_errors, database=task.alias)
            for result in results:
                result.look()

    token = on_stored.set(run)
    try:
        yield
    finally:
        on_stored.reset(token)


@dataclass(frozen=True)
class _Ran:
    claim: Claim
    ending: Ending
    result: TaskResult[Any]


@dataclass(frozen=True)
class _Bench:
    """The tools of one call of `run_all`, with a runner as in a worker."""

    alias: str
    runner: Runner
    worker_id: UUID
    aside: list[Claim]
    """Messages that were claimed instead of messages for a batch: they run next."""

    @classmethod
    @contextmanager
    def opened(cls, alias: str) -> Iterator[_Bench]:
        timeouts = Timeouts()
        quarantine = Quarantine(alias, Leases(), max_lost=settings().max_lost)
        is_inside = connections[alias].in_atomic_block
        runner = Runner(alias, timeouts, Handlers(alias), quarantine, Tally(), is_inside=is_inside)
        timeouts.start()
        try:
            with kept_open():
                yield cls(alias, runner, uuid4(), [])
        finally:
            timeouts.stop()

    def run_next(self) -> list[_Ran]:
        """Claim, run and settle a message or a batch, and return it; []: no message is ready."""
        while claim := self._next():
            with own_path():
                ran = self._run([claim, *self._beside(claim)])
            if ran:
                return ran
        return []

    def _run(self, together: list[Claim]) -> list[_Ran]:
        with savepoints():
            ended = self._ended([LeasedMessage(each, monotonic()) for each in together])
        for leased, ending in ended:
            self._settle(leased, ending)
        claims = {each.id: each for each in together}
        # Without a task or a handler of this name here, the message was not run.
        return [
            _Ran(claims[leased.claim.id], _written(ending), self._result(task, leased.claim))
            for leased, ending in ended
            if (task := registry.get(leased.claim.task)) is not None
            and not isinstance(ending, HandedBack)
        ]

    def _next(self) -> Claim | None:
        return self.aside.pop(0) if self.aside else claim_next(self.alias, self.worker_id)

    def _beside(self, first: Claim) -> list[Claim]:
        """Claim the messages that a worker would put into one batch with this one."""
        task = batch_of(first)
        if task is None:
            return []
        found: list[Claim] = []
        alike: dict[str, Any] = {
            "task": first.task,
            "lost": 0,
            "options": first.options and first.options.decode(),
        }
        if task.batch_by:
            alike["key"] = first.key
        while len(found) < task.batch - 1:
            claim = claim_next(self.alias, self.worker_id, **alike)
            if claim is None:
                break
            if batch_of(claim) is task and kind_of(task, claim) == kind_of(task, first):
                found.append(claim)
            else:
                self.aside.append(claim)
        return found

    def _ended(self, together: list[LeasedMessage]) -> list[tuple[LeasedMessage, Ending]]:
        if len(together) > 1:
            return BatchRunner(self.runner).run(LeasedBatch(together))
        return [(each, self.runner.run(each)) for each in together]

    def make_ready(self, claim: Claim) -> None:
        """Make a delayed message ready."""
        with borrow(self.alias) as connection:
            promote.run_now(connection, [claim.id])

    def _settle(self, leased: LeasedMessage, ending: Ending) -> None:
        if isinstance(ending, Closed):
            return
        with borrow(self.alias) as connection:
            settled = write(connection, [(leased, ending)])
        if not settled:
            signals.send(signals.lease_lost, type(self), claim=leased.claim)

    def _result(self, task: Declaration[Any, Any], claim: Claim) -> TaskResult[Any]:
        found = lookup.find(connections[self.alias], claim.id)
        try:
            with tenants.around(claim):
                args, kwargs = task.codec.decode(claim.payload or b"")
        except Exception:
            # The arguments don't fit the task, its tenant is gone, or the task has deleted a model
            # instance's row.
            args, kwargs = [], {}
        result = TaskResult(task, args, kwargs)
        result.id = str(claim.id)
        if found:
            result._note(found)
        return result


def _written(ending: Ending) -> Ending:
    """Return the ending of a run: of an atomic run, the one that the run has written itself."""
    return (ending.written or ending) if isinstance(ending, Closed) else ending


def _is_retried(ending: Ending) -> bool:
    """Return whether a run, or a step of a durable one, has failed and is tried again."""
    if isinstance(ending, Suspended):
        steps = json.loads(ending.steps)
        return bool(steps) and steps[-1]["state"] == "retrying"
    return isinstance(ending, Retried)
