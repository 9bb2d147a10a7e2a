"""Processes that are killed at any moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.chaos.harness.statements import names_of
from tests.eventually import eventually

LEASE = 2.0


def test_workers_that_are_killed_at_any_moment_lose_nothing(stage: Stage) -> None:
    for _ in range(2):
        stage.producer(rate=150)
    stage.worker()
    victim = stage.worker()

    for _ in range(4):
        nap(stage.random.uniform(0.3, 1))
        with stage.fault():
            stage.kill(victim)
        victim = stage.worker()

    stage.end()


@pytest.mark.chaos
def test_processes_of_a_worker_that_are_killed_lose_nothing(stage: Stage) -> None:
    for _ in range(2):
        stage.producer(rate=120)
    stage.kill_processes("--processes", "2", "--threads", "4", "--async", "20")

    stage.end()


@pytest.mark.chaos
def test_producers_that_are_killed_leave_whole_transactions_or_nothing(stage: Stage) -> None:
    stage.worker()
    for _ in range(3):
        producer = stage.producer(rate=1000)
        nap(stage.random.uniform(0.3, 1))
        with stage.fault():
            # It has begun to enqueue, and does not know yet what came of it.
            stage.stop_amid(producer, lambda each=producer: "begun" in each.output[-1])
            producer.kill()

    stage.end()
    assert len(stage.books.unsure) == 3


def kill_behind_an_effect(stage: Stage, kind: str, task: str, *, effects: int) -> None:
    """Kill a worker whose task took effect, and whose message is not settled; count its effects."""
    stage.load()
    [number] = stage.numbers(kind, 1)
    victim = stage.worker("--channel", "aside")
    stage.enqueue(task, number, str(stage.folder), channel="aside")
    eventually((stage.folder / f"{number} took effect").exists)
    stage.worker()
    nap(LEASE)

    with stage.fault():
        stage.kill(victim)
        (killed_at,) = stage.ask("SELECT clock_timestamp()")

    stage.end()
    attempt, lost, after = stage.ask(
        "SELECT attempt, lost, claimed_at - %s FROM pgqueue_history WHERE channel = 'aside'",
        killed_at,
    )
    assert (attempt, lost) == (2, 1)
    # A lease and a second; and what a machine may need that has much else to do.
    assert after.total_seconds() < LEASE + 1 + 2
    assert stage.ask("SELECT count(*) FROM chaos_effect WHERE number = %s", number) == (effects,)


def test_a_worker_killed_between_effect_and_settle_repeats_the_effect_once(stage: Stage) -> None:
    kill_behind_an_effect(stage, "plain", "stops_midway", effects=2)


def test_a_worker_killed_in_an_atomic_task_leaves_its_effect_once(stage: Stage) -> None:
    kill_behind_an_effect(stage, "atomic", "stops_midway_atomic", effects=1)


def kill_amid_a_claim(
    stage: Stage, is_the_moment: Callable[[str, Sequence[str]], bool], *arguments: str
) -> None:
    """Kill a worker as it sends a statement. The server gets it all the same."""
    stage.load()
    proxy = stage.proxy()
    victim = stage.worker("--channel", "aside", *arguments, port=proxy.port)
    kept = stage.numbers("plain", 20)

    def kill(sent: str, before: Sequence[str]) -> None:
        if victim.is_alive and is_the_moment(sent, before) and stage.ask(READY) is not None:
            stage.kill(victim)

    def is_told() -> bool:
        query = "SELECT notify_until FROM pgqueue_worker WHERE pid = %s"
        return stage.ask(query, victim.pid) != (None,)

    if not arguments:
        eventually(is_told)
    proxy.meddler = kill
    with stage.fault():
        for number in kept:
            stage.enqueue("plain", number, channel="aside", key="a")
            if victim.is_alive:
                nap(0.3)  # until it idles again
        assert not victim.is_alive


READY = "SELECT FROM pgqueue_message WHERE channel = 'aside' AND state = 'ready'"
LEASED = "SELECT FROM pgqueue_message WHERE channel = 'aside' AND state = 'running'"
LOST = "SELECT sum(lost) > 0, max(lost) FROM pgqueue_history"
ONE_AT_ONCE = """
INSERT INTO pgqueue_policy (channel, scope, key, max_running) VALUES ('aside', 'each', '', 1)
RETURNING channel
"""


@pytest.mark.parametrize(
    ("statement", "arguments"),
    [
        pytest.param("claim.claim", ["--poll-only"], marks=pytest.mark.chaos),
        ("claim.claim_at_once", []),
    ],
)
def test_a_worker_killed_while_it_claims_leaves_leases_that_run_out(
    stage: Stage, statement: str, arguments: list[str]
) -> None:
    kill_amid_a_claim(stage, lambda sent, _: statement in names_of(sent), *arguments)

    # What it leases, no other process hears of.
    eventually(lambda: stage.ask(LEASED) is not None)
    stage.worker()
    stage.end()
    assert stage.ask(LOST) == (True, 1)


@pytest.mark.chaos
def test_a_worker_killed_amid_the_claim_of_a_lane_leaves_nothing_locked(stage: Stage) -> None:
    stage.ask(ONE_AT_ONCE)

    kill_amid_a_claim(
        stage, lambda sent, _: "claim_governed.claim" in names_of(sent), "--poll-only"
    )

    stage.worker()
    # Its transaction never ended, and no lease has to run out.
    stage.serves("aside", within=LEASE)
    stage.end()
    assert stage.ask(LOST) == (False, 0)


@pytest.mark.chaos
def test_a_worker_killed_as_it_commits_a_claim_of_a_lane_leaves_a_lease_that_runs_out(
    stage: Stage,
) -> None:
    stage.ask(ONE_AT_ONCE)

    kill_amid_a_claim(
        stage,
        lambda sent, before: sent == "COMMIT" and "claim_governed.claim" in names_of(before[-1]),
        "--poll-only",
    )

    eventually(lambda: stage.ask(LEASED) is not None)
    stage.worker()
    stage.end()
    assert stage.ask(LOST) == (True, 1)
