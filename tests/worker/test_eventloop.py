"""Async tasks on a worker's event loop: many at once, in one process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task
from tests import jobs
from tests.eventually import eventually
from tests.processes import worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SIGTERM = signal.SIGTERM


def ended(count: int = 1) -> bool:
    return History.objects.count() >= count


def began(count: int = 1) -> bool:
    return Group.objects.filter(name__endswith="began").count() >= count


@contextmanager
def new_connections_read_only() -> Iterator[None]:
    """Have connections that are opened in the block lead to a read-only database."""
    database = connection.ops.quote_name(connection.settings_dict["NAME"])

    def run(change: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {database} {change}")

    run("SET default_transaction_read_only = on")
    try:
        yield
    finally:
        run("RESET default_transaction_read_only")


class TestAsyncTasks:
    def test_wait_together_by_the_hundred(self) -> None:
        jobs.nap.enqueue_many([(1,)] * 300)

        with worker("--async", "300", "--threads", "1"):
            eventually(lambda: ended(300), within=30)

        rows = History.objects.values_list("started_at", "finished_at")
        # All of them at once: the last began before the first had ended.
        assert max(start for start, _ in rows) < min(end for _, end in rows)

    def test_are_awaited_so_many_at_once_and_no_more(self) -> None:
        jobs.count_naps.enqueue_many([(0.02,)] * 100)

        with worker("--async", "7", "--threads", "1"):
            eventually(lambda: ended(100), within=30)

        assert max(History.objects.values_list("result", flat=True)) == 7

    def test_return_raise_and_defer_as_on_threads(self) -> None:
        returning = jobs.double.enqueue(4)
        raising = jobs.fail_async.enqueue("no")
        deferring = jobs.defer_once_async.enqueue()
        unreadable = jobs.double.enqueue(1)
        Message.objects.filter(pk=unreadable.id).update(payload={"args": "?"})

        with worker("--async", "10"):
            eventually(lambda: ended(2) and Message.objects.dead().count() == 2)

        assert History.objects.get(pk=returning.id).result == 8
        deferred = History.objects.get(pk=deferring.id)
        assert (deferred.result, deferred.failures) == ("came back", 0)
        dead = Message.objects.get(pk=raising.id)
        assert (dead.failures, dead.errors[-1]["class"]) == (2, "builtins.ValueError")
        assert (
            Message.objects.get(pk=unreadable.id).errors[0]["class"].endswith("UnreadablePayload")
        )

    def test_are_interrupted_when_their_time_is_over(self) -> None:
        result = jobs.wait_for_ever.enqueue()

        with worker("--async", "10"):
            dead = eventually(lambda: Message.objects.dead().first())

        assert (dead.pk, dead.errors[0]["class"]) == (
            int(result.id),
            "pgqueue.exceptions.TaskTimeout",
        )

    def test_are_interrupted_when_they_are_cancelled(self) -> None:
        result = jobs.nap.enqueue(3600)
        with worker("--async", "10", lease=1):
            eventually(lambda: Message.objects.filter(state=State.RUNNING).exists())

            result.cancel()

            eventually(ended)
        assert History.objects.get().outcome == Outcome.CANCELLED

    def test_that_are_atomic_run_on_a_thread(self) -> None:
        jobs.leave_atomically_async.enqueue("once")
        jobs.leave_async.using(atomic=True).enqueue("twice")

        with worker("--async", "10"):
            eventually(lambda: ended(2))

        assert set(Group.objects.values_list("name", flat=True)) == {"once", "twice"}

    def test_use_the_orm_on_one_connection(self) -> None:
        jobs.backend_pid_async.enqueue_many([()] * 20)

        with worker("--async", "20"):
            eventually(lambda: ended(20))

        assert len(set(History.objects.values_list("result", flat=True))) <= 2

    def test_keep_that_connection_while_they_read_from_it(self) -> None:
        Group.objects.bulk_create(Group(name=f"{each}") for each in range(6))
        jobs.count_slowly.enqueue(0.5)

        with worker("--async", "10"):
            eventually(lambda: ended() or Message.objects.filter(failures__gt=0).exists())

        assert History.objects.get().result == 6

    def test_go_on_after_that_connection_was_cut(self) -> None:
        with worker("--async", "10"):
            jobs.cut_own_connection_async.enqueue()
            eventually(lambda: Message.objects.dead().exists() or ended())

            jobs.leave_async.using(max_attempts=10, backoff=[0.2]).enqueue("after")

            eventually(lambda: Group.objects.filter(name="after").exists())

    def test_leave_a_server_that_is_read_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONN_MAX_AGE", "3600")
        with worker("--async", "10"):
            jobs.double.enqueue(1)
            eventually(ended)  # so the worker's own connections are open
            with new_connections_read_only():
                result = jobs.leave_async.using(max_attempts=100, backoff=[0.2]).enqueue("after")
                eventually(lambda: Message.objects.filter(failures__gt=0).exists())

            eventually(lambda: Group.objects.filter(name="after").exists())
            eventually(lambda: ended(2))
            assert History.objects.get(pk=result.id).failures > 0

    def test_leave_a_session_that_was_changed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONN_MAX_AGE", "3600")
        with worker("--async", "10"):
            before = jobs.session_state_async.enqueue()
            eventually(ended)
            jobs.change_session_async.enqueue("SET search_path = tenant, public")
            eventually(lambda: ended(2))
            after = jobs.session_state_async.enqueue()
            eventually(lambda: ended(3))

        before.refresh()
        after.refresh()
        assert before.return_value == after.return_value

    @pytest.mark.parametrize("way", ["atomic", "begin", "failed", "copy", "pipeline"])
    def test_that_leave_a_transaction_open_fail(
        self, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        monkeypatch.setenv("CONN_MAX_AGE", "3600")
        with worker("--async", "10"):
            jobs.leave_open_async.enqueue(way)
            dead = eventually(lambda: Message.objects.dead().first())
            after = jobs.leave_async.enqueue("after")
            eventually(lambda: History.objects.filter(pk=after.id).exists())

        assert dead.errors[0]["class"] == "pgqueue.exceptions.TransactionLeftOpen"
        assert [each.name for each in Group.objects.all()] == ["after"]

    def test_fail_with_another_that_left_open_what_they_may_have_written_in(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CONN_MAX_AGE", "3600")
        with worker("--async", "10"):
            jobs.write_and_wait.enqueue(2)
            eventually(lambda: Group.objects.exists())
            jobs.leave_open_async.enqueue("begin")

            eventually(lambda: Message.objects.dead().count() == 2)

        kinds = {each.errors[0]["class"] for each in Message.objects.dead()}
        assert kinds == {"pgqueue.exceptions.TransactionLeftOpen"}

    @pytest.mark.parametrize("exiting", [jobs.exit_async, jobs.exit_beside])
    def test_that_end_the_process_do_not(self, exiting: Task[..., None]) -> None:
        exiting.enqueue()

        with worker("--async", "10") as process:
            eventually(lambda: Message.objects.dead().exists())
            jobs.double.enqueue(1)
            eventually(ended)
            process.signal(SIGTERM)
            assert process.exit_status() == 0


class TestBesideThreads:
    def test_tasks_of_both_kinds_share_a_channel(self) -> None:
        for number in range(50):
            jobs.double.enqueue(number)
            jobs.add.enqueue(number)

        with worker("--async", "10", "--threads", "2"):
            eventually(lambda: ended(100), within=20)

        assert set(History.objects.values_list("outcome", flat=True)) == {Outcome.SUCCEEDED}

    def test_as_many_as_run_at_once_keep_no_thread_from_its_work(self) -> None:
        jobs.nap.enqueue_many([(60,)] * 20)
        with worker("--async", "20", "--threads", "1"):
            eventually(lambda: Message.objects.filter(state=State.RUNNING).count() == 20)

            jobs.add.enqueue(1)

            eventually(ended)


class TestAskedToStop:
    def test_it_lets_them_end(self) -> None:
        jobs.nap.enqueue_many([(1.5, f"{each}") for each in range(3)])
        with worker("--async", "3") as process:
            eventually(lambda: began(3))
            process.signal(SIGTERM)

            assert process.exit_status() == 0

        assert History.objects.filter(outcome=Outcome.SUCCEEDED).count() == 3

    def test_it_lets_what_they_left_behind_clean_up(self) -> None:
        jobs.leave_a_task_behind.enqueue()
        with worker("--async", "3") as process:
            eventually(ended)
            process.signal(SIGTERM)

            assert process.exit_status() == 0

        assert "cleaned up behind it" in process.log
        assert "destroyed" not in process.log

    def test_it_waits_for_no_thread_that_they_left_behind(self) -> None:
        jobs.leave_a_thread_behind.enqueue()
        with worker("--async", "3") as process:
            eventually(ended)
            process.signal(SIGTERM)

            assert process.exit_status(within=8) == 0

    def test_it_hands_them_back_when_their_time_is_over_and_lets_them_clean_up(self) -> None:
        jobs.nap.enqueue_many([(60, f"{each}") for each in range(3)])
        with worker("--async", "3", "--grace", "0.2") as process:
            eventually(lambda: began(3))
            process.signal(SIGTERM)

            assert process.exit_status(within=8) == 0

        rows = Message.objects.values_list("state", "lost", "failures")
        assert list(rows) == [("ready", 0, 0)] * 3
        assert "cleaned up" in process.log
        # No caller is told that they failed.
        assert "CancelledError" not in process.log
