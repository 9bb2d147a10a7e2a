"""What a worker makes of messages: run in this process until nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created
from django.utils import timezone

from pgqueue import Cancel, TaskContext, signals
from pgqueue.calls.outcomes import Ending
from pgqueue.codec.arguments import Codec
from pgqueue.database import django_connections
from pgqueue.engine import lease
from pgqueue.exceptions import TaskFailed
from pgqueue.models import Channel, History, Message, Worker
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task
from pgqueue.worker import atomic
from tests import jobs
from tests.eventually import eventually
from tests.processes import worker

pytestmark = pytest.mark.django_db(transaction=True)


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", *arguments, verbosity=1)


class TestATask:
    def test_that_returns_has_its_result_in_history(self) -> None:
        result = jobs.add.enqueue(2, b=3)

        drain()

        result.refresh()
        assert (result.status, result.return_value) == (Outcome.SUCCEEDED, 5)
        ended = History.objects.get()
        assert ended.created_at <= ended.claimed_at <= ended.started_at <= ended.finished_at
        assert not Message.objects.exists()

    @pytest.mark.parametrize("arguments", [[], ["--async", "1"]])
    @pytest.mark.parametrize(
        ("job", "kind"),
        [
            (jobs.return_a_coroutine, "coroutine"),
            (jobs.return_a_generator, "generator"),
            (jobs.return_a_future, "Future"),
        ],
    )
    def test_that_returns_what_nobody_runs_is_dead(
        self, arguments: list[str], job: Task[[], Any], kind: str
    ) -> None:
        result = job.enqueue()

        drain(*arguments)

        result.refresh()
        assert (result.status, len(result.errors)) == (State.DEAD, 1)
        assert f"returned a {kind}, whose code nobody runs" in result.errors[0].traceback
        assert not Group.objects.exists()

    def test_that_is_async_runs_too(self) -> None:
        result = jobs.double.enqueue(21)

        drain()

        result.refresh()
        assert result.return_value == 42

    def test_is_told_its_context(self) -> None:
        first = jobs.attempt_number.enqueue()
        second = jobs.metadata.using(metadata={"trace": "abc"}).enqueue()

        drain()

        first.refresh()
        second.refresh()
        assert (first.return_value, second.return_value) == (1, {"trace": "abc"})

    def test_that_fails_for_ever_is_a_dead_letter_with_every_error(self) -> None:
        result = jobs.fail.enqueue("no use")

        drain()

        result.refresh()
        message = Message.objects.get()
        assert (message.state, message.failures, message.attempt) == (State.DEAD, 3, 3)
        assert message.payload is not None
        assert result.is_finished
        assert [error.attempt for error in result.errors] == [1, 2, 3]
        assert {error.exception_class_path for error in result.errors} == {"builtins.ValueError"}
        assert "raise ValueError(f" in result.errors[0].traceback
        with pytest.raises(TaskFailed):
            result.return_value  # noqa: B018

    def test_that_fails_is_announced_with_its_error(self) -> None:
        heard: list[tuple[int, Exception]] = []

        def hear(context: TaskContext, ending: Ending, **kwargs: object) -> None:
            assert isinstance(ending.error, Exception)
            heard.append((context.attempt, ending.error))

        jobs.fail.enqueue("no use")
        signals.task_finished.connect(hear)
        try:
            drain()
        finally:
            signals.task_finished.disconnect(hear)

        assert [attempt for attempt, _ in heard] == [1, 2, 3]
        assert {type(error) for _, error in heard} == {ValueError}

    @pytest.mark.parametrize("arguments", [[], ["--async", "1"]])
    @pytest.mark.parametrize("error", [SystemExit(3), Cancel("not for a receiver to say")])
    def test_ends_as_it_did_whatever_receivers_raise(
        self, arguments: list[str], error: BaseException
    ) -> None:
        def leave(**kwargs: object) -> None:
            raise error

        both = (signals.task_started, signals.task_finished)
        for signal in both:
            signal.connect(leave)
        try:
            jobs.add.enqueue_many([(1,)] * 3)
            jobs.double.enqueue_many([(1,)] * 3)
            drain("--threads", "1", *arguments)
        finally:
            for signal in both:
                signal.disconnect(leave)

        assert History.objects.filter(outcome=Outcome.SUCCEEDED, attempt=1).count() == 6

    @pytest.mark.parametrize("name", jobs.ENDING)
    @pytest.mark.parametrize(
        "failing", [jobs.fail_unprintably, jobs.fail_unprintably_in_a_transaction]
    )
    def test_is_charged_for_an_error_whose_text_cannot_be_had(
        self, failing: Task[..., None], name: str
    ) -> None:
        failing.enqueue(name)

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.DEAD, 2)
        assert message.errors[-1]["message"] == f"(its text can't be had: {name})"
        assert message.errors[-1]["class"] == "tests.jobs.Unprintable"
        assert "raise Unprintable" in message.errors[-1]["traceback"]

    def test_waits_as_by_default_where_its_backoff_raises_whatever(self) -> None:
        jobs.fail_with_a_strange_backoff.enqueue()
        jobs.add.enqueue(1)

        with worker("--threads", "1"):
            eventually(History.objects.exists)

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 1)

    def test_that_fails_at_first_succeeds_in_the_end(self) -> None:
        result = jobs.fail_twice.enqueue()

        drain()

        result.refresh()
        assert (result.status, result.attempt, result.failures) == (Outcome.SUCCEEDED, 3, 2)
        assert len(result.errors) == 2

    def test_gives_up_where_its_backoff_says_so(self) -> None:
        jobs.fail_as.enqueue("value")

        drain()

        assert Message.objects.get().failures == 1

    def test_obeys_the_options_of_its_message(self) -> None:
        jobs.fail.using(max_attempts=1).enqueue("once")
        jobs.fail_as.using(backoff=[0], max_attempts=2).enqueue("value")

        drain()

        assert sorted(Message.objects.values_list("failures", flat=True)) == [1, 2]

    @pytest.mark.parametrize("task", [jobs.loop_for_ever, jobs.wait_for_ever])
    def test_that_takes_too_long_is_interrupted(self, task) -> None:  # type: ignore[no-untyped-def]
        result = task.enqueue()

        drain()

        result.refresh()
        assert result.errors[0].exception_class_path == "pgqueue.exceptions.TaskTimeout"

    def test_whose_result_cannot_be_stored_is_dead_at_once(self) -> None:
        result = jobs.unstorable.enqueue()

        drain()

        result.refresh()
        assert (result.status, result.failures) == (State.DEAD, 1)
        assert "InvalidResult" in result.errors[0].exception_class_path

    def test_whose_payload_cannot_be_read_is_dead_at_once_and_harms_no_other(self) -> None:
        jobs.add.enqueue(1)
        Message.objects.update(payload={"args": "nonsense"})
        good = jobs.add.enqueue(1)

        drain()

        good.refresh()
        assert good.status is Outcome.SUCCEEDED
        assert Message.objects.get().state == State.DEAD

    def test_whose_argument_is_gone_fails_like_any(self) -> None:
        group = Group.objects.create(name="gone")
        jobs.rename.enqueue(group, "new")
        Group.objects.all().delete()

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.DEAD, 2)
        assert message.errors[0]["class"].endswith("Group.DoesNotExist")

    def test_cannot_end_its_worker(self) -> None:
        ended = jobs.end_the_process.using(max_attempts=1).enqueue()
        good = jobs.add.enqueue(1)

        drain("--threads", "1")

        ended.refresh()
        good.refresh()
        assert (ended.status, good.status) == (State.DEAD, Outcome.SUCCEEDED)

    def test_that_is_unknown_is_handed_back_uncharged_each_time_for_longer(self) -> None:
        heard = []
        signals.task_unknown.connect(hear := lambda **kwargs: heard.append(kwargs["name"]))
        jobs.add.enqueue(1)
        Message.objects.update(task="shop.tasks.of_tomorrow")
        Message.objects.create(
            channel="default",
            task="no",
            state="ready",
            max_attempts=1,
            metadata={"handed_back": {"for": "unknown task", "times": 3}},
        )

        drain()

        signals.task_unknown.disconnect(hear)
        first, later = Message.objects.order_by("pk")
        assert (first.state, first.failures, first.attempt) == (State.SCHEDULED, 0, 1)
        assert 25 < (first.run_at - first.claimed_at).total_seconds() < 35
        assert 200 < (later.run_at - later.claimed_at).total_seconds() < 260
        assert sorted(heard) == ["no", "shop.tasks.of_tomorrow"]

    def test_that_is_cancelled_while_it_waits_is_never_run(self) -> None:
        jobs.leave.enqueue("never")
        Message.objects.all().cancel()

        drain()

        assert not Group.objects.exists()
        assert History.objects.get().outcome == Outcome.CANCELLED

    def test_in_the_dead_letters_runs_again_when_replayed(self) -> None:
        jobs.fail.using(max_attempts=1).enqueue("once")
        drain()
        Message.objects.dead().replay()

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures, message.attempt) == (State.DEAD, 1, 2)
        assert [error["attempt"] for error in message.errors] == [1, 2]


class TestAnAtomicTask:
    def test_settles_with_its_effects(self) -> None:
        result = jobs.leave_atomically.enqueue("effect")

        drain()

        result.refresh()
        assert result.return_value == "in a transaction"
        assert Group.objects.get().name == "effect"

    def test_that_is_async_does_so_too(self) -> None:
        jobs.leave_atomically_async.enqueue("effect")

        drain()

        assert History.objects.get().outcome == Outcome.SUCCEEDED
        assert Group.objects.get().name == "effect"

    @pytest.mark.parametrize("end", ["raise", "swallow"])
    def test_that_fails_leaves_nothing(self, end: str) -> None:
        result = jobs.leave_atomically.enqueue("effect", end)

        drain()

        result.refresh()
        assert not Group.objects.exists()
        assert (result.status, result.failures) == (State.DEAD, 1)

    def test_is_done_even_if_a_hook_after_its_commit_fails(self) -> None:
        result = jobs.leave_atomically.enqueue("effect", "late")

        drain()

        result.refresh()
        assert (result.status, Group.objects.count()) == (Outcome.SUCCEEDED, 1)

    def test_makes_the_partition_of_today_without_undoing_its_effects(self) -> None:
        from django.db import connection

        jobs.leave_atomically.enqueue("effect")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT inhrelid::regclass FROM pg_inherits "
                "WHERE inhparent = 'pgqueue_history'::regclass"
            )
            for (partition,) in cursor.fetchall():
                cursor.execute(f"DROP TABLE {partition}")

        drain()

        assert History.objects.get().outcome == Outcome.SUCCEEDED
        assert Group.objects.count() == 1


class TestARunThatCouldNotBegin:
    """The database went away between its claim and its first statement."""

    @pytest.mark.parametrize("gone", [psycopg.OperationalError("gone"), OperationalError("gone")])
    def test_is_charged_nothing_where_it_is_atomic(
        self, monkeypatch: pytest.MonkeyPatch, gone: Exception
    ) -> None:
        monkeypatch.setattr(atomic.lease, "lock", once(gone, lease.lock))
        jobs.leave_atomically.enqueue("it runs")

        drain_twice()

        ended = History.objects.get()
        assert (ended.outcome, ended.attempt, ended.failures) == (Outcome.SUCCEEDED, 2, 0)

    def test_is_charged_nothing_where_its_context_asks_the_database(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        argument = once(OperationalError("gone"), lambda context: context)
        monkeypatch.setattr(TaskContext, "argument", property(argument))
        jobs.attempt_number.enqueue()

        drain_twice()

        assert History.objects.values_list("result", "failures").get() == (2, 0)

    def test_is_charged_nothing_where_its_arguments_ask_the_database(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decode = once(OperationalError("gone"), Codec.decode)
        monkeypatch.setattr(Codec, "decode", lambda *arguments: decode(*arguments))
        jobs.add.enqueue(1)

        drain_twice()

        assert History.objects.values_list("outcome", "failures").get() == ("succeeded", 0)

    def test_is_charged_nothing_where_it_is_atomic_and_its_context_asks(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def look_it_up(context: TaskContext) -> TaskContext:
            if context.attempt == 1:
                connection.connection.close()
                raise OperationalError("gone")
            return context

        monkeypatch.setattr(TaskContext, "argument", property(look_it_up))
        jobs.attempt_number_atomically.enqueue()

        drain_twice()

        assert History.objects.values_list("result", "failures").get() == (2, 0)

    def test_waits_longer_each_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(atomic.lease, "lock", Mock(side_effect=psycopg.OperationalError("no")))
        jobs.leave_atomically.enqueue("it does not run")

        for seconds in (1, 2, 4):
            before = timezone.now()
            drain()
            put_off_at = Message.objects.get().run_at - timedelta(seconds=seconds)
            assert before <= put_off_at <= timezone.now()
            Message.objects.update(state=State.READY)

    def test_fails_where_that_is_not_the_databases_fault(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(atomic.lease, "lock", Mock(side_effect=ValueError("a receiver's")))
        jobs.leave_atomically.enqueue("it does not run")

        drain()

        assert Message.objects.get().failures == 1


def drain_twice() -> None:
    drain()
    waits = Message.objects.get()
    assert (waits.state, waits.failures, waits.lost) == (State.SCHEDULED, 0, 0)
    Message.objects.update(state=State.READY)
    drain()


def once(error: Exception, then: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises an error when it is first called."""
    errors = [error]

    def call(*args: Any, **kwargs: Any) -> Any:
        if errors:
            raise errors.pop()
        return then(*args, **kwargs)

    return call


class TestChannels:
    def test_only_those_asked_for_are_served(self) -> None:
        for name in ("a", "b", "c"):
            jobs.leave.using(channel=name).enqueue(name)

        drain("--channel", "a", "--channel", "b", "--exclude", "b")
        assert set(Group.objects.values_list("name", flat=True)) == {"a"}

        drain("--exclude", "c")
        assert set(Group.objects.values_list("name", flat=True)) == {"a", "b"}

    def test_that_are_paused_are_left_alone(self) -> None:
        Channel.objects.create(name="a", paused=True)
        jobs.leave.using(channel="a").enqueue("a")
        jobs.leave.using(channel="b").enqueue("b")

        drain()

        assert Group.objects.get().name == "b"
        assert Message.objects.get().state == State.READY

    def test_on_another_database_are_served_where_asked(self) -> None:
        with pytest.raises(CommandError, match="has no 'third'"):
            drain("--database", "third")


class TestDraining:
    def test_waits_for_retries(self) -> None:
        result = jobs.fail_twice.using(backoff=[0.3]).enqueue()

        drain()

        result.refresh()
        assert result.status is Outcome.SUCCEEDED

    def test_does_not_wait_for_what_is_merely_delayed(self) -> None:
        jobs.add.using(run_after=3600).enqueue(1)

        drain()

        assert Message.objects.get().state == State.SCHEDULED

    def test_leaves_no_row_of_the_worker(self) -> None:
        drain()

        assert not Worker.objects.exists()


@pytest.fixture
def conn_max_age(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    return lambda seconds: monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", seconds)


def is_connected(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid])
        return cursor.fetchone() is not None


@pytest.mark.slow
@pytest.mark.new_sessions
class TestConnections:
    @pytest.mark.parametrize(
        ("max_age", "keep", "pids"), [(0, True, 1), (0, False, 3), (None, False, 1)]
    )
    def test_of_tasks_are_closed_as_the_settings_say(
        self, conn_max_age: Any, settings: Any, max_age: int | None, keep: bool, pids: int
    ) -> None:
        conn_max_age(max_age)
        settings.PGQUEUE = {**settings.PGQUEUE, "KEEP_CONNECTIONS": keep}
        results = jobs.backend_pid.enqueue_many([()] * 3)

        drain("--threads", "1")

        for result in results:
            result.refresh()
        assert len({result.return_value for result in results}) == pids

    @pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
    def test_of_an_idle_worker_are_closed(
        self, monkeypatch: pytest.MonkeyPatch, options: list[str]
    ) -> None:
        monkeypatch.setenv("CONN_MAX_AGE", "0")
        with worker("--threads", "1", *options):
            result = (jobs.backend_pid_async if options else jobs.backend_pid).enqueue()
            eventually(History.objects.exists)
            result.refresh()

            eventually(lambda: not is_connected(result.return_value))

    def test_that_are_kept_grow_no_older_than_that(
        self, conn_max_age: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        conn_max_age(0)
        monkeypatch.setattr(django_connections, "MAX_AGE", timedelta(0))
        results = jobs.backend_pid.enqueue_many([()] * 3)

        drain("--threads", "1")

        for result in results:
            result.refresh()
        assert len({result.return_value for result in results}) == 3

    @pytest.mark.parametrize(
        "task", [jobs.leave_a_transaction_open, jobs.leave_an_inner_transaction_open]
    )
    def test_that_are_left_in_a_transaction_do_no_harm(
        self, task: Task[[], None], conn_max_age: Any
    ) -> None:
        conn_max_age(None)
        task.enqueue()
        jobs.leave.enqueue_many([("first",), ("second",)])

        drain("--threads", "1")

        assert set(Group.objects.values_list("name", flat=True)) == {"first", "second"}
        assert not Message.objects.filter(state=State.RUNNING).exists()

    def test_that_broke_are_replaced(self, conn_max_age: Any) -> None:
        conn_max_age(None)
        jobs.close_connection.enqueue()
        result = jobs.backend_pid.enqueue()

        drain("--threads", "1")

        result.refresh()
        assert result.status is Outcome.SUCCEEDED


CHANGES = {
    "search_path": "SET search_path = tenant, public",
    "in a transaction": "BEGIN; SET search_path = tenant, public; COMMIT",
    "by a function": "SELECT set_config('search_path', 'tenant, public', false)",
    "role": "SET ROLE pg_read_all_data",
    "authorization": "SET SESSION AUTHORIZATION pg_read_all_data",
    "prepared": "PREPARE left_over AS SELECT 1",
    "temporary table": "CREATE TEMP TABLE auth_group (name text)",
    "lock": "SELECT pg_advisory_lock(73)",
    "listening": "LISTEN left_over",
    "cursor": "DECLARE left_over CURSOR WITH HOLD FOR SELECT 1",
}


@pytest.mark.slow
@pytest.mark.parametrize("max_age", [0, None])
@pytest.mark.new_sessions
class TestASessionThatATaskChanged:
    @pytest.mark.parametrize("atomic", [False, True])
    @pytest.mark.parametrize("by", ["django", "psycopg"])
    @pytest.mark.parametrize("change", CHANGES)
    def test_is_not_that_of_the_next_task(
        self, conn_max_age: Any, max_age: int | None, change: str, by: str, atomic: bool
    ) -> None:
        conn_max_age(max_age)
        before = jobs.session_state.enqueue()
        jobs.change_session.enqueue(CHANGES[change], by=by)
        after = jobs.session_state.using(atomic=atomic).enqueue()

        drain("--threads", "1")

        before.refresh()
        after.refresh()
        assert before.return_value == after.return_value
        assert not Message.objects.exists()

    def test_is_seen_where_the_server_reports_it(
        self, conn_max_age: Any, max_age: int | None
    ) -> None:
        """A function that sets it inside the server can't be seen otherwise."""
        conn_max_age(max_age)
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION change_the_zone() RETURNS void LANGUAGE sql "
                "AS $$ SELECT set_config('TimeZone', 'Asia/Tokyo', false) $$"
            )
        try:
            before = jobs.session_state.enqueue()
            jobs.change_session.enqueue("SELECT change_the_zone()", by="django")
            after = jobs.session_state.enqueue()

            drain("--threads", "1")
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP FUNCTION change_the_zone()")

        before.refresh()
        after.refresh()
        assert before.return_value == after.return_value

    def test_is_as_receivers_of_connection_created_have_it(
        self, conn_max_age: Any, max_age: int | None
    ) -> None:
        def into_the_tenants_schema(connection: Any, **kwargs: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SET search_path = public, tenant")

        conn_max_age(max_age)
        # The worker's receiver is connected last: its module is imported after all apps.
        ours = {"dispatch_uid": "pgqueue.database.django_connections"}
        connection_created.disconnect(**ours)
        connection_created.connect(into_the_tenants_schema)
        connection_created.connect(django_connections._note, **ours)
        try:
            first = jobs.session_state.enqueue()
            jobs.change_session.enqueue(CHANGES["search_path"], by="django")
            kept = jobs.backend_pid.enqueue_many([()] * 2)
            last = jobs.session_state.enqueue()

            drain("--threads", "1")
        finally:
            connection_created.disconnect(into_the_tenants_schema)
        for each in (first, last, *kept):
            each.refresh()
        assert first.return_value == last.return_value
        assert first.return_value["search_path"] == "public, tenant"
        assert kept[0].return_value == kept[1].return_value


def test_no_more_run_at_once_than_there_are_threads() -> None:
    results = jobs.thread.enqueue_many([(0.05,)] * 8)

    drain("--threads", "2")

    for result in results:
        result.refresh()
    assert len({result.return_value for result in results}) == 2


@pytest.mark.parametrize(
    "arguments",
    [["--processes", "0"], ["--threads", "many"], ["--grace", "-1"], ["--grace", "nan"]],
)
def test_an_option_that_cannot_be_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="it must be|it can't be|it is not"):
        call_command("runworker", "--drain", *arguments)
