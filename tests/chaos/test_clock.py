"""Workers and producers whose clocks are wrong: only the database's counts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

pytestmark = pytest.mark.chaos

HOUR = 3600


@pytest.mark.parametrize("wrong_by", [HOUR, -HOUR], ids=["fast", "slow"])
def test_a_client_whose_clock_is_an_hour_off_changes_nothing(stage: Stage, wrong_by: int) -> None:
    stage.worker()
    wrong = stage.worker(clock=wrong_by)
    stage.producer(rate=80)
    stage.producer(rate=80, clock=wrong_by)

    with stage.fault():
        stage.settles(600)

    assert stage.ask("SELECT count(*) FROM pgqueue_worker") == (2,)
    stage.end()
    # It is what was said of it.
    assert seconds_off(wrong.log) == pytest.approx(wrong_by, abs=300)
    # No worker was taken for dead, nothing ran before its time or long after.
    assert stage.ask("SELECT sum(lost) FROM pgqueue_history") == (0,)
    assert stage.ask(
        "SELECT count(*) FROM pgqueue_history "
        "WHERE claimed_at < run_at OR claimed_at > run_at + interval '30 seconds' "
        "OR finished_at NOT BETWEEN created_at AND now()"
    ) == (0,)


def seconds_off(log: str) -> float:
    """Return how fast the clock was of who wrote a log just now."""
    return (
        datetime.fromisoformat(log.strip()[:19]) - datetime.now(UTC).replace(tzinfo=None)
    ).total_seconds()


@pytest.mark.parametrize("wrong_by", [HOUR, -HOUR], ids=["fast", "slow"])
def test_a_worker_dies_beside_one_whose_clock_is_wrong_and_is_replaced_in_time(
    stage: Stage, wrong_by: int
) -> None:
    """It rescues by the database's clock: neither at once nor an hour later."""
    stage.producer(rate=80)
    victim = stage.worker("--channel", "aside")
    stage.worker("--exclude", "aside", clock=wrong_by)
    stage.settles(50)
    [number] = stage.numbers("plain", 1)
    stage.enqueue("stops_midway", number, str(stage.folder), channel="aside")
    eventually((stage.folder / f"{number} took effect").exists)

    with stage.fault():
        stage.kill(victim)
        (killed_at,) = stage.ask("SELECT clock_timestamp()")
        stage.worker(clock=wrong_by)

    stage.end(within=20)
    # Its lease of 2 s was renewed two thirds of a second before, at the latest.
    assert stage.ask(
        "SELECT claimed_at - %s > interval '1 second' FROM pgqueue_history WHERE lost = 1",
        killed_at,
    ) == (True,)
