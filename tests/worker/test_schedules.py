"""Schedules in real workers: once at each tick, in time, whichever worker is killed."""

from __future__ import annotations

import json
import signal
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from pgqueue.models import Duty, History, Message, Schedule
from tests.eventually import eventually
from tests.processes import Process, worker

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
EVERY_SECOND = json.dumps({"often": {"task": "tests.jobs.add", "when": 1, "args": [1, 2]}})


def ticks() -> list[datetime]:
    """Return the ticks that have had a message."""
    said = [
        *Message.objects.values_list("metadata", flat=True),
        *History.objects.values_list("metadata", flat=True),
    ]
    return sorted(datetime.fromisoformat(each["tick"]) for each in said)


def wait_for_ticks(count: int, *, within: float = 20) -> None:
    """Wait until there are so many more than now."""
    wanted = len(ticks()) + count
    eventually(lambda: len(ticks()) >= wanted, within=within)


def assert_each_once(found: list[datetime]) -> None:
    assert [later - earlier for earlier, later in pairwise(found)] == [SECOND] * (len(found) - 1)


@pytest.mark.slow
def test_two_workers_enqueue_once_at_each_tick_and_in_time() -> None:
    with worker(schedules=EVERY_SECOND), worker(schedules=EVERY_SECOND):
        wait_for_ticks(5)

    assert_each_once(ticks())
    delays = sorted(
        created_at - datetime.fromisoformat(metadata["tick"])
        for created_at, metadata in History.objects.values_list("created_at", "metadata")
    )
    assert delays[0] >= timedelta()  # never before its time
    assert delays[len(delays) // 2] < SECOND
    assert set(History.objects.values_list("result", flat=True)) == {3}


@pytest.mark.slow
def test_a_worker_that_is_killed_takes_no_tick_with_it() -> None:
    with worker(schedules=EVERY_SECOND) as first, worker(schedules=EVERY_SECOND) as second:
        wait_for_ticks(2)
        kill(first)
        wait_for_ticks(1, within=5)  # three seconds, and this machine is busy
        wait_for_ticks(1)
        kill(second)
    assert Duty.objects.filter(name="schedule").exists()

    with worker(schedules=EVERY_SECOND):
        wait_for_ticks(3)

    assert_each_once(ticks())


def test_a_line_added_by_an_operator_is_noticed_within_a_second_or_so() -> None:
    with worker() as process:
        process.wait_until_it_idles()
        Schedule.objects.create(name="s", task="tests.jobs.add", args=[1], every=SECOND)

        eventually(History.objects.filter(outcome="succeeded").exists, within=5)


def kill(process: Process) -> None:
    process.signal(signal.SIGKILL)
    process.exit_status()
