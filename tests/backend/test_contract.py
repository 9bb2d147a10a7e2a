"""What `django.tasks` asks of a backend: on Django 5.2 with django-tasks, 6.0 and 6.1."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import django
import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connections, transaction
from django.test import override_settings

from pgqueue import send
from pgqueue.backend import api
from pgqueue.models import Channel, History, Message
from pgqueue.options.retries import Delays
from pgqueue.states import Outcome, State
from pgqueue.tasks import registry
from tests.backend import jobs
from tests.eventually import eventually
from tests.processes import worker

pytestmark = pytest.mark.django_db(transaction=True)

Status = api.TaskResultStatus
LOGGER = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", *arguments, verbosity=0)


@contextmanager
def heard(signal: Any, what: Callable[[Any, Any], Any]) -> Iterator[list[Any]]:
    """Collect what there is to say of each sender and result that the signal is sent with."""
    said: list[Any] = []

    def receive(sender: Any, task_result: Any, **kwargs: Any) -> None:
        said.append(what(sender, task_result))

    signal.connect(receive)
    try:
        yield said
    finally:
        signal.disconnect(receive)


class TestABackend:
    def test_supports_everything(self) -> None:
        backend = api.task_backends["default"]

        assert backend.supports_defer
        assert backend.supports_async_task
        assert backend.supports_get_result
        assert backend.supports_priority

    @pytest.mark.parametrize("alias", ["default", "patient", "second"])
    def test_has_nothing_to_complain_of(self, alias: str, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(0):
            assert not list(api.task_backends[alias].check())

    @pytest.mark.parametrize(
        ("params", "said"),
        [
            ({"OPTIONS": {"MAX_ATTEMPS": 3}}, "no 'MAX_ATTEMPS'"),
            ({"OPTIONS": {"MAX_ATTEMPTS": 0}}, "whole number"),
            ({"OPTIONS": {"BACKOFF": "soon"}}, "no backoff"),
            ({"OPTIONS": {"DATABASE": "nowhere"}}, "'nowhere': DATABASES has no such alias"),
        ],
    )
    def test_says_what_is_wrong_with_its_settings(self, params: Any, said: str) -> None:
        (error,) = api.task_backends["default"].__class__("odd", params).check()

        assert said in error.msg
        assert "odd" in error.msg


class TestATask:
    def test_is_stored_as_it_says(self) -> None:
        result = jobs.mail.enqueue("Zoë")

        message = Message.objects.get()
        assert (message.channel, message.priority) == ("mail", 7)
        assert (message.task, message.max_attempts) == ("tests.backend.jobs.mail", 1)
        assert str(message.pk) == result.id

    def test_is_changed_by_using(self) -> None:
        later = datetime(2100, 1, 1, tzinfo=UTC)

        jobs.add.using(priority=3, queue_name="mail", run_after=later).enqueue(1)

        message = Message.objects.get()
        assert (message.channel, message.priority, message.run_at) == ("mail", 3, later)
        assert message.state == State.SCHEDULED

    @pytest.mark.parametrize(
        "changed",
        [
            {"priority": 101},
            {"priority": 1.5},
            {"queue_name": "unknown"},
            {"run_after": datetime(2100, 1, 1)},
            {"max_attempts": 0},
            {"timeout": -1},
            {"backend": "patient", "queue_name": "x" * 300},
            {"backend": "patient", "queue_name": "\x00"},
        ],
    )
    def test_that_can_not_be_is_refused(self, changed: dict[str, Any]) -> None:
        with pytest.raises(api.InvalidTask):
            jobs.add.using(**changed)

    def test_must_be_at_the_top_of_a_module(self) -> None:
        with pytest.raises(api.InvalidTask, match="module level"):
            jobs.task(jobs.not_top_level())

    def test_that_takes_its_context_says_so_first(self) -> None:
        with pytest.raises(api.InvalidTask, match="context"):
            jobs.task(takes_context=True)(jobs.plain)

    def test_has_no_option_of_another_name(self) -> None:
        with pytest.raises(TypeError):
            jobs.add.using(max_attempt=3)

    def test_can_be_called_as_a_function(self) -> None:
        assert jobs.add.call(1, b=2) == 3
        assert jobs.double.call(2) == async_to_sync(jobs.double.acall)(2) == 4

    def test_is_called_by_call_alone_as_django_has_it(self) -> None:
        assert not callable(jobs.add)

    @pytest.mark.skipif(django.VERSION < (6, 1), reason="tasks pickle from Django 6.1 on")
    def test_can_be_pickled(self) -> None:
        copy = pickle.loads(pickle.dumps(jobs.tell.using(priority=3)))  # noqa: S301

        assert (copy.func, copy.priority, copy.max_attempts) == (jobs.tell.func, 3, 2)


class TestARun:
    def test_gives_its_value(self) -> None:
        sync, coroutine = jobs.add.enqueue(1, b=2), jobs.double.enqueue(4)

        drain()

        for result, value in ((sync, 3), (coroutine, 8)):
            result.refresh()
            assert (result.status, result.return_value) == (Status.SUCCESSFUL, value)
            assert result.is_finished
            assert result.enqueued_at <= result.started_at <= result.finished_at
            assert result.started_at >= result.last_attempted_at
            assert (result.attempts, len(result.worker_ids), result.errors) == (1, 1, [])

    def test_that_fails_keeps_its_error(self) -> None:
        result = jobs.fail.enqueue("broken")

        drain()

        result.refresh()
        (error,) = result.errors
        assert (result.status, result.attempts) == (Status.FAILED, 1)
        assert error.exception_class is ValueError
        assert "ValueError: broken" in error.traceback
        assert result.finished_at >= result.started_at >= result.enqueued_at
        with pytest.raises(ValueError, match="Task failed"):
            result.return_value  # noqa: B018

    def test_knows_its_context(self) -> None:
        result = jobs.look.enqueue(word="y")

        drain()

        result.refresh()
        assert result.return_value == ["y", 1, result.id, "RUNNING", 0]

    def test_that_is_retried_knows_the_attempts_before(self) -> None:
        result = jobs.fail_twice.enqueue()

        drain()

        result.refresh()
        assert result.return_value == ["builtins.ValueError"] * 2
        assert (result.attempts, len(result.errors)) == (3, 2)

    def test_of_a_raw_message_knows_the_attempts_before(self) -> None:
        Channel.objects.create(name="raw", handler="tests.backend.jobs.handle")
        send("raw", "given")

        drain()

        assert History.objects.get().result == ["given", ["given"], 1]

    def test_that_waits_for_a_retry_is_ready(self) -> None:
        result = jobs.fail.using(max_attempts=2, backoff=[3600]).enqueue()

        # The workers' own settings know no backend of Django's tasks.
        with worker(project="tests.settings"):
            eventually(lambda: Message.objects.filter(failures=1).exists())

        result.refresh()
        assert (result.status, result.attempts, len(result.errors)) == (Status.READY, 1, 1)
        assert result.finished_at is None

    def test_has_no_value_before_it_ends(self) -> None:
        with pytest.raises(ValueError, match="not finished"):
            jobs.add.enqueue(1).return_value  # noqa: B018

    def test_of_a_task_that_was_declared_elsewhere(self) -> None:
        result = jobs.elsewhere.using(backend="default").enqueue("here")

        drain()

        result.refresh()
        assert result.return_value == "here"

    def test_keeps_the_queue_and_the_backend_it_came_by(self) -> None:
        odd = jobs.odd.using(backend="patient").enqueue()

        drain()

        odd.refresh()
        assert odd.return_value == ["odd", "patient"]

    @pytest.mark.django_db(transaction=True, databases=["default", "second"])
    def test_that_is_retried_elsewhere_is_told_of_itself(self) -> None:
        jobs.add.enqueue(1)
        Message.objects.all().cancel()
        task = jobs.fail_twice.using(backend="second", max_attempts=3, backoff=[0])
        with connections["second"].cursor() as cursor:
            cursor.execute(
                "SELECT setval('pgqueue_message_id_seq', %s)", [History.objects.get().pk]
            )
        # Its id is one that the first database has given, too.
        jobs.add.enqueue(1)
        result = task.enqueue()

        drain("--database", "second")

        result.refresh()
        assert result.return_value == ["builtins.ValueError"] * 2

    def test_is_atomic_where_only_using_says_so(self) -> None:
        jobs.stuck.using(backend="patient", atomic=True, timeout=5).enqueue()

        options = Message.objects.get().options
        assert options == {"atomic": True, "timeout": 5, "backoff": [0], "backend": "patient"}

    def test_may_note_its_progress_and_come_back(self) -> None:
        results = [jobs.in_steps.enqueue(3), jobs.in_async_steps.enqueue()]

        with heard(api.signals.task_finished, lambda _, result: result.return_value) as finished:
            drain("--threads", "1")

        for result in results:
            result.refresh()
        assert [result.return_value for result in results] == [3, "noted"]
        assert sorted(finished, key=str) == [3, "noted"]

    def test_notes_nothing_where_no_worker_runs_it(self) -> None:
        result = jobs.in_steps.using(backend="immediate").enqueue(1)

        assert result.return_value is None

    @pytest.mark.parametrize(
        ("how", "outcome"), [("discard", Outcome.DISCARDED), ("cancel", Outcome.CANCELLED)]
    )
    def test_that_gives_up_has_failed_and_says_why(self, how: str, outcome: Outcome) -> None:
        def why(sender: Any, result: Any) -> Any:
            return result.status, [error.exception_class_path for error in result.errors]

        with heard(api.signals.task_finished, why) as finished:
            result = jobs.give_up.enqueue(how)
            drain()

        result.refresh()
        assert History.objects.get().outcome == outcome
        assert finished == [why(None, result)]
        assert finished == [(Status.FAILED, [f"pgqueue.exceptions.{how.capitalize()}"])]

    def test_whose_backend_is_gone_still_runs(self) -> None:
        result = jobs.look.using(backend="patient").enqueue()
        left = {alias: settings for alias, settings in django_settings.TASKS.items()
                if alias != "patient"}  # fmt: skip

        with override_settings(TASKS=left):
            drain()

        result.refresh()
        assert result.status == Status.SUCCESSFUL

    def test_that_leaves_a_foreign_key_without_its_row_fails_before_it_is_announced(self) -> None:
        with heard(api.signals.task_finished, lambda _, result: result.status) as statuses:
            result = jobs.dangle.enqueue()
            drain()

        result.refresh()
        assert statuses == [Status.FAILED]
        assert result.errors[0].exception_class_path == "django.db.utils.IntegrityError"

    def test_whose_module_breaks_is_handed_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def find(name: str) -> None:
            raise RuntimeError("no such model")

        jobs.add.enqueue(1)
        monkeypatch.setattr(registry, "find", find)

        drain("--threads", "1")

        message = Message.objects.get()
        assert (message.state, message.failures, message.lost) == (State.SCHEDULED, 0, 0)


class TestArguments:
    def test_are_json_as_django_makes_it(self) -> None:
        result = jobs.echo.enqueue((1, (2, 3)), b"bytes", key={"a": (4,)})

        drain()

        found = jobs.echo.get_result(result.id)
        arguments = [[1, [2, 3]], "bytes"], {"key": {"a": [4]}}
        assert (result.args, result.kwargs) == arguments
        assert (found.args, found.kwargs) == arguments
        assert found.return_value == [*arguments]

    def test_may_be_more_than_json(self) -> None:
        day = datetime(2030, 1, 1).date()
        result = jobs.tomorrow.enqueue(day)

        drain()

        result.refresh()
        assert (result.args, result.return_value) == ([day], day + timedelta(days=1))

    def test_are_their_json_where_what_they_stood_for_is_gone(self) -> None:
        group = Group.objects.create(name="before")
        result = jobs.rename.enqueue(group, "after")
        pk = group.pk
        group.delete()

        drain()

        result.refresh()
        assert (result.status, result.errors[0].exception_class_path) == (
            Status.FAILED,
            "django.contrib.auth.models.Group.DoesNotExist",
        )
        assert jobs.rename.get_result(result.id).args == [pk, "after"]

    @pytest.mark.parametrize("argument", [object(), float("nan"), "\x00", lambda: None])
    def test_that_can_not_be_stored_are_refused(self, argument: Any) -> None:
        with pytest.raises(TypeError):
            jobs.echo.enqueue(argument)

        assert not Message.objects.exists()

    def test_and_values_are_what_json_makes_of_them(self) -> None:
        counted, numbered = jobs.counted.enqueue(["a", "b", "a"]), jobs.numbered.enqueue()
        echoed = jobs.echo.enqueue({1: "x"})

        drain()

        for result in (counted, numbered, echoed):
            result.refresh()
        assert counted.return_value == {"a": 2, "b": 1}
        assert numbered.return_value == {"1": {"2.5": None}}
        assert echoed.return_value == [[{"1": "x"}], {}]


class TestAResult:
    def test_remembers_the_task_as_it_was_enqueued(self) -> None:
        result = jobs.add.using(priority=3, queue_name="mail").enqueue(1)

        assert jobs.add.get_result(result.id).task == result.task

    def test_is_its_json_where_what_it_stands_for_is_gone(self) -> None:
        result = jobs.founded.enqueue("gone")
        drain()
        group = Group.objects.get()
        pk = group.pk
        group.delete()

        result.refresh()

        assert result.return_value == pk

    def test_is_found_by_its_id(self) -> None:
        result = jobs.mail.enqueue("Zoë")

        found = jobs.mail.get_result(result.id)

        assert found.task == jobs.mail
        assert (found.id, found.status, found.args) == (result.id, Status.READY, ["Zoë"])
        assert (found.backend, found.enqueued_at) == ("default", result.enqueued_at)
        assert (found.started_at, found.finished_at, found.last_attempted_at) == (None, None, None)
        assert async_to_sync(jobs.mail.aget_result)(result.id).id == result.id

    @pytest.mark.parametrize(
        "id", ["0", "x", "-1", "9" * 30, pytest.param("9" * 4301, id="too long"), "٣", ""]
    )
    def test_that_is_not_there_is_not_found(self, id: str) -> None:
        with pytest.raises(api.TaskResultDoesNotExist):
            jobs.add.get_result(id)

    def test_of_another_task_does_not_match(self) -> None:
        result = jobs.add.enqueue(1)

        with pytest.raises(Exception, match="does not match"):
            jobs.mail.get_result(result.id)

    def test_of_another_backend_is_not_found(self) -> None:
        result = jobs.add.using(backend="patient").enqueue(1)

        assert jobs.add.using(backend="patient").get_result(result.id).backend == "patient"
        with pytest.raises(api.TaskResultDoesNotExist):
            jobs.add.get_result(result.id)

    def test_of_what_was_rolled_back_is_gone(self) -> None:
        with transaction.atomic():
            result = jobs.add.enqueue(1)
            transaction.set_rollback(True)

        with pytest.raises(api.TaskResultDoesNotExist):
            result.refresh()

    @pytest.mark.parametrize(
        ("state", "status"),
        [
            (State.HELD, Status.READY),
            (State.SCHEDULED, Status.READY),
            (State.RUNNING, Status.RUNNING),
            (State.DEAD, Status.FAILED),
        ],
    )
    def test_has_one_of_four_statuses(self, state: State, status: Any) -> None:
        result = jobs.add.enqueue(1)
        Message.objects.update(state=state)

        result.refresh()

        assert result.status == status

    def test_that_was_cancelled_has_failed(self) -> None:
        result = jobs.add.enqueue(1)
        Message.objects.all().cancel()

        async_to_sync(result.arefresh)()

        assert result.status == Status.FAILED
        assert result.is_finished


class TestTransactions:
    def test_carry_the_message(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            jobs.add.enqueue(1)
            1 / 0  # noqa: B018

        assert not Message.objects.exists()

    def test_store_it_on_commit_where_asked(self) -> None:
        with transaction.atomic():
            result = jobs.add.using(enqueue_on_commit=True).enqueue(1)
            before = Message.objects.count()

        assert before == 0
        assert str(Message.objects.get().pk) == result.id

    def test_are_the_loop_s_in_async_code(self) -> None:
        result = async_to_sync(jobs.add.aenqueue)(1, b=2)

        assert Message.objects.get().payload == {"args": [1], "kwargs": {"b": 2}}
        assert result.kwargs == {"b": 2}


class TestOptions:
    def test_are_the_backend_s_where_the_task_has_none(self) -> None:
        jobs.add.using(backend="patient").enqueue(1)
        jobs.tell.using(backend="patient").enqueue("x")

        assert list(Message.objects.order_by("pk").values_list("max_attempts", flat=True)) == [3, 2]

    def test_of_pgqueue_s_hold(self) -> None:
        result = jobs.tell.enqueue("x")
        joined = jobs.join.enqueue("club")
        message = Message.objects.get(pk=joined.id)

        drain()

        result.refresh()
        joined.refresh()
        assert result.return_value == ["x", {"from": "decorator"}, False]
        assert (message.key, joined.status) == ("club", Status.SUCCESSFUL)

    @pytest.mark.django_db(transaction=True, databases=["default", "second"])
    def test_may_name_another_database_and_its_commit(self) -> None:
        with transaction.atomic(using="second"):
            result = jobs.there.enqueue("there")
            before = Message.objects.using("second").count()

        drain("--database", "second")

        result.refresh()
        assert (before, Message.objects.count(), result.return_value) == (0, 0, "there")

    @pytest.mark.parametrize("alias", ["immediate", "dummy"])
    def test_are_taken_by_doubles(self, alias: str) -> None:
        result = jobs.tell.using(backend=alias, timeout=5, key="k").enqueue("x")

        if alias == "immediate":
            assert result.return_value == ["x", {"from": "decorator"}, False]
        else:
            assert (result.status, result.args) == (Status.READY, ["x"])

    def test_are_on_the_typed_decorator_on_every_django(self) -> None:
        assert jobs.tell.options == {
            "max_attempts": 2, "backoff": Delays((0,)), "metadata": {"from": "decorator"},
        }  # fmt: skip


class TestManyMessages:
    def test_are_stored_together(self) -> None:
        results = jobs.tell.enqueue_many([("a",), {"word": "b"}])

        assert [(each.args, each.kwargs) for each in results] == [(["a"], {}), ([], {"word": "b"})]
        assert Message.objects.count() == 2

    @pytest.mark.parametrize("alias", ["immediate", "dummy"])
    def test_go_to_doubles_too(self, alias: str) -> None:
        task = jobs.tomorrow.using(backend=alias, max_attempts=3)

        assert len(jobs.add.using(backend=alias).enqueue_many([(1,), {"a": 2}])) == 2
        assert task.max_attempts == 3


class TestSignals:
    def test_are_sent_once_each(self) -> None:
        sent: list[tuple[str, Any, str]] = []

        def noting(name: str) -> Callable[[Any, Any], None]:
            return lambda sender, result: sent.append((name, sender, str(result.status)))

        with ExitStack() as stack:
            for name in ("enqueued", "started", "finished"):
                signal = getattr(api.signals, f"task_{name}")
                stack.enter_context(heard(signal, noting(name)))
            jobs.add.enqueue(1)
            jobs.fail.enqueue()
            drain("--threads", "1")

        backend = type(api.task_backends["default"])
        assert sent == [
            ("enqueued", backend, "READY"),
            ("enqueued", backend, "READY"),
            ("started", backend, "RUNNING"),
            ("finished", backend, "SUCCESSFUL"),
            ("started", backend, "RUNNING"),
            ("finished", backend, "FAILED"),
        ]

    def test_finish_once_however_often_it_is_tried(self) -> None:
        def ended(sender: Any, result: Any) -> Any:
            return result.status, result.attempts, result.return_value

        with heard(api.signals.task_finished, ended) as finished:
            jobs.fail_twice.enqueue()
            drain()

        assert finished == [(Status.SUCCESSFUL, 3, ["builtins.ValueError"] * 2)]

    def test_are_sent_to_others_where_nothing_is_logged(self) -> None:
        logger = logging.getLogger(LOGGER)
        before, logger.level = logger.level, logging.CRITICAL
        try:
            with heard(
                api.signals.task_finished, lambda _, result: result.return_value
            ) as finished:
                jobs.add.enqueue(1)
                drain()
        finally:
            logger.level = before

        assert finished == [1]

    def test_are_sent_to_others_in_the_place_of_django_s_own(self) -> None:
        api.signals.task_started.disconnect(api.signals.log_task_started)
        try:
            with heard(api.signals.task_started, lambda _, result: result.status) as started:
                jobs.add.enqueue(1)
                drain()
        finally:
            api.signals.task_started.connect(api.signals.log_task_started)

        assert started == [Status.RUNNING]

    def test_are_not_logged_where_no_receiver_is_connected(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        api.signals.task_started.disconnect(api.signals.log_task_started)
        try:
            with caplog.at_level(logging.INFO, LOGGER):
                jobs.add.enqueue(1)
                drain()
        finally:
            api.signals.task_started.connect(api.signals.log_task_started)

        assert [record.getMessage().split()[-1] for record in caplog.records
                if record.name == LOGGER] == ["state=SUCCESSFUL"]  # fmt: skip

    def test_are_logged_as_django_does(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG, LOGGER):
            result = jobs.fail.enqueue("logged")
            drain()

        said = [(record.levelname, record.getMessage()) for record in caplog.records
                if record.name == LOGGER]  # fmt: skip
        path = f"Task id={result.id} path=tests.backend.jobs.fail"
        assert said == [
            ("DEBUG", f"{path} enqueued backend=default"),
            ("INFO", f"{path} state=RUNNING"),
            ("ERROR", f"{path} state=FAILED"),
        ]
        failed = next(record for record in caplog.records if record.levelname == "ERROR")
        assert failed.exc_info
        assert failed.exc_info[0] is ValueError


def test_history_has_what_ran() -> None:
    jobs.add.enqueue(1)

    drain()

    assert History.objects.get().task == "tests.backend.jobs.add"
