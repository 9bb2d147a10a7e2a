"""Running messages on the connection of a test, as a worker would."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase

from pgqueue import Channel, DuplicateMessage, TaskResult, flow, send
from pgqueue.models import Channel as ChannelRow
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from pgqueue.testing import advance, immediate, run_all
from tests import flow_jobs
from tests import jobs as tasks
from tests.backend import jobs as django_tasks
from tests.testing import durable_jobs, jobs


def names() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


def statuses(ran: list[TaskResult[Any]]) -> list[str]:
    return [each.status.value for each in ran]


class Running:
    """What holds in each kind of test case."""

    def test_every_message_that_is_ready_is_run(self) -> None:
        first, second = tasks.add.enqueue(1, b=2), tasks.double.enqueue(4)

        ran = run_all()

        assert [(each.task, each.id) for each in ran] == [
            (tasks.add, first.id),
            (tasks.double, second.id),
        ]
        assert [each.return_value for each in ran] == [3, 8]
        assert (list(ran[0].args), ran[0].kwargs) == ([1], {"b": 2})
        second.refresh()
        assert (second.status, second.return_value) == (Outcome.SUCCEEDED, 8)
        assert not Message.objects.exists()
        assert run_all() == []

    def test_runs_are_in_this_thread_and_on_this_connection(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('tests.own', 'mine', false)")
        before = connection.connection
        tasks.thread.enqueue(0)
        jobs.leave_in_a_transaction.enqueue("async")

        ran = run_all()

        assert ran[0].return_value == threading.get_ident()
        assert ran[1].return_value == connection.in_atomic_block
        assert connection.connection is before and not before.closed
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('tests.own', true)")
            assert cursor.fetchone() == ("mine",)

    def test_higher_priorities_run_first_and_then_the_earlier_ones(self) -> None:
        tasks.leave.using(channel="b").enqueue("first")
        tasks.leave.using(key="k").enqueue("second")
        tasks.leave.using(priority=5).enqueue("urgent")

        ran = run_all()

        assert [each.args[0] for each in ran] == ["urgent", "first", "second"]

    def test_what_tasks_enqueue_is_run_too(self) -> None:
        jobs.enqueue_another.enqueue("by a task")

        assert statuses(run_all()) == ["succeeded", "succeeded"]
        assert names() == ["by a task"]

    def test_a_failed_message_waits_for_its_retry(self) -> None:
        result = tasks.fail_twice.using(backoff=[60]).enqueue()

        assert statuses(run_all()) == ["scheduled"]
        assert run_all() == []
        advance(timedelta(seconds=60))
        assert statuses(run_all()) == ["scheduled"]
        advance(60)
        assert statuses(run_all()) == ["succeeded"]
        result.refresh()
        assert (result.attempt, result.failures) == (3, 2)

    def test_retries_run_at_once_if_asked(self) -> None:
        tasks.fail_twice.using(backoff=[3600]).enqueue()
        jobs.ask_for_a_retry.enqueue()

        ran = run_all(retries=True)

        assert sorted(statuses(ran)) == ["dead", *4 * ["scheduled"], "succeeded"]
        assert Message.objects.get().state == State.DEAD

    def test_retries_of_steps_run_at_once_if_asked(self) -> None:
        durable_jobs.tries.clear()
        result = durable_jobs.tries_a_step.enqueue()

        run_all(retries=True)

        assert len(durable_jobs.tries) == 3
        result.refresh()
        assert result.status == State.SCHEDULED  # sleeps do not end
        advance(timedelta(days=14))
        run_all(retries=True)
        result.refresh()
        assert result.return_value == 3

    def test_a_message_of_a_task_without_options_is_dead_after_twenty_errors(self) -> None:
        tasks.double.enqueue(None)  # type: ignore[arg-type]  # 2 * None fails in each run

        ran = run_all(retries=True)

        assert statuses(ran) == [*19 * ["scheduled"], "dead"]

    def test_a_task_that_says_its_attempts_keeps_them(self) -> None:
        tasks.double.using(max_attempts=5).enqueue(None)  # type: ignore[arg-type]

        assert len(run_all(retries=True)) == 5

    def test_errors_are_raised_if_asked(self) -> None:
        tasks.fail.using(backoff=[60]).enqueue("no")

        with pytest.raises(ValueError, match="^no"):
            run_all(raise_errors=True)
        assert Message.objects.get().failures == 1

        advance(60)
        with pytest.raises(ValueError, match="^no"):
            run_all(retries=True, raise_errors=True)
        assert Message.objects.get().state == State.DEAD

    def test_a_message_comes_back_when_its_task_asked_for_it(self) -> None:
        jobs.come_back.enqueue(60)

        assert statuses(run_all(retries=True)) == ["scheduled"]
        advance(60)
        [ran] = run_all()
        assert ran.return_value == 2

    def test_an_atomic_task_is_settled_with_its_effects(self) -> None:
        jobs.leave_at_the_second_attempt.enqueue("atomic")

        assert statuses(run_all()) == ["scheduled"]
        assert names() == []
        assert statuses(run_all(retries=True)) == []
        advance(3600)
        assert statuses(run_all()) == ["succeeded"]
        assert names() == ["atomic"]

    def test_an_atomic_task_is_retried_at_once_if_asked(self) -> None:
        jobs.leave_at_the_second_attempt.enqueue("atomic")

        assert statuses(run_all(retries=True)) == ["scheduled", "succeeded"]
        assert names() == ["atomic"]

    def test_the_error_of_an_atomic_task_is_raised_if_asked(self) -> None:
        jobs.leave_at_the_second_attempt.enqueue("atomic")
        with pytest.raises(ValueError, match="after writing"):
            run_all(raise_errors=True)

        with immediate(raise_errors=True), pytest.raises(ValueError, match="after writing"):
            jobs.leave_at_the_second_attempt.enqueue("at once")
        assert names() == []

    def test_the_error_of_a_flow_that_can_not_grow_is_raised_if_asked(self) -> None:
        flow_jobs.number.using(dedupe_key="taken", run_after=3600).enqueue(1)
        with flow("growing") as f:
            f.enqueue(flow_jobs.grow_with, {"dedupe_key": "taken"}, awaited=True)

        with pytest.raises(DuplicateMessage):
            run_all(raise_errors=True)

    def test_a_timeout_interrupts_a_task(self) -> None:
        tasks.loop_for_ever.enqueue()
        tasks.wait_for_ever.enqueue()

        ran = run_all()

        assert [each.errors[0].exception_class_path for each in ran] == 2 * [
            "pgqueue.exceptions.TaskTimeout"
        ]

    def test_delayed_held_and_paused_messages_stay(self) -> None:
        tasks.leave.using(run_after=60).enqueue("delayed")
        held = tasks.leave.hold(for_=60).enqueue("held")
        Channel("paused").pause()
        tasks.leave.using(channel="paused").enqueue("paused")

        assert run_all() == []
        held.commit()
        Channel("paused").resume()
        advance(60)
        # The last one became due last.
        assert [each.args[0] for each in run_all()] == ["held", "paused", "delayed"]

    def test_messages_that_are_kept_back_hide_no_others(self) -> None:
        Channel("paused").pause()
        tasks.add.using(channel="paused").enqueue_many([(number,) for number in range(25)])
        tasks.add.enqueue(7)

        assert [each.return_value for each in run_all()] == [7]

    def test_an_expired_message_is_not_run(self) -> None:
        late = tasks.leave.using(ttl=60).enqueue("late")
        held = tasks.leave.hold(for_=60).enqueue("held")
        advance(61)

        assert run_all() == []
        for each in (late, held):
            each.refresh()
            assert each.status is Outcome.EXPIRED

    def test_ordered_messages_wait_for_the_one_before_them(self) -> None:
        ordered = tasks.leave.using(key="k", ordered=True)
        tasks.fail.using(key="k", ordered=True, backoff=[60], max_attempts=5).enqueue("first")
        ordered.enqueue("second")
        ordered.using(key="other").enqueue("other")

        assert [each.args[0] for each in run_all()] == ["first", "other"]
        assert names() == ["other"]

    def test_a_rate_holds_until_its_time_has_passed(self) -> None:
        Channel("slow").policy(rate=1, per=60, burst=1)
        for number in range(3):
            tasks.add.using(channel="slow").enqueue(number)

        assert len(run_all()) == 1
        assert run_all() == []
        advance(60)
        assert len(run_all()) == 1

    def test_limits_leave_room_for_one_run_at_a_time(self) -> None:
        for number in range(3):
            tasks.add.using(channel="narrow", key="k").enqueue(number)
        Channel("narrow").policy(max_running=1, each_key=True)

        assert [each.return_value for each in run_all()] == [0, 1, 2]

    def test_a_dedupe_key_is_free_after_the_run(self) -> None:
        unique = tasks.leave.using(dedupe_key="one")
        assert [unique.enqueue(name).came_of for name in "ab"] == ["stored", "existing"]

        assert len(run_all()) == 1
        assert unique.enqueue("c").came_of == "stored"

    def test_a_remembered_dedupe_key_is_free_after_its_time(self) -> None:
        unique = tasks.leave.using(dedupe_key="one", dedupe_for=3600)
        unique.enqueue("a")
        run_all()
        assert unique.enqueue("b").came_of == "existing"

        advance(3600)
        run_all()
        assert unique.enqueue("c").came_of == "stored"

    def test_a_raw_message_is_run_by_the_handler_of_its_channel(self) -> None:
        ChannelRow.objects.create(name="mail", handler="tests.testing.jobs.handle")
        send("mail", "posted", body=b"1234")

        [ran] = run_all()

        assert (ran.task, ran.status, ran.args[0]) == (jobs.handle, Outcome.SUCCEEDED, "posted")
        assert names() == ["posted 4"]

    def test_what_is_unknown_is_not_run(self) -> None:
        tasks.add.enqueue(1)
        Message.objects.update(task="tests.jobs.gone")
        send("mail", "raw")

        assert run_all() == []
        assert Message.objects.filter(failures=0).count() == 2

    def test_a_task_may_delete_its_own_argument(self) -> None:
        jobs.delete.enqueue(Group.objects.create(name="gone"))

        assert statuses(run_all()) == ["succeeded"]
        assert names() == []

    def test_the_tasks_of_django_are_run(self) -> None:
        added, failed = django_tasks.add.enqueue(1, 2), django_tasks.fail.enqueue()

        assert len(run_all()) == 2
        added.refresh()
        failed.refresh()
        assert (added.return_value, str(failed.status)) == (3, "FAILED")

    def test_immediate_runs_what_is_enqueued_at_once(self) -> None:
        with immediate():
            result = tasks.add.enqueue(1, 2)
            assert (result.status, result.return_value) == (Outcome.SUCCEEDED, 3)
            assert [each.return_value for each in tasks.add.enqueue_many([(1,), (2,)])] == [1, 2]
            nested = jobs.enqueue_another.enqueue("nested")
            assert nested.return_value == "succeeded"
            added = django_tasks.add.enqueue(3, 4)
            delayed = tasks.add.using(run_after=60).enqueue(1)
        added.refresh()
        assert added.return_value == 7
        assert delayed.status is State.SCHEDULED
        assert tasks.add.enqueue(1).status is State.READY

    def test_immediate_raises_errors_and_retries_if_asked(self) -> None:
        with immediate():
            assert tasks.fail.using(backoff=[60]).enqueue("no").status is State.SCHEDULED
        with immediate(retries=True):
            assert tasks.fail_twice.enqueue().status is Outcome.SUCCEEDED
        with immediate(raise_errors=True), pytest.raises(ValueError, match="no"):
            tasks.fail.enqueue("no")


class TestInATestCase(Running, TestCase):
    def test_an_error_of_the_database_leaves_the_transaction_usable(self) -> None:
        Group.objects.create(name="before")
        jobs.violate.enqueue("twice")
        jobs.break_the_transaction.enqueue("caught")
        tasks.leave.enqueue("after")

        ran = run_all()

        assert statuses(ran) == ["dead", "succeeded", "succeeded"]
        assert "IntegrityError" in ran[0].errors[0].exception_class_path
        assert names() == ["after", "before"]

    def test_what_a_task_does_after_its_commit_is_left_to_the_test(self) -> None:
        jobs.tell_after_the_commit.enqueue("told")

        with self.captureOnCommitCallbacks(execute=True):
            assert statuses(run_all()) == ["succeeded"]
            assert names() == []

        assert names() == ["told"]

    def test_a_message_is_run_when_its_commit_is_captured(self) -> None:
        with immediate(), self.captureOnCommitCallbacks(execute=True):
            result = tasks.add.using(enqueue_on_commit=True).enqueue(1, 2)
            assert result.status is State.READY
        assert result.return_value == 3

    def test_the_limits_of_the_session_are_those_of_before(self) -> None:
        Channel("mail").policy(max_running=1)
        tasks.mail.enqueue("a@example.com")

        def limits() -> Any:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT current_setting('idle_in_transaction_session_timeout'), "
                    "current_setting('lock_timeout')"
                )
                return cursor.fetchone()

        before = limits()
        run_all()
        assert limits() == before


class TestInATransactionTestCase(Running, TransactionTestCase):
    def test_a_message_is_run_when_its_transaction_commits(self) -> None:
        with immediate(), transaction.atomic():
            result = tasks.add.using(enqueue_on_commit=True).enqueue(1, 2)
            assert result.status is State.READY
        assert result.return_value == 3

    def test_nothing_is_committed_inside_a_transaction(self) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            tasks.leave.enqueue("undone")
            assert len(run_all()) == 1
            raise IntegrityError
        assert names() == []
        assert not History.objects.exists()

    def test_what_a_task_does_after_its_commit_is_done(self) -> None:
        jobs.tell_after_the_commit.enqueue("told")

        assert statuses(run_all()) == ["succeeded"]
        assert names() == ["told"]


class TestInAsyncCode(TestCase):
    async def test_it_is_called_by_sync_to_async(self) -> None:
        from asgiref.sync import sync_to_async

        await tasks.double.aenqueue(2)

        [ran] = await sync_to_async(run_all)()

        assert ran.return_value == 4
        with immediate():
            result = await tasks.double.aenqueue(3)
        assert result.return_value == 6


@pytest.mark.django_db
def test_with_the_db_of_pytest_django() -> None:
    tasks.leave.enqueue("pytest")

    assert statuses(run_all()) == ["succeeded"]


@pytest.mark.django_db(databases=["default", "second"])
def test_the_queue_of_another_database_is_named() -> None:
    tasks.add.using(database="second").enqueue(1)

    assert run_all() == []
    assert len(run_all(database="second")) == 1
