"""Subscriptions in real workers: at once, in order, and once each, whichever worker is killed."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from pgqueue import Channel, publish, publish_many
from pgqueue.events import subscriptions
from pgqueue.models import History, Reader, Subscription
from tests.eventually import eventually
from tests.processes import Process, worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def create(name: str = "all", task: str = "tests.events.handlers.plain", **options: Any) -> None:
    subscriptions.create(name, task, **options)


def wait_until_it_follows() -> None:
    """Wait until a worker dispatches, and wants to be told of events."""
    eventually(Subscription.objects.filter(follows=True).exists)
    eventually(Reader.objects.filter(notify_until__isnull=False).exists)


def succeeded() -> list[int]:
    """Return the positions of the events whose messages have run, in the order of their starts."""
    rows = History.objects.filter(outcome="succeeded").order_by("started_at", "id")
    return [int(metadata["position"]) for metadata in rows.values_list("metadata", flat=True)]


def kill(process: Process) -> None:
    process.signal(signal.SIGKILL)
    process.exit_status()


def test_an_idle_worker_is_woken_by_an_event_and_runs_its_message_at_once() -> None:
    create()
    with worker(poll_interval=5) as process:
        process.wait_until_it_idles()
        wait_until_it_follows()
        publish("a")

        eventually(History.objects.exists, within=3)

    row = History.objects.get()
    assert (row.outcome, row.metadata["subscription"]) == ("succeeded", "all")


def test_two_workers_make_one_message_of_each_event() -> None:
    create()
    with worker(), worker():
        wait_until_it_follows()
        for _ in range(40):
            publish_many([("a", n) for n in range(5)])
            publish("a")

        eventually(lambda: len(succeeded()) >= 240, within=20)

    assert sorted(succeeded()) == list(range(1, 241))


def test_a_worker_that_is_killed_takes_no_event_with_it() -> None:
    create()
    # A lease so short that what was running then runs again soon.
    with worker(lease=2) as first, worker(lease=2) as second:
        wait_until_it_follows()
        for number in range(60):
            publish_many([("a", n) for n in range(5)])
            if number == 20:
                kill(first)
            if number == 40:
                kill(second)
        with worker(lease=2):
            eventually(lambda: len(succeeded()) >= 300, within=30)

    assert sorted(succeeded()) == list(range(1, 301))


def test_ordered_messages_run_in_the_order_of_the_log_and_a_policys_too() -> None:
    Channel("governed").policy(max_running=1)
    create("ordered", ordered=True, key="{key}", channel="ordered")
    create("governed", channel="governed")
    with worker(), worker():
        wait_until_it_follows()
        for _ in range(10):
            publish_many([("a", n, "k") for n in range(10)])

        eventually(lambda: len(succeeded()) >= 200, within=30)

    rows = History.objects.filter(channel="ordered").order_by("started_at", "id")
    positions = [each["position"] for each in rows.values_list("metadata", flat=True)]
    assert positions == list(range(1, 101))
    assert History.objects.filter(channel="governed", outcome="succeeded").count() == 100
