"""What goes out to a broker, and what comes in from one, while either end is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import Redis
from tests.chaos.harness.logstage import LogStage
from tests.chaos.harness.processes import Process
from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

APP = "tests.chaos.exchange"
A_DAY = 1440
"""Attempts, of which a relay makes one a minute."""

FAILURES = "SELECT coalesce(max(failures), 0) FROM pgqueue_message WHERE channel = 'to redis'"
WAITING = "SELECT count(*) FROM pgqueue_message"
IN_THE_LOG = "SELECT array_agg(position ORDER BY position) FROM pgqueue_event WHERE key = %s"
KEYS = "SELECT array_agg(DISTINCT key) FROM pgqueue_event"
EFFECTS = "SELECT count(*), count(DISTINCT number), min(number), max(number) FROM chaos_effect"
LEFT = "SELECT (SELECT count(*) FROM pgqueue_message), (SELECT count(*) FROM pgqueue_event_inbox)"
IS_DISPATCHED = """
SELECT coalesce((SELECT max(position) FROM pgqueue_event), 0)
    <= coalesce((SELECT position FROM pgqueue_cursor WHERE "group" = ''), 0)
"""
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'chaos' AND wait_event_type = 'Lock'"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Redis]:
    """A Redis that runs."""
    folder = tmp_path / "redis"
    folder.mkdir()
    server = Redis(folder)
    server.start()
    yield server
    server.stop()


def handed_over(broker: Redis) -> int:
    """Return how many events a broker has."""
    with broker.connect() as client:
        return sum(client.xlen(stream) for stream in broker.streams())


@pytest.mark.chaos
def test_a_broker_that_is_away_for_a_day_is_given_everything_once_and_in_order(
    log_stage: LogStage, broker: Redis
) -> None:
    stage = log_stage
    environment = {"CHAOS_APPS": APP, "REDIS_URL": broker.url}
    first = stage.worker(**environment)
    stage.publisher(rate=60)
    eventually(lambda: handed_over(broker) > 50, within=30, what="it relays")

    broker.stop()
    eventually(lambda: stage.ask(FAILURES)[0] > A_DAY / 2, within=60, what="half a day passes")
    stage.kill(first)
    second = stage.worker(**environment)
    eventually(lambda: stage.ask(FAILURES)[0] > A_DAY, within=60, what="a day passes")
    broker.start()
    nap(stage.random.uniform(0, 0.3))
    stage.kill(second)
    third = stage.worker(**environment)

    came_to = stage.end_log()
    eventually(lambda: stage.ask(WAITING) == (0,), within=60, what="it hands over the rest")
    stage.retire(third)
    assert came_to
    [keys] = stage.ask(KEYS)
    for key in keys:
        [positions] = stage.ask(IN_THE_LOG, key)
        ids = [id for id, _ in broker.entries(f"chaos:{key}")]
        assert ids == [f"{position}-0" for position in positions]


def recipient(stage: Stage, first: int, last: int, *, rest: float) -> Process:
    """Start one that receives these messages, three times each."""
    name = f"recipient-{len(stage.others)}-{stage.random.random()}"
    command = ["-m", "tests.chaos.recipient", str(first), str(last), name, str(rest)]
    started = stage._process(name, command, None, {"CHAOS_APPS": APP}, None)
    stage.others.append(started)
    return started


def has_handled_all(stage: Stage) -> bool:
    """Whether nothing waits, and all that was published has been dispatched."""
    return bool(stage.ask(LEFT) == (0, 0) and stage.ask(IS_DISPATCHED) == (True,))


@pytest.mark.parametrize("number", [1, 2], ids=["for a task", "published"])
def test_what_is_received_by_a_process_that_is_killed_before_its_commit_is_handled_once(
    stage: Stage, number: int
) -> None:
    stage.worker(CHAOS_APPS=APP)
    victim = recipient(stage, number, number, rest=120)
    eventually(lambda: victim.output == [f"stored {number}"], within=30, what="it is stored")
    other = recipient(stage, number, number, rest=0)
    # It is behind the lock of the first.
    eventually(lambda: stage.ask(WAITS) == (1,), within=30, what="it waits")

    victim.kill()

    assert other.exit_status() == 0
    again = [f"known {number}", f"committed {number}"]
    assert other.output == [f"stored {number}", again[1], *again, *again, "done"]
    eventually(lambda: stage.ask(EFFECTS)[0] == 1, within=30, what="it is handled")
    eventually(lambda: has_handled_all(stage), within=30)
    assert stage.ask(EFFECTS) == (1, 1, number, number)
    assert victim.output == [f"stored {number}"]


@pytest.mark.chaos
def test_whatever_is_killed_all_that_is_received_is_handled_once(stage: Stage) -> None:
    worker = stage.worker(CHAOS_APPS=APP)
    victims = [recipient(stage, 1, 200, rest=0.02) for _ in range(3)]
    killed = amid = 0
    while killed < 12:
        nap(stage.random.uniform(0.3, 0.9))
        victim = victims.pop(stage.random.randrange(3))
        victim.kill()
        killed += 1
        amid += bool(victim.output) and victim.output[-1].startswith("stored")
        victims.append(recipient(stage, 1, 200, rest=0.02))
        if killed % 3 == 0:
            stage.kill(worker)
            worker = stage.worker(CHAOS_APPS=APP)

    last = recipient(stage, 1, 200, rest=0)
    for each in [*victims, last]:
        assert each.exit_status(120) == 0, each.log
    eventually(lambda: stage.ask(EFFECTS)[0] >= 200, within=60, what="all of it is handled")
    eventually(lambda: has_handled_all(stage), within=60)
    assert stage.ask(EFFECTS) == (200, 200, 1, 200)
    assert amid
