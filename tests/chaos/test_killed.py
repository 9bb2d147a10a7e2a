"""Processes that are killed at any moment."""

from __future__ import annotations

from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.chaos.harness.statements import names_of
from tests.eventually import eventually


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


def test_producers_that_are_killed_leave_whole_transactions_or_nothing(stage: Stage) -> None:
    stage.worker()
    for _ in range(3):
        producer = stage.producer(rate=1000)
        nap(stage.random.uniform(0.3, 1))
        with stage.fault():
            producer.kill()

    stage.end()


def test_a_worker_killed_between_effect_and_settle_repeats_the_effect_once(stage: Stage) -> None:
    [number] = stage.numbers("plain", 1)
    victim = stage.worker()
    stage.enqueue("stops_midway", number, str(stage.folder))
    eventually((stage.folder / f"{number} took effect").exists)

    with stage.fault():
        stage.kill(victim)
        stage.worker()

    stage.end()
    assert stage.ask("SELECT count(*) FROM chaos_effect") == (2,)
    assert stage.ask("SELECT attempt, lost FROM pgqueue_history") == (2, 1)


def test_a_worker_killed_in_an_atomic_task_leaves_its_effect_once(stage: Stage) -> None:
    [number] = stage.numbers("atomic", 1)
    victim = stage.worker()
    stage.enqueue("stops_midway_atomic", number, str(stage.folder))
    eventually((stage.folder / f"{number} took effect").exists)

    with stage.fault():
        stage.kill(victim)
        stage.worker()

    stage.end()
    assert stage.ask("SELECT count(*) FROM chaos_effect") == (1,)
    assert stage.ask("SELECT attempt, lost FROM pgqueue_history") == (2, 1)


def test_a_worker_killed_while_it_claims_leaves_leases_that_run_out(stage: Stage) -> None:
    proxy = stage.proxy()
    victim = stage.worker(port=proxy.port)
    kept = stage.numbers("plain", 20)

    def kill(statement: str) -> None:
        # The server gets the claim all the same: what it leases, nobody ever hears of.
        if victim.is_alive and "claim.claim" in names_of(statement):
            stage.kill(victim)

    eventually(lambda: stage.ask("SELECT notify_until FROM pgqueue_worker") != (None,))
    proxy.meddler = kill
    with stage.fault():
        for number in kept:
            stage.enqueue("plain", number)
        eventually(lambda: not victim.is_alive)
        stage.worker()

    stage.end()
