"""What workers and consumers count of their runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection, transaction

from pgqueue import receive, send
from pgqueue.calls.outcomes import (
    Closed,
    HandedBack,
    Retried,
    Succeeded,
)
from pgqueue.claiming import run_counts as module
from pgqueue.claiming.run_counts import OTHER, Tally
from pgqueue.database.connections import connect
from pgqueue.engine import culprits, run_statistics
from pgqueue.engine.run_statistics import Counts
from pgqueue.exceptions import LeaseLost
from pgqueue.models import Message, TallyBatch
from pgqueue.models import Tally as Row
from tests import jobs
from tests.eventually import eventually
from tests.factories import refusing
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
    add = Mock(return_value=[])
    monkeypatch.setattr(run_statistics, "add", add)
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
    assert counts.runs[run_statistics.bucket(0.5)] == counts.runs[run_statistics.bucket(1)] == 1
    assert stored(tally, monkeypatch) == []


def test_runs_are_counted_by_tenant_and_together_for_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tally = Tally(lambda claim: claim.task.partition(" ")[2])
    tally.add([(ended("t north"), SUCCEEDED), (ended("t north"), SUCCEEDED), (ended(), SUCCEEDED)])

    counts = {each.key: each.succeeded for each in stored(tally, monkeypatch)}

    assert counts == {("c", "t north", "north"): 2, ("c", "t", ""): 1}
    assert {each.key for each in tally.totals()} == {("c", "t north", ""), ("c", "t", "")}


def test_further_tenants_of_a_task_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BY_TENANT", 2)
    monkeypatch.setattr(module, "MOST", 4)
    names = iter("abcda")
    tally = Tally(lambda claim: next(names))
    tally.add([(ended(), SUCCEEDED)] * 5)
    tally.add_released([ended("u").claim, ended("v").claim])

    counts = {each.key: (each.succeeded, each.released) for each in stored(tally, monkeypatch)}

    assert counts == {
        ("c", "t", "a"): (2, 0),
        ("c", "t", "b"): (1, 0),
        ("c", "t", OTHER): (2, 0),
        ("c", "u", ""): (0, 1),
        (OTHER, OTHER, ""): (0, 1),
    }


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
    monkeypatch.setattr(run_statistics, "add", Mock(side_effect=psycopg.OperationalError))
    with pytest.raises(psycopg.OperationalError):
        tally.store(Mock())
    tally.add([(ended(ran=1), SUCCEEDED)])
    assert [each.succeeded for each in tally.totals()] == [2]

    add = Mock(return_value=[])
    monkeypatch.setattr(run_statistics, "add", add)
    tally.store(Mock())

    assert [each.kwargs["batch"] for each in add.call_args_list] == [1, 2]
    assert [each.args[1][0].succeeded for each in add.call_args_list] == [1, 1]
    assert [each.succeeded for each in tally.totals()] == [2]


@pytest.mark.django_db(transaction=True)
def test_what_was_committed_though_no_answer_came_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tally, add = Tally(), run_statistics.add

    def add_and_break(*arguments: Any, **options: Any) -> None:
        add(*arguments, **options)
        raise psycopg.OperationalError("the connection broke after the commit")

    with closing(connect("default", name="test")) as own:
        tally.add([(ended(), SUCCEEDED)] * 3)
        with monkeypatch.context() as patched, pytest.raises(psycopg.OperationalError):
            patched.setattr(run_statistics, "add", add_and_break)
            tally.store(own)
        call_command("pgqueue_maintain", verbosity=0)
        tally.add([(ended(), SUCCEEDED)] * 2)

        tally.close(own)

        assert [each.succeeded for each in run_statistics.totals(own)] == [5]
    assert not TallyBatch.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestCountsThatAreRefused:
    """A trigger, or a damaged row, refuses the counts of one task."""

    @pytest.fixture(autouse=True)
    def _forget(self) -> Iterator[None]:
        yield
        culprits.forget_all()

    def test_keep_no_others_from_being_stored(self, caplog: pytest.LogCaptureFixture) -> None:
        tally = Tally()
        with closing(connect("default", name="test")) as own:
            with refusing(own, "pgqueue_tally", "NEW.task = 'bad'"):
                for _ in range(3):
                    tally.add([(ended(task), SUCCEEDED) for task in ("good", "bad", "other")])
                    tally.store(own)

            assert {each.task: each.succeeded for each in run_statistics.totals(own)} == {
                "good": 3,
                "other": 3,
            }
        assert {each.task: each.succeeded for each in tally.totals()} == {
            "good": 3,
            "other": 3,
            "bad": 3,
        }
        assert caplog.text.count("tally fails because of pgqueue_tally 'c', 'bad'") == 1

    def test_are_stored_once_they_are_taken(self) -> None:
        tally = Tally()
        with closing(connect("default", name="test")) as own:
            with refusing(own, "pgqueue_tally", "NEW.task = 'bad'"):
                for _ in range(3):
                    tally.add([(ended("bad", ran=1), SUCCEEDED)])
                    tally.store(own)
            culprits.forget_all()  # a minute later

            tally.add([(ended("bad", ran=1), SUCCEEDED)])
            tally.close(own)

            [counts] = run_statistics.totals(own)
        assert (counts.succeeded, counts.ran, sum(counts.runs)) == (4, 4, 4)
        assert not TallyBatch.objects.exists()

    def test_are_counted_once_where_a_connection_broke_before(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tally, add = Tally(), run_statistics.add

        def add_and_break(*arguments: Any, **options: Any) -> None:
            add(*arguments, **options)
            raise psycopg.OperationalError("the connection broke after the commit")

        with closing(connect("default", name="test")) as own:
            tally.add([(ended(task), SUCCEEDED) for task in ("good", "bad")])
            with monkeypatch.context() as patched, pytest.raises(psycopg.OperationalError):
                patched.setattr(run_statistics, "add", add_and_break)
                tally.store(own)
            with refusing(own, "pgqueue_tally", "NEW.task = 'bad'"):
                tally.add([(ended(task), SUCCEEDED) for task in ("good", "bad")])
                tally.store(own)
            culprits.forget_all()
            tally.store(own)

            found = {each.task: each.succeeded for each in run_statistics.totals(own)}
        assert found == {"good": 2, "bad": 2}

    def test_are_of_no_task_where_all_are_refused(self) -> None:
        tally = Tally()
        with closing(connect("default", name="test")) as own:
            with refusing(own, "pgqueue_tally_batch", "true"):
                tally.add([(ended(task), SUCCEEDED) for task in ("good", "bad")])
                with pytest.raises(psycopg.Error, match="refused"):
                    tally.store(own)

            tally.store(own)

            found = {each.task: each.succeeded for each in run_statistics.totals(own)}
        assert found == {"good": 1, "bad": 1}

    def test_may_be_many(self) -> None:
        tally = Tally()
        tally.add([(ended(f"bad {number}"), SUCCEEDED) for number in range(25)])
        tally.add([(ended("good"), SUCCEEDED)])
        with (
            closing(connect("default", name="test")) as own,
            refusing(own, "pgqueue_tally", "NEW.task <> 'good'"),
        ):
            for _ in range(3):  # each search ends with the tenth
                with suppress(psycopg.Error):
                    tally.store(own)

            assert [each.task for each in run_statistics.totals(own)] == ["good"]
        culprits.forget_all()
        with closing(connect("default", name="test")) as own:
            tally.store(own)

            assert len(run_statistics.totals(own)) == 26

    def test_stay_bounded_in_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST", 3)
        tally = Tally()
        with (
            closing(connect("default", name="test")) as own,
            refusing(own, "pgqueue_tally", "true"),
        ):
            for number in range(20):
                tally.add([(ended(str(number)), SUCCEEDED)])
                tally.store(own)

        found = {each.task: each.succeeded for each in tally.totals()}
        assert len(found) == 4
        assert sum(found.values()) == 20


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

    counts = {each.task: each for each in run_statistics.totals(connection)}
    assert counts[jobs.add.name].succeeded == 600
    assert counts[jobs.double.name].succeeded == 1
    assert counts[jobs.leave_atomically.name].succeeded == 1
    assert (counts[jobs.fail.name].failed, counts[jobs.fail.name].dead) == (1, 1)
    assert sum(counts[jobs.add.name].waits) == sum(counts[jobs.add.name].runs) == 600
    assert 0 < counts[jobs.add.name].ran < counts[jobs.add.name].waited


@pytest.mark.django_db(transaction=True)
def test_a_worker_counts_what_it_hands_back_as_it_stops() -> None:
    with worker("--threads", "1", "--grace", "0") as process:
        jobs.sleep.enqueue(60, "nap")
        jobs.add.enqueue(1)
        eventually(lambda: Group.objects.filter(name="nap began").exists())

        process.signal(signal.SIGTERM)

        process.exit_status()
    [counts] = run_statistics.totals(connection)
    assert (counts.task, counts.released, counts.total) == (jobs.sleep.name, 1, 0)
    assert not TallyBatch.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestAConsumer:
    """`receive()`, which settles on Django's connection."""

    def counts(self) -> Counts:
        [counts] = run_statistics.totals(connection)
        return counts

    def test_counts_what_becomes_of_deliveries(self) -> None:
        for number in range(6):
            send("mail", number, max_attempts=2 if number != 3 else 1)

        with receive("mail", limit=6) as deliveries:
            done, again, later, dead, back, over = deliveries.take()
            done.complete()
            again.retry(0)
            later.defer(60)
            dead.retry(error="no use")
            back.release()
            over.complete()

        counts = self.counts()
        assert (counts.channel, counts.task) == ("mail", "")
        assert (counts.succeeded, counts.failed, counts.dead) == (2, 1, 1)
        assert (counts.deferred, counts.released, counts.total) == (1, 1, 5)
        assert sum(counts.waits) == sum(counts.runs) == 5
        assert counts.waited > 0 and counts.ran > 0

    def test_counts_nothing_that_was_rolled_back_or_lost(self) -> None:
        for number in range(3):
            send("mail", number)

        with receive("mail", limit=3) as deliveries:
            kept, undone, lost = deliveries.take()
            kept.complete()
            with suppress(ZeroDivisionError), transaction.atomic():
                undone.complete()
                raise ZeroDivisionError
            Message.objects.filter(pk=lost.id).update(attempt=7)
            with pytest.raises(LeaseLost):
                lost.complete()

        assert self.counts().succeeded == self.counts().total == 1

    def test_counts_what_is_settled_after_it_was_closed(self) -> None:
        for number in range(2):
            send("mail", number)
        with receive("mail", limit=2) as deliveries:
            one, other = deliveries.take()

        one.complete()
        with transaction.atomic():
            other.complete()

        assert self.counts().succeeded == 2
        assert not TallyBatch.objects.exists()

    def test_stores_what_it_has_counted_with_its_heartbeat(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send("mail", 1)
        with receive("mail") as deliveries:
            [delivery] = deliveries.take()
            delivery.complete()
            monkeypatch.setattr(deliveries._consumer, "_beat_at", 0)

            deliveries.take()

            assert self.counts().succeeded == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_stores_what_it_has_counted_with_its_heartbeat() -> None:
    jobs.add.enqueue(1)

    with worker(lease=1):
        row = eventually(lambda: Row.objects.first(), within=20)

    assert row is not None
    assert (row.task, row.succeeded) == (jobs.add.name, 1)
