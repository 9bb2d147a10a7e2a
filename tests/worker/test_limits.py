"""Limits and order hold across workers that are killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import pairwise

import pytest
from django.db import connection

from pgqueue.models import History, Lane, Message, Policy
from tests import jobs
from tests.eventually import eventually
from tests.processes import worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

KEYS = [f"k{n}" for n in range(5)]


def most_running(ended: Callable[[], bool]) -> dict[str, int]:
    """Return how many ran at once, at most, of each key and of the channel until the end."""
    most: dict[str, int] = {}

    def look() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT coalesce(key, 'channel'), count(*) FROM pgqueue_message "
                "WHERE state = 'running' GROUP BY ROLLUP (key)"
            )
            for name, count in cursor.fetchall():
                most[name] = max(most.get(name, 0), count)
        return ended()

    eventually(look, within=60)
    return most


def test_limits_hold_across_workers_one_of_which_is_killed() -> None:
    Policy.objects.create(channel="default", scope="each", max_running=2)
    Policy.objects.create(channel="default", scope="channel", max_running=7)
    count = 150

    with worker(lease=1.5) as first, worker(lease=1.5), worker(lease=1.5):
        for name in KEYS:
            jobs.sleep.using(key=name).enqueue_many([(0.1,)] * (count // len(KEYS)))
        eventually(lambda: History.objects.count() > 20)
        first.signal(signal.SIGKILL)
        most = most_running(lambda: History.objects.count() >= count)

    assert most.pop("channel") <= 7
    assert set(most) == set(KEYS)
    assert set(most.values()) <= {1, 2}
    assert History.objects.filter(outcome="succeeded").count() == count
    assert not Message.objects.exists()


def test_order_holds_across_workers_one_of_which_is_killed() -> None:
    ordered = jobs.sleep.using(key="a", ordered=True)

    with worker(lease=1.5) as first, worker(lease=1.5):
        results = ordered.enqueue_many([(0.02,)] * 40)
        eventually(lambda: History.objects.count() > 5)
        first.signal(signal.SIGKILL)
        eventually(lambda: History.objects.count() == len(results), within=60)

    ended = list(History.objects.order_by("finished_at", "id"))
    assert [str(each.pk) for each in ended] == [result.id for result in results]
    for before, after in pairwise(ended):
        assert before.finished_at <= after.started_at


def test_a_rate_is_kept_by_several_workers_and_used_up() -> None:
    Policy.objects.create(channel="default", scope="channel", rate=50, burst=1)

    with worker(), worker():
        jobs.add.enqueue_many([(n,) for n in range(100)])
        eventually(lambda: History.objects.count() == 100, within=30)

    moments = History.objects.order_by("claimed_at").values_list("claimed_at", flat=True)
    took = (moments[99] - moments[0]).total_seconds()
    # 100 starts, 20 ms apart. A worker that waits for its poll after each would take minutes.
    assert took + 0.001 >= 99 / 50
    assert took < 20


def test_lanes_are_gone_when_their_work_is() -> None:
    Policy.objects.create(channel="default", scope="each", max_running=2)
    jobs.add.using(key=lambda a: f"tenant {a}").enqueue_many([(n,) for n in range(30)])

    with worker():
        eventually(lambda: History.objects.count() == 30)
        eventually(lambda: not Lane.objects.exists(), within=15)
