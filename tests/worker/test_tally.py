"""What workers count of their runs."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from pgqueue.endings import Closed, HandedBack, Retried, Succeeded
from pgqueue.engine import statistics
from pgqueue.engine.statistics import Counts
from pgqueue.models import Tally as Row
from pgqueue.worker import tally as module
from pgqueue.worker.tally import OTHER, Tally
from tests import jobs
from tests.eventually import eventually
from tests.processes import worker

SUCCEEDED = Succeeded(None)
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def ended(task: str = "t", *, waited: float = 0, ran: float = 0) -> Any:
    """Return something that was leased, as far as it is looked at."""
    claim = SimpleNamespace(
        channel="c", task=task, run_at=NOW - timedelta(seconds=waited), claimed_at=NOW
    )
    return SimpleNamespace(claim=claim, claimed=100.0, started=100.0, finished=100.0 + ran)


def stored(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> list[Counts]:
    add = Mock()
    monkeypatch.setattr(statistics, "add", add)
    tally.store(Mock())
    return list(add.call_args.args[1]) if add.called else []


def test_runs_are_counted_by_their_ends_their_waits_and_what_they_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tally = Tally()
    tally.add([(ended(waited=2, ran=0.5), SUCCEEDED)])
    tally.add([(ended(waited=-1, ran=1), Retried(ValueError(), "", timedelta()))])
    tally.add([(ended(), HandedBack())])
    tally.add([(ended(), Closed())])

    [counts] = stored(tally, monkeypatch)

    assert (counts.channel, counts.task) == ("c", "t")
    assert (counts.succeeded, counts.failed, counts.total) == (1, 1, 2)
    assert (counts.waited, counts.ran) == (2, 1.5)
    assert sum(counts.waits) == sum(counts.runs) == 2
    assert counts.waits[0] == 1
    assert counts.runs[statistics.bucket(0.5)] == counts.runs[statistics.bucket(1)] == 1
    assert stored(tally, monkeypatch) == []


def test_threads_lose_nothing_of_what_they_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally()

    def count() -> None:
        for _ in range(20_000):
            tally.add([(ended(), SUCCEEDED)])

    threads = [threading.Thread(target=count) for _ in range(4)]
    for each in threads:
        each.start()
    found = []
    while any(each.is_alive() for each in threads):
        found += stored(tally, monkeypatch)
        time.sleep(0.001)
    found += stored(tally, monkeypatch)

    assert sum(each.succeeded for each in found) == 80_000


def test_what_could_not_be_stored_is_stored_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally()
    tally.add([(ended(ran=1), SUCCEEDED)])
    monkeypatch.setattr(statistics, "add", Mock(side_effect=psycopg.OperationalError))
    with pytest.raises(psycopg.OperationalError):
        tally.store(Mock())
    tally.add([(ended(ran=1), SUCCEEDED)])

    [counts] = stored(tally, monkeypatch)

    assert (counts.succeeded, counts.ran) == (2, 2)
    assert counts.runs[statistics.bucket(1)] == 2


def test_very_many_tasks_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    tally = Tally()
    for task in ("a", "b", "c", "d", "a"):
        tally.add([(ended(task), SUCCEEDED)])

    counts = {each.task: each.succeeded for each in stored(tally, monkeypatch)}

    assert counts == {"a": 2, "b": 1, OTHER: 2}


@pytest.mark.django_db(transaction=True)
def test_a_worker_stores_what_it_has_counted_when_it_stops() -> None:
    jobs.add.enqueue_many([(each,) for each in range(600)])
    jobs.double.enqueue(1)
    jobs.leave_atomically.enqueue("x")
    jobs.fail.using(max_attempts=2).enqueue("no use")

    call_command("runworker", "--drain", "--async", "2", verbosity=0)

    counts = {each.task: each for each in statistics.totals(connection)}
    assert counts[jobs.add.name].succeeded == 600
    assert counts[jobs.double.name].succeeded == 1
    assert counts[jobs.leave_atomically.name].succeeded == 1
    assert (counts[jobs.fail.name].failed, counts[jobs.fail.name].dead) == (1, 1)
    assert sum(counts[jobs.add.name].waits) == sum(counts[jobs.add.name].runs) == 600
    assert 0 < counts[jobs.add.name].ran < counts[jobs.add.name].waited


@pytest.mark.django_db(transaction=True)
def test_a_worker_stores_what_it_has_counted_with_its_heartbeat() -> None:
    jobs.add.enqueue(1)

    with worker(lease=1):
        row = eventually(lambda: Row.objects.first(), within=20)

    assert row is not None
    assert (row.task, row.succeeded) == (jobs.add.name, 1)
