"""Statements that are cut off, fail, or answer into the void: each that the engine has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing

import pytest

from tests.chaos.harness.meddlers import Each, Fate, Often
from tests.chaos.harness.proxy import Fail, Terminate
from tests.chaos.harness.stage import Stage
from tests.chaos.harness.statements import all_of_them
from tests.eventually import eventually

# What nobody but a worker does here.
WORKERS = [
    name
    for name in all_of_them()
    if name.partition(".")[0] in ("claim", "claim_governed", "settle", "duty")
    or name in ("lease.extend", "lease.held", "lease.hold", "lease.rescue", "promote.promote")
    or name in ("route.look", "route.take", "route.mark", "workers.register", "workers.beat")
]
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

    with stage.fault():
        for _ in range(2):
            stage.worker("--exclude", "pulled", "--exclude", "by hand", port=of_workers.port)
        for _ in range(2):
            # Few enough for workers to idle, and to be told, between two of them.
            stage.producer(rate=20, port=of_others.port, also="pulled")
        stage.consumer(port=of_others.port)
        stage.operator(port=of_others.port)
        eventually(
            lambda: not untouched(workers, others),
            within=180,
            what=stage.later(lambda: f"untouched: {untouched(workers, others)}"),
        )
        of_workers.meddler = of_others.meddler = None
    return len(others.touched)


def untouched(workers: Each, others: Each) -> list[str]:
    """Return the statements that met nothing, and those of the workers' that did only elsewhere."""
    either = workers.touched | others.touched
    return sorted((set(all_of_them()) - either) | (set(WORKERS) - workers.touched))


def test_a_settle_whose_answer_is_lost_after_the_commit_is_not_repeated(stage: Stage) -> None:
    proxy = stage.proxy()
    settles = ["settle.complete", "settle.retry", "settle.bury", "settle.defer", "settle.finish"]
    for _ in range(2):
        stage.producer(rate=100)
        stage.worker(port=proxy.port)

    with stage.fault():
        proxy.meddler = losing = Often(settles, Terminate("after"), stage.random, share=0.2)
        stage.settles(300)
        proxy.meddler = None

    assert losing.times > 5
    stage.end()


def test_a_commit_whose_answer_is_lost_is_there_all_the_same(stage: Stage) -> None:
    """Of producers, who are told nothing; and of atomic tasks, which ended in it."""
    of_producers, of_workers = stage.proxy(), stage.proxy()
    for _ in range(2):
        stage.producer(rate=100, port=of_producers.port)
        stage.worker(port=of_workers.port)

    with stage.fault():
        for each in (of_producers, of_workers):
            each.meddler = Often(["COMMIT"], Terminate("after"), stage.random, share=0.05)
        told = [of_producers.meddler, of_workers.meddler]
        eventually(lambda: all(meddler.times > 2 for meddler in told), within=30)
        for each in (of_producers, of_workers):
            each.meddler = None

    stage.end()
    assert stage.books.unsure


DAYS = """
CREATE TABLE pgqueue_history_20200101 PARTITION OF pgqueue_history
FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-01-02 00:00Z');
CREATE TABLE pgqueue_history_20200102 PARTITION OF pgqueue_history
FOR VALUES FROM ('2020-01-02 00:00Z') TO ('2020-01-03 00:00Z')
"""
DROPPED = "SELECT NOT EXISTS (SELECT FROM pg_class WHERE relname LIKE 'pgqueue_history_2020%%')"


@pytest.mark.chaos
def test_days_that_are_dropped_are_gone_though_each_step_is_cut_off_once(stage: Stage) -> None:
    proxy = stage.proxy()
    steps = ["COMMENT ON TABLE", "DETACH PARTITION", "DROP TABLE"]
    left = {step: stage.random.choice(MOMENTS) for step in steps}
    proxy.meddler = lambda sent: next((left.pop(step) for step in list(left) if step in sent), None)
    with closing(stage.server.connect()) as connection:
        connection.execute(DAYS)
    stage.producer(rate=40)
    stage.worker("--no-duties")

    def are_dropped() -> bool:
        stage.ask("UPDATE pgqueue_duty SET due_at = now() WHERE name = 'partitions' RETURNING name")
        return stage.ask(DROPPED) == (True,)

    with stage.fault():
        stage.worker("--threads", "0", port=proxy.port)
        eventually(are_dropped, within=60)

    assert not left
    stage.end()


@pytest.mark.chaos
@pytest.mark.timeout(420)
def test_a_backend_terminated_in_any_statement_loses_nothing(stage: Stage) -> None:
    touch_every_statement(stage, MOMENTS)

    stage.end(within=120)


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
