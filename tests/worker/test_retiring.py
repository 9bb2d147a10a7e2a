"""Workers that end by themselves, after some time or where there is nothing to do."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from psycopg import OperationalError

from pgqueue import signals
from pgqueue.models import History
from pgqueue.models import Worker as Row
from pgqueue.worker import settler
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.worker import Worker
from tests import jobs
from tests.hearing import heard

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SOON = timedelta(seconds=0.5)


def run(**options: Any) -> list[dict[str, float]]:
    """Run a worker until it ends; return why it retired."""
    config = WorkerConfig(
        database="default", threads=1, grace=timedelta(seconds=1), duties=False, **options
    )
    with heard(signals.worker_retiring, "reached") as reached:
        assert Worker(config).run()
    return reached


def test_a_worker_retires_at_its_age_and_ends_what_it_runs() -> None:
    jobs.sleep.enqueue(2)

    [reached] = run(max_age=SOON)

    assert list(reached) == ["seconds"]
    assert History.objects.get().outcome == "succeeded"
    assert not Row.objects.exists()


def test_a_worker_retires_that_has_had_nothing_to_run_for_so_long() -> None:
    [reached] = run(max_idle=SOON)

    assert list(reached) == ["seconds without work"]


def test_a_worker_does_not_retire_as_idle_while_a_task_runs() -> None:
    jobs.sleep.enqueue(3)

    [reached] = run(max_idle=SOON)

    assert History.objects.get().outcome == "succeeded"
    assert reached["seconds without work"] < 3


def test_a_worker_that_retires_waits_longer_than_its_grace_period_for_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write, since = settler.write, []

    def failing(*arguments: Any) -> set[int]:
        since.append(monotonic())
        if since[-1] - since[0] < 5:
            raise OperationalError("the database is away")
        return write(*arguments)

    monkeypatch.setattr(settler, "write", failing)
    jobs.sleep.enqueue(2)

    run(max_age=SOON)

    message = History.objects.get()
    assert (message.outcome, message.attempt) == ("succeeded", 1)
