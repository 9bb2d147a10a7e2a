"""A request to cancel a running message reaches the worker that runs it by a notification.

A worker here has twenty minutes between two heartbeats. So only the notification can explain that
a run ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from signal import SIGTERM
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import Client

from pgqueue import Channel, flow
from pgqueue.models import History, Message
from pgqueue.operating import bulk
from pgqueue.states import Outcome, State
from pgqueue.tasks import TaskResult
from pgqueue.tasks.flows import get_flow
from tests import cancelled_jobs, jobs
from tests.admin.acting import act
from tests.eventually import eventually
from tests.management.calling import call
from tests.processes import worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

LEASE = 3600.0

Ask = Callable[[TaskResult[Any]], object]


def is_running(result: TaskResult[Any]) -> bool:
    return Message.objects.filter(pk=result.id, state=State.RUNNING).exists()


def is_cancelled(result: TaskResult[Any]) -> bool:
    return History.objects.filter(pk=result.id, outcome=Outcome.CANCELLED).exists()


def in_bulk(result: TaskResult[Any]) -> None:
    bulk.start("cancel", bulk.Filter(task=result.task.name), newest=bulk.newest())


ASKS: dict[str, Ask] = {
    "a result": lambda result: result.cancel(),
    "a result, from async code": lambda result: async_to_sync(result.acancel)(),
    "a queryset": lambda result: Message.objects.filter(pk=result.id).cancel(),
    "a channel": lambda result: Channel("default").cancel(int(result.id)),
    "a command": lambda result: call("pgqueue_cancel", result.id),
    "an operation by a filter": in_bulk,
}


class TestARequestToCancel:
    @pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS.keys())
    def test_is_notified_by_each_way_to_ask(self, ask: Ask) -> None:
        result = cancelled_jobs.until_cancelled.enqueue()
        with worker("--threads", "2", lease=LEASE):
            eventually(lambda: is_running(result))

            ask(result)

            eventually(lambda: is_cancelled(result))

    def test_is_notified_by_the_admin(self, admin_client: Client) -> None:
        result = cancelled_jobs.until_cancelled.enqueue()
        with worker("--threads", "1", lease=LEASE):
            eventually(lambda: is_running(result))

            act(admin_client, "cancel", [int(result.id)])

            eventually(lambda: is_cancelled(result))

    def test_is_notified_where_a_flow_is_cancelled(self) -> None:
        with flow("two") as f:
            first = f.enqueue(cancelled_jobs.until_cancelled)
            second = f.enqueue(jobs.add.using(), 1, after=first)
        with worker("--threads", "1", lease=LEASE):
            eventually(lambda: is_running(first))

            get_flow(f.id).cancel()

            eventually(lambda: is_cancelled(first) and is_cancelled(second))

    def test_is_notified_where_a_durable_run_cancels_its_calls(self) -> None:
        result = cancelled_jobs.calls_until_cancelled.enqueue()
        task = cancelled_jobs.until_cancelled.name
        with worker("--threads", "2", lease=LEASE):
            called = eventually(
                lambda: Message.objects.filter(task=task, state=State.RUNNING).first()
            )

            result.cancel()

            eventually(lambda: History.objects.filter(pk=called.pk, outcome="cancelled").exists())

    @pytest.mark.parametrize(
        ("job", "arguments"),
        [
            (cancelled_jobs.until_cancelled, ["--processes", "2"]),
            (cancelled_jobs.until_cancelled, ["--threads", "4"]),
            (cancelled_jobs.until_cancelled_async, ["--async", "4", "--threads", "1"]),
            (cancelled_jobs.until_cancelled_async, ["--threads", "1"]),
            (cancelled_jobs.many_steps, ["--threads", "1"]),
        ],
        ids=["processes", "threads", "event loop", "async on a thread", "durable"],
    )
    def test_ends_all_runs_of_a_worker_and_no_others(self, job: Any, arguments: list[str]) -> None:
        # A process of one thread runs one of them.
        count = 1 if arguments == ["--threads", "1"] else 2
        results = job.enqueue_many([()] * count)
        with worker(*arguments, lease=LEASE) as process:
            eventually(lambda: all(map(is_running, results)))

            while results:
                result = results.pop()
                result.cancel()

                eventually(partial(is_cancelled, result))
                assert all(map(is_running, results))

            # In order: a killed supervisor's processes would claim messages of the next test.
            process.signal(SIGTERM)
            assert process.exit_status() == 0

    def test_is_notified_while_the_worker_claims_one_message_after_the_other(self) -> None:
        result = cancelled_jobs.until_cancelled.enqueue()
        with worker("--threads", "2", lease=LEASE):
            eventually(lambda: is_running(result))
            jobs.sleep.enqueue_many([(0.01, "")] * 20_000)
            eventually(lambda: History.objects.count() > 10)

            result.cancel()

            eventually(lambda: is_cancelled(result))
            assert Message.objects.filter(state=State.READY).exists()

    def test_waits_for_the_heartbeat_of_a_worker_that_does_not_listen(self) -> None:
        result = cancelled_jobs.until_cancelled.enqueue()
        with worker("--threads", "1", "--poll-only", lease=1):
            eventually(lambda: is_running(result))

            result.cancel()

            eventually(lambda: is_cancelled(result))

    def test_ends_no_run_if_it_is_rolled_back(self) -> None:
        rolled_back, result = cancelled_jobs.until_cancelled.enqueue_many([()] * 2)
        with worker("--threads", "2", lease=LEASE):
            eventually(lambda: is_running(rolled_back) and is_running(result))

            roll_back(rolled_back.cancel)
            result.cancel()

            eventually(lambda: is_cancelled(result))
            assert is_running(rolled_back)


def roll_back(do: Callable[[], object]) -> None:
    with transaction.atomic():
        do()
        transaction.set_rollback(True)
