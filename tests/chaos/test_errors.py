"""Statements that are cut off, fail, or answer into the void: each that the engine has."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest

from tests.chaos.harness.meddlers import Each, Fate, Often
from tests.chaos.harness.processes import Process
from tests.chaos.harness.proxy import Fail, Proxy, Terminate
from tests.chaos.harness.stage import Stage
from tests.chaos.harness.statements import all_of_them
from tests.eventually import eventually

# What only a worker does here.
WORKERS = [
    name
    for name in all_of_them()
    if (
        name.partition(".")[0] in ("claim", "claim_governed", "settle", "duty")
        and name.partition(".")[2] not in ("chosen", "chosen_at_once", "attempt", "charge_none")
    )
    or name in ("lease.extend", "lease.valid", "lease.lock", "lease.rescue", "promote.promote")
    or name in ("route.look", "route.take", "route.mark", "workers.register", "workers.beat")
    or name in ("lease.begin", "lease.give_back", "lease.rescue_from", "lease.are_any_of")
    or name in ("workers.bury", "workers.retire")
]
CUT_OFF = r"terminating connection due to administrator command\n.*STATEMENT:"
MOMENTS = [Terminate("before"), Terminate("within"), Terminate("after")]
SERVICES = {"fetcher", "heartbeat", "settler"}
ERRORS = {
    "statement_timeout": Fail("57014"),
    "lock_timeout": Fail("55P03"),
    "deadlock": Fail("40P01"),
    "serialization failure": Fail("40001"),
}


def touch_every_statement(stage: Stage, fates: Sequence[Fate]) -> int:
    """Let each statement meet one of these at least, under load; the workers', as they send it.

    Returns:
        How many did so with others than workers.
    """
    of_workers, of_others = stage.proxy(), stage.proxy()
    of_workers.meddler = workers = Each(stage.random, fates, rest=0.1)
    of_others.meddler = others = Each(stage.random, fates, most=1, rest=0.05)

    not_these = ["--exclude", "pulled", "--exclude", "by hand"]
    several = ["--processes", "2", "--max-tasks", "100"]
    with stage.fault():
        for arguments in ([], several):
            worker = stage.worker(*arguments, *not_these, port=of_workers.port)
        kill_a_child = now_and_then(stage, worker, of_workers)
        for _ in range(2):
            # Few enough for workers to idle, and to be told, between two of them.
            stage.producer(rate=20, port=of_others.port, also="pulled")
        stage.consumer(port=of_others.port)
        stage.operator(port=of_others.port)
        eventually(
            lambda: kill_a_child() or not untouched(workers, others),
            within=180,
            what=stage.later(lambda: f"untouched: {untouched(workers, others)}"),
        )
        of_workers.meddler = of_others.meddler = None
    return len(others.touched)


def now_and_then(stage: Stage, worker: Process, proxy: Proxy) -> Callable[[], None]:
    """Return what kills one of a worker's processes, and resets all connections, each 4 seconds."""
    due_at = monotonic()

    def kill_a_child() -> None:
        nonlocal due_at
        if monotonic() >= due_at and (serving := stage.serving(worker)):
            due_at = monotonic() + 4
            proxy.snap()
            os.kill(serving[0], signal.SIGKILL)

    return kill_a_child


def untouched(workers: Each, others: Each) -> list[str]:
    """Return the statements that met nothing, and those of the workers' that did only elsewhere."""
    either = workers.touched | others.touched
    return sorted((set(all_of_them()) - either) | (set(WORKERS) - workers.touched))


@pytest.mark.chaos
def test_a_settle_whose_answer_is_lost_after_the_commit_is_not_repeated(stage: Stage) -> None:
    proxy = stage.proxy()
    settles = ["settle.complete", "settle.retry", "settle.bury", "settle.defer", "settle.finish"]
    for _ in range(2):
        stage.producer(rate=100)
        stage.worker(port=proxy.port)

    with stage.fault():
        proxy.meddler = losing = Often(settles, Terminate("after"), stage.random, share=0.2)
        stage.settles(300)
        eventually(lambda: losing.met.keys() >= set(settles), within=60, what="each has met it")
        proxy.meddler = None

    stage.end()
    # Each failed as often as its task does, and was charged with that once.
    assert stage.ask(ONCE_EACH) == (True, True)


ONCE_EACH = """
SELECT (SELECT bool_and((attempt, failures, lost) = (2, 1, 0)) FROM pgqueue_history
        WHERE task = 'tests.chaos.tasks.fails_once'),
       (SELECT bool_and((attempt, failures, lost) = (1, 1, 0)) FROM pgqueue_message
        WHERE task = 'tests.chaos.tasks.hopeless')
"""


@pytest.mark.chaos
def test_a_commit_whose_answer_is_lost_is_there_all_the_same(stage: Stage) -> None:
    """Of producers, who are told nothing; and of atomic tasks, which ended in it."""
    of_producers, of_workers = stage.proxy(), stage.proxy()
    for _ in range(2):
        stage.producer(rate=100, port=of_producers.port)
        stage.worker(port=of_workers.port)

    with stage.fault():
        lost = Often(["COMMIT"], Terminate("after"), stage.random, share=0.05)
        of_atomic = Often(
            ["COMMIT"], Terminate("after"), stage.random, share=0.05, behind=["lease.lock"]
        )
        of_producers.meddler, of_workers.meddler = lost, of_atomic
        eventually(lambda: min(lost.times, of_atomic.times) > 2, within=60)
        of_producers.meddler = of_workers.meddler = None

    stage.end()
    assert stage.books.unsure


@pytest.mark.chaos
def test_a_commit_that_fails_is_as_if_it_had_never_begun(stage: Stage) -> None:
    """As for a serialization failure, which may come this late."""
    proxy = stage.proxy()
    for _ in range(2):
        stage.producer(rate=100, port=proxy.port)
        stage.worker(port=proxy.port)

    with stage.fault():
        proxy.meddler = failing = Often(["COMMIT"], Fail("40001"), stage.random, share=0.05)
        eventually(lambda: failing.times > 20, within=60)
        proxy.meddler = None

    stage.end()


DAYS = """
CREATE TABLE pgqueue_history_20200101 PARTITION OF pgqueue_history
FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-01-02 00:00Z');
CREATE TABLE pgqueue_history_20200102 PARTITION OF pgqueue_history
FOR VALUES FROM ('2020-01-02 00:00Z') TO ('2020-01-03 00:00Z')
"""
DROPPED = "SELECT NOT EXISTS (SELECT FROM pg_class WHERE relname LIKE 'pgqueue_history_2020%%')"


@pytest.mark.chaos
def test_days_are_made_and_dropped_though_each_step_is_cut_off_once(stage: Stage) -> None:
    proxy = stage.proxy()
    to_drop = ["LOCK TABLE", "COMMENT ON TABLE", "DETACH PARTITION", "DROP TABLE"]
    steps = [*to_drop, "CREATE TABLE", "ATTACH PARTITION"]
    left = {step: stage.random.choice(MOMENTS) for step in steps}
    proxy.meddler = lambda sent, _: next(
        (left.pop(step) for step in list(left) if step in sent), None
    )
    ahead = f"pgqueue_history_{datetime.now(UTC) + timedelta(days=7):%Y%m%d}"
    with closing(stage.server.connect()) as connection:
        connection.execute(DAYS)
        connection.execute(f"DROP TABLE {ahead}")
    stage.producer(rate=40)
    stage.worker("--no-duties")

    def is_done() -> bool:
        stage.ask("UPDATE pgqueue_duty SET due_at = now() WHERE name = 'partitions' RETURNING name")
        is_there = stage.ask("SELECT to_regclass(%s) IS NOT NULL", ahead)
        return (stage.ask(DROPPED), is_there) == ((True,), (True,))

    with stage.fault():
        stage.worker("--threads", "0", port=proxy.port)
        # After each failure it rests for twice as long.
        eventually(is_done, within=150)

    assert not left
    stage.end()


@pytest.mark.chaos
@pytest.mark.timeout(420)
def test_a_backend_terminated_in_any_statement_loses_nothing(stage: Stage) -> None:
    touch_every_statement(stage, MOMENTS)

    stage.end(within=120)
    # Many of them amid a statement.
    assert len(re.findall(CUT_OFF, stage.server.log())) > 10


@pytest.mark.chaos
@pytest.mark.timeout(420)
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_any_verb_is_survived(stage: Stage, error: str) -> None:
    of_others = touch_every_statement(stage, [ERRORS[error]])

    # A duty that failed time and again rests for a minute.
    stage.end(within=120)
    # None is swallowed; a few are looked for in vain, such as by who drops a lock.
    said = "\n".join([*stage.complaints, *(each.log for each in stage.others)])
    assert said.count(": injected") > 0.85 * of_others
    logs = "".join(each.log for each in stage.workers)
    assert set(re.findall(r"ERROR (\w+) failed and will try again: injected", logs)) >= SERVICES
    assert re.search("ERROR duty rescue failed and will try again: injected", logs)
