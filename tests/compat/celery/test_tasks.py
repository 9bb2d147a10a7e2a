"""What Celery's user guide shows of tasks: each example's twin."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import Group

from pgqueue.compat.celery import Celery, Task, exceptions, shared_task, states
from pgqueue.compat.celery.app import current_app
from pgqueue.compat.celery.result import AsyncResult
from pgqueue.exceptions import InvalidArgument, InvalidArguments, InvalidTask, TaskFailed
from pgqueue.models import History, Message
from pgqueue.tasks import redacting, registry
from pgqueue.testing import run_all
from pgqueue.values.number_checks import LARGEST
from pgqueue.worker import timeouts
from tests.compat.celery import jobs
from tests.compat.celery.jobs import SEEN

pytestmark = pytest.mark.django_db


def stored(result: Any) -> Message:
    return Message.objects.get(pk=result.id)


def ran(result: Any, *, retries: bool = True) -> AsyncResult:
    """Run what was stored; return the result."""
    run_all(retries=retries)
    assert isinstance(result, AsyncResult)
    return result


class TestBasics:
    def test_a_task_of_an_app_runs(self) -> None:
        ran(jobs.create_group.delay("authors"))

        assert Group.objects.filter(name="authors").exists()

    def test_an_option_of_the_decorator_that_asks_for_json_is_taken(self) -> None:
        assert shared_task(serializer="json")(_moved).serializer == "json"

    def test_several_decorators_hold_for_the_task(self) -> None:
        assert ran(jobs.four_times.delay(3)).get() == 12

    def test_a_bound_task_is_given_itself(self) -> None:
        told = ran(jobs.dump_context.delay(1, y=2)).get()

        assert told["id"] == told["correlation_id"] == told["root_id"]
        assert told["task"] == told["current"] == "tests.compat.celery.jobs.dump_context"
        assert (told["args"], told["kwargs"]) == ([1], {"y": 2})
        assert (told["retries"], told["is_eager"], told["called_directly"]) == (0, False, False)
        assert told["delivery_info"] == {
            "exchange": "", "routing_key": "default", "priority": 0, "redelivered": False,
        }  # fmt: skip

    def test_a_call_runs_here_and_says_so(self) -> None:
        told = jobs.dump_context(1, 2)

        assert told["called_directly"] and told["id"] is None
        assert not Message.objects.exists()

    def test_a_task_is_pickled_by_its_name(self) -> None:
        assert pickle.loads(pickle.dumps(jobs.add)) is jobs.add  # noqa: S301

    def test_a_function_that_has_no_name_in_a_module_is_no_task(self) -> None:
        with pytest.raises(InvalidTask, match="at the top of a module"):
            shared_task(lambda: None)
        with pytest.raises(InvalidTask, match="by name"):
            shared_task(1, 2)


class TestNames:
    def test_a_name_is_the_module_and_the_function(self) -> None:
        assert jobs.add.name == "tests.compat.celery.jobs.add"
        assert Message.objects.get(pk=jobs.add.delay(1, 2).id).task == jobs.add.name

    def test_a_name_may_be_given(self) -> None:
        assert jobs.explicitly_named.name == "sum-of-two-numbers"
        assert ran(jobs.explicitly_named.delay(1, 2)).get() == 3

    def test_an_app_may_make_names_of_its_own(self) -> None:
        class MyCelery(Celery):
            def gen_task_name(self, name: str, module: str) -> str:
                return super().gen_task_name(name, module.removesuffix(".tasks"))

        app = MyCelery("main", set_as_current=False)
        taken = app.task(_moved)

        assert taken.name == "tests.compat.celery.test_tasks._moved"
        assert app.tasks[taken.name] is taken

    def test_a_worker_finds_a_given_name_by_importing_what_the_project_lists(self) -> None:
        listed: list[str] = []

        def packages() -> list[str]:
            listed.append("asked")
            return ["tests.compat.celery"]

        Celery(set_as_current=False).autodiscover_tasks(packages, "jobs")

        assert registry.find("no-such-name") is None
        assert listed
        assert registry.find("sum-of-two-numbers").origin is jobs.explicitly_named


def _moved() -> None: ...


class TestLogging:
    def test_the_logger_of_a_task_has_the_name_it_was_given(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, logger=jobs.logger.name):
            ran(jobs.dump_context.delay(1, 2))

        assert "Adding 1 + 2" in caplog.messages
        assert jobs.add.get_logger().name == jobs.add.name


class TestArguments:
    def test_what_does_not_fit_is_an_error_of_the_call(self) -> None:
        with pytest.raises(TypeError, match="missing a required argument: 'y'"):
            jobs.add.delay(8)
        assert not Message.objects.exists()

    def test_what_json_can_not_hold_is_an_error_of_the_call(self) -> None:
        with pytest.raises(InvalidArgument, match="argument 'x'"):
            jobs.add.delay(object(), 1)
        with pytest.raises(InvalidArguments):
            jobs.add.apply((object(), 1))

    def test_dates_and_tuples_come_back_as_what_they_were(self) -> None:
        assert ran(jobs.add.delay(timedelta(days=1), timedelta(hours=1))).get() == timedelta(
            hours=25
        )

    def test_what_is_to_be_hidden_is_an_error(self) -> None:
        with pytest.raises(exceptions.Unsupported, match="argsrepr"):
            jobs.add.apply_async((2, 3), argsrepr="(<secret-x>, <secret-y>)")

    def test_arguments_that_nobody_is_to_be_shown_are_named_in_the_decorator(self) -> None:
        result = jobs.charge.delay("ada", card="1234 5678")
        payload = json.dumps(stored(result).payload)

        assert "1234" in payload
        shown, _ = redacting.rules(jobs.charge.name).redact({"payload": payload})
        assert "1234" not in str(shown["payload"]) and "ada" in str(shown["payload"])
        with pytest.raises(InvalidTask, match="redact"):
            shared_task(redact=["cards"])(_moved)

    def test_arguments_have_to_be_a_sequence_and_a_dict(self) -> None:
        with pytest.raises(InvalidTask, match="a tuple or a list"):
            jobs.add.apply_async("12")
        with pytest.raises(InvalidTask, match="a dict"):
            jobs.add.apply_async((1, 2), [3])


class TestRetrying:
    def test_a_retry_waits_for_the_default_delay_of_the_task(self) -> None:
        result = ran(jobs.retry_later.delay(), retries=False)

        message = Message.objects.get(pk=result.id)
        assert timedelta(minutes=29) < message.run_at - message.created_at < timedelta(minutes=31)
        assert (result.state, result.failed(), result.ready()) == (states.RETRY, False, False)
        assert "TimelineAway" in (result.traceback or "")

    def test_a_countdown_overrides_it(self) -> None:
        result = ran(jobs.retry_later.delay(60), retries=False)

        message = Message.objects.get(pk=result.id)
        assert timedelta(seconds=55) < message.run_at - message.created_at < timedelta(seconds=65)

    def test_of_a_countdown_and_an_eta_the_countdown_holds_unless_it_is_0(self) -> None:
        at = datetime(2040, 1, 1, tzinfo=UTC)
        sooner = stored(ran(jobs.retry_at.delay(at.isoformat(), 60), retries=False))
        later = stored(ran(jobs.retry_at.delay(at.isoformat(), 0), retries=False))

        assert timedelta(seconds=55) < sooner.run_at - sooner.created_at < timedelta(seconds=65)
        assert abs(later.run_at - at) < timedelta(seconds=5)

    def test_the_run_is_told_how_often_it_was_retried(self) -> None:
        result = ran(jobs.fetch.delay(2))

        assert result.get() == 2
        assert result.retries == 2

    def test_after_the_last_retry_the_error_is_that_there_were_too_many(self) -> None:
        result = ran(jobs.fetch.delay(3))

        assert result.state == states.FAILURE
        with pytest.raises(exceptions.MaxRetriesExceededError, match=r"Can't retry .*args:\(3,\)"):
            result.get()
        assert Message.objects.get().failures == 3

    def test_after_the_last_retry_the_error_is_the_one_that_was_given(self) -> None:
        result = ran(jobs.retried_from_outside.delay())

        with pytest.raises(jobs.TimelineAway):
            result.get()
        assert Message.objects.get().failures == 6

    def test_a_call_may_ask_for_more_retries_than_the_task_has(self) -> None:
        assert ran(jobs.fetch_more_often.delay(4)).get() == 4

    def test_a_direct_call_raises_the_error(self) -> None:
        with pytest.raises(jobs.TimelineAway):
            jobs.retry_later()

    def test_an_error_without_retry_is_final(self) -> None:
        result = ran(jobs.fail.delay("at once"))

        assert (result.state, Message.objects.get().failures) == (states.FAILURE, 1)

    def test_arguments_can_not_change(self) -> None:
        result = ran(jobs.change_arguments.delay(1))

        assert result.failed()
        assert "the arguments must not change" in str(result.result)


class TestAutoretry:
    def test_the_listed_errors_are_retried(self) -> None:
        assert ran(jobs.refresh_timeline.delay("ada")).get() == "timeline of ada"
        assert SEEN == ["ada"] * 3

    def test_retry_kwargs_bound_them(self) -> None:
        result = ran(jobs.refresh_timeline.delay("nobody"))

        with pytest.raises(jobs.TimelineAway, match="nobody"):
            result.get()
        assert SEEN == ["nobody"] * 3

    def test_the_delays_double_up_to_their_maximum(self) -> None:
        delays = [backoff(jobs.backing_off, ValueError(), failures) for failures in range(1, 6)]

        assert delays == [3, 6, 12, 20, 20]
        assert jobs.backing_off.own.max_attempts == LARGEST

    def test_what_is_excepted_is_not_retried(self) -> None:
        assert backoff(jobs.backing_off, KeyError(), 1) is None
        assert ran(jobs.backing_off.delay("KeyError")).failed()

    def test_jitter_draws_from_nothing_to_the_delay(self) -> None:
        jittering = shared_task(autoretry_for=[ValueError], retry_backoff=True)(_moved)

        delays = [backoff(jittering, ValueError(), 3) for _ in range(200)]

        assert all(0 <= delay <= 4 for delay in delays)
        assert max(delays) - min(delays) > 2

    def test_a_base_class_may_say_it(self) -> None:
        assert [backoff(jobs.by_base, TypeError(), each) for each in (1, 2, 12)] == [1, 2, None]
        assert jobs.by_base.own.max_attempts == 6

    def test_no_backoff_waits_for_the_default_delay(self) -> None:
        assert backoff(jobs.refresh_timeline, jobs.TimelineAway(), 1) == 0

        unhurried = shared_task(autoretry_for=ValueError)(_moved)
        assert backoff(unhurried, ValueError(), 1) == 180
        at_once = shared_task(autoretry_for=ValueError, default_retry_delay=None)(_moved)
        assert backoff(at_once, ValueError(), 1) == 0

    def test_what_retry_kwargs_can_not_say_is_an_error(self) -> None:
        with pytest.raises(exceptions.Unsupported, match="queue must not change"):
            shared_task(autoretry_for=[ValueError], retry_kwargs={"queue": "slow"})(_moved)


def backoff(task: Any, error: BaseException, failures: int) -> Any:
    class Result:
        pass

    Result.failures = failures
    return task.own.backoff(error, Result)


class TestOptions:
    def test_pydantic_and_other_classes_of_the_worker_are_errors(self) -> None:
        for option in ("pydantic", "backend", "exchange", "routing_key", "Request", "Strategy"):
            with pytest.raises(exceptions.Unsupported, match=option):
                shared_task(**{option: "given"})(_moved)
        with pytest.raises(exceptions.Unsupported, match="JSON"):
            shared_task(serializer="pickle")(_moved)
        with pytest.raises(InvalidTask, match="subclass"):
            shared_task(base=dict)(_moved)

    @pytest.mark.parametrize("option", [
        {"rate_limit": "ten"}, {"rate_limit": True}, {"max_retries": -1}, {"priority": 10},
        {"time_limit": 0}, {"soft_time_limit": "1"}, {"retry_backoff_max": -1},
        {"autoretry_for": ["ValueError"]}, {"queue": ""},
    ])  # fmt: skip
    def test_a_value_that_can_not_be_is_an_error(self, option: dict[str, Any]) -> None:
        with pytest.raises(InvalidTask):
            shared_task(**option)(_moved)

    def test_any_other_option_is_an_attribute_of_the_task(self) -> None:
        assert shared_task(colour="blue")(_moved).colour == "blue"

    def test_a_result_may_be_ignored(self) -> None:
        assert ran(jobs.mytask.delay(1, 2)).get() is None
        assert ran(jobs.mytask.apply_async((1, 2), ignore_result=False)).get() == 3
        assert ran(jobs.add.apply_async((1, 2), ignore_result=True)).get() is None

    def test_the_queue_and_the_priority_of_a_task_hold(self) -> None:
        message = Message.objects.get(pk=jobs.routed.delay(1).id)

        assert (message.channel, message.priority) == ("mail", 70)
        assert message.expires_at - message.created_at == timedelta(seconds=60)


class TestTimeLimits:
    def test_a_task_cleans_up_at_its_soft_limit(self) -> None:
        assert ran(jobs.clean_up_at_the_soft_limit.delay()).get() == "cleaned up"

    def test_the_hard_limit_ends_a_task_for_good(self) -> None:
        result = ran(jobs.run_over_the_hard_limit.delay())

        with pytest.raises(exceptions.TimeLimitExceeded):
            result.get()
        assert Message.objects.get().failures == 1

    def test_the_hard_limit_comes_after_the_soft_one(self) -> None:
        result = ran(jobs.ignore_the_soft_limit.delay())

        assert result.get() == "SoftTimeLimitExceeded TimeLimitExceeded"

    def test_a_soft_limit_after_the_hard_one_is_never_reached(self) -> None:
        own = jobs.add.own.using(timeout=5, soft_timeout=5)

        assert [each.error for each in own.limits] == [exceptions.TimeLimitExceeded]

    @pytest.mark.parametrize(("limits", "gives_up"), [({}, False), ({"time_limit": 0.1}, True)])
    def test_a_coroutine_keeps_its_lease_until_its_hard_limit(
        self, monkeypatch: pytest.MonkeyPatch, limits: dict[str, float], gives_up: bool
    ) -> None:
        monkeypatch.setattr(timeouts, "CLEANING_UP", 0)

        ran(jobs.clean_up_at_length.apply_async(**limits))

        assert [gives_up] == SEEN

    def test_a_call_has_limits_of_its_own(self) -> None:
        options = {"time_limit": 20, "soft_time_limit": 10}
        told = ran(jobs.dump_context.apply_async((1,), **options)).get()

        assert (told["time_limit"], told["soft_time_limit"]) == (20, 10)
        sooner = jobs.run_over_the_hard_limit.apply_async(soft_time_limit=0.01, time_limit=20)
        assert ran(sooner, retries=False).state == states.RETRY


class TestStates:
    def test_a_state_of_its_own_is_told_of_while_the_task_runs(self) -> None:
        assert ran(jobs.upload_files.delay(["a", "b"])).state == states.SUCCESS
        assert SEEN == [
            "PROGRESS", {"current": 0, "total": 2}, "PROGRESS", {"current": 1, "total": 2},
        ]  # fmt: skip

    def test_it_is_the_run_alone_that_can_say_so(self) -> None:
        with pytest.raises(exceptions.Unsupported, match="only the run itself"):
            jobs.add.update_state(state="PROGRESS")

    def test_a_run_that_is_tracked_has_started(self) -> None:
        assert ran(jobs.look_at_oneself.delay()).get() == states.STARTED

    def test_an_error_of_a_known_class_is_raised_again_without_its_code(self) -> None:
        result = ran(jobs.miss_page.delay())

        with pytest.raises(jobs.PageMissing, match="/: 404") as raised:
            result.get()
        assert not hasattr(raised.value, "status")
        assert "PageMissing" in (result.traceback or "")

    def test_an_error_whose_text_needs_more_than_its_text_is_told_as_text(self) -> None:
        result = ran(jobs.fail_unprintably.delay())

        assert "Unprintable: at home" in str(result.result)

    def test_a_state_that_was_noted_holds_where_the_rest_is_ignored(self) -> None:
        result = ran(jobs.note_and_ignore.delay("FAILURE", {"reason": "closed"}))

        assert (result.state, result.info, result.failed()) == (
            states.FAILURE, {"reason": "closed"}, True,
        )  # fmt: skip
        with pytest.raises(TaskFailed, match="closed"):
            result.get()
        assert ran(jobs.note_and_ignore.delay("HALFWAY", 5)).get() == 5
        assert AsyncResult(result.id).state == states.FAILURE


class TestRequests:
    def test_a_header_is_an_attribute(self) -> None:
        assert ran(jobs.tenant_of.delay()).get() == ("acme", "acme", "blue")
        assert jobs.tenant_of.apply(headers={"tenant": "acme"}).get()[0] == "acme"
        with pytest.raises(AttributeError, match="tenant"):
            jobs.tenant_of()

    def test_it_has_what_others_look_at(self) -> None:
        assert ran(jobs.describe_request.delay(1, y=2)).get() == {
            "argsrepr": "(1,)", "kwargsrepr": "{'y': 2}", "children": (), "group_index": None,
            "ignore_result": False, "chain": None,
        }  # fmt: skip

    def test_it_expires_at_an_instant_in_a_project_without_time_zones(self, settings: Any) -> None:
        settings.USE_TZ = False
        at = datetime(2100, 1, 1, 12, tzinfo=UTC)

        told = ran(jobs.expiry.apply_async(expires=at)).get()

        assert datetime.fromisoformat(told) == at

    def test_a_direct_call_has_a_request_of_its_own(self) -> None:
        assert jobs.note_a_tenant("acme") == (None, "acme", {"tenant": "acme"})
        assert jobs.note_a_tenant("other") == (None, "other", {"tenant": "other"})
        assert asyncio.run(jobs.note_a_tenant_async("acme")) == (None, "acme")
        assert asyncio.run(jobs.note_a_tenant_async("other")) == (None, "other")
        assert not hasattr(jobs.note_a_tenant.request, "tenant")
        assert not hasattr(jobs.create_group.request, "tenant")

    def test_the_arguments_of_a_request_outside_of_a_run_are_not_shared(self) -> None:
        jobs.add.request.kwargs["tenant"] = "acme"

        assert jobs.mul.request.kwargs == {}

    def test_one_outside_of_a_run_keeps_what_is_set_on_it(self) -> None:
        with patch.dict(vars(jobs.retries_of)):
            jobs.retries_of.request.retries = 3

            assert jobs.retries_of.run() == jobs.retries_of() == 3
            assert ran(jobs.retries_of.delay()).get() == jobs.retries_of.apply().get() == 0
            assert jobs.add.request.retries == 0

    @pytest.mark.parametrize("name", ["chain", "callbacks"])
    def test_what_follows_can_not_be_taken_away(self, name: str) -> None:
        result = ran(jobs.stop_the_chain.delay(name))

        with pytest.raises(exceptions.Unsupported, match="raise Ignore"):
            result.get()


class TestSemipredicates:
    def test_an_ignored_message_is_discarded(self) -> None:
        result = ran(jobs.some_task.delay())

        assert History.objects.get().outcome == "discarded"
        assert result.state == states.IGNORED
        with pytest.raises(exceptions.Ignore):
            result.get()
        assert ran(jobs.ignore_async.delay()).state == states.IGNORED

    @pytest.mark.parametrize("name", [
        *("FileNotFoundError", "ConnectionResetError", "TimeoutError", "PageRefused"),
        *("UnicodeDecodeError", "SyntaxError", "ExceptionGroup"),
    ])  # fmt: skip
    def test_an_error_that_python_makes_in_its_own_way_is_of_its_class(self, name: str) -> None:
        SEEN.clear()
        result = ran(jobs.raise_of.apply_async((name,), link_error=jobs.log_error.s()))

        with pytest.raises(Exception) as raised:
            result.get(timeout=5)
        assert type(raised.value).__name__ == name
        error = Message.objects.get().errors[-1]["message"]
        if name != "ExceptionGroup":  # which counts its errors
            assert str(raised.value) == error
        assert SEEN[0][0] == jobs.raise_of.name

    def test_handlers_are_not_told_of_a_rejected_message(self) -> None:
        ran(jobs.noisy_reject.delay())

        assert [seen[0] for seen in SEEN] == ["before_start"]

    def test_a_rejected_message_is_a_dead_letter(self) -> None:
        result = ran(jobs.render_scene.delay("/x"))

        assert (result.state, Message.objects.get().state) == (states.FAILURE, "dead")
        assert isinstance(result.result, exceptions.Reject)

    def test_a_requeued_message_is_run_again(self) -> None:
        assert ran(jobs.requeues.delay()).get() == "received two times"


class TestClasses:
    def test_a_task_of_a_class_has_a_state_of_its_process(self) -> None:
        assert ran(jobs.authenticate.delay("george", "password")).get() is True
        assert jobs.authenticate.name == "tests.compat.celery.jobs.NaiveAuthenticateServer"

    def test_a_base_holds_what_tasks_share(self) -> None:
        assert ran(jobs.process_rows.delay()).get() == 6

    def test_an_app_gives_its_tasks_a_base(self) -> None:
        app = Celery("tasks", task_cls="tests.compat.celery.jobs:DatabaseTask",
                     set_as_current=False)  # fmt: skip

        assert app.task(_moved).db == [1, 2, 3]
        assert issubclass(app.Task, Task)

    def test_shared_tasks_have_the_class_and_the_names_of_the_app(self) -> None:
        class OwnApp(Celery):
            task_cls = "tests.compat.celery.jobs:DatabaseTask"

            def gen_task_name(self, name: str, module: str) -> str:
                return f"own.{name}"

        OwnApp("own")
        task = shared_task(_moved)

        assert (task.db, task.name) == ([1, 2, 3], "own._moved")
        assert type(shared_task(base=Task)(_moved)).__mro__[1] is Task

    def test_the_class_of_an_app_s_tasks_can_be_set(self) -> None:
        app = Celery("own")
        app.Task = jobs.NoisyTask

        assert isinstance(shared_task(_moved), jobs.NoisyTask)
        assert isinstance(app.task(_moved), jobs.NoisyTask)

    def test_an_app_that_comes_too_late_for_shared_tasks_says_so(self) -> None:
        shared_task(_moved)

        with pytest.raises(
            InvalidTask, match=r"declared before: .*_moved. Import its module first"
        ):
            Celery("late", task_cls=jobs.NoisyTask)
        app = Celery("late")
        with pytest.raises(InvalidTask, match="declared before"):
            app.Task = jobs.NoisyTask
        assert Celery("plain").Task is Task

    @pytest.mark.parametrize("given", [
        {"Request": "worker.Request"}, {"routing_key": "mail.sent"}, {"exchange": "mail"},
        {"shadow_name": lambda *args: "shadow"}, {"on_bound": classmethod(lambda cls, app: None)},
        {"Strategy": "worker.strategy"}, {"from_config": (("serializer", "task_serializer"),)},
    ])  # fmt: skip
    def test_what_a_base_can_not_have_is_an_error(self, given: dict[str, Any]) -> None:
        base = type("Base", (Task,), given)
        inherited = type("Inherited", (base,), {})

        with pytest.raises(exceptions.Unsupported, match=f"{next(iter(given))} of .*_moved"):
            shared_task(base=inherited)(_moved)

    def test_handlers_are_called_around_a_run(self) -> None:
        ran(jobs.noisy_add.delay(1, y=2))

        assert SEEN == [
            ("before_start", (1,), {"y": 2}),
            ("on_success", 3, [1], {"y": 2}),
            ("after_return", "SUCCESS"),
        ]

    @pytest.mark.parametrize("task", [jobs.noisy_add, jobs.noisy_add_async])
    def test_handlers_are_told_of_a_result_that_is_not_kept(self, task: Any) -> None:
        assert ran(task.apply_async((1, 2), ignore_result=True)).get() is None
        assert SEEN[1] == ("on_success", 3, [1, 2], {})

    def test_handlers_are_told_of_retries_and_failures(self) -> None:
        ran(jobs.noisy_fail.delay())

        assert SEEN == [
            ("before_start", (), {}),
            ("on_retry", "KeyError('key')", True),
            ("before_start", (), {}),
            ("on_failure", "KeyError('key')", True),
            ("after_return", "FAILURE"),
        ]

    def test_handlers_are_called_where_a_task_is_applied(self) -> None:
        jobs.noisy_fail.apply()

        assert [each[0] for each in SEEN] == [
            "before_start", "on_retry", "before_start", "on_failure", "after_return",
        ]  # fmt: skip

    def test_a_call_of_its_own_surrounds_each_run(self) -> None:
        assert ran(jobs.counted.delay(7)).get() == 7
        assert ran(jobs.counted_unbound.delay(8)).get() == 8
        assert jobs.counted(9) == 9
        assert SEEN == ["called"] * 3

    def test_coroutine_functions_are_tasks(self) -> None:
        assert ran(jobs.double.delay(21)).get() == 42

    def test_a_custom_call_can_not_surround_a_coroutine(self) -> None:
        async def _coroutine() -> None: ...

        _coroutine.__qualname__ = "_coroutine"
        with pytest.raises(exceptions.Unsupported, match="__call__"):
            shared_task(base=jobs.Counting)(_coroutine)


class TestThrows:
    def test_an_error_that_is_expected_is_one_line_of_information(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, logger="pgqueue"):
            assert ran(jobs.raises.delay("KeyError")).failed()
            assert ran(jobs.raises.delay("ValueError")).failed()

        expected, unexpected = [each for each in caplog.records if "failed on" in each.msg]
        assert (expected.levelname, expected.exc_info) == ("INFO", None)
        assert "as it may: KeyError('KeyError'): dead letter" in expected.getMessage()
        assert (unexpected.levelname, bool(unexpected.exc_info)) == ("ERROR", True)


class TestPractices:
    def test_the_guide_s_spam_filter_marks_a_comment(self) -> None:
        comment = Group.objects.create(name="Visit my casino")
        result = ran(jobs.spam_filter.delay(comment_id=comment.pk, remote_addr="192.0.2.1"))

        comment.refresh_from_db()
        assert (result.get(), comment.name) == (True, "spam from 192.0.2.1")

    def test_a_task_that_waits_for_another_one_is_an_error(self) -> None:
        result = ran(jobs.wait_for_another.delay())

        assert "Never call result.get() within a task" in str(result.result)

    def test_a_message_is_part_of_the_transaction(self) -> None:
        # A row's lookup: the message and the row are seen together, or neither is.
        jobs.add.delay(1, 2)
        assert json.loads(json.dumps(Message.objects.get().payload)) == {
            "args": [1, 2], "kwargs": {},
        }  # fmt: skip

    def test_shared_tasks_take_the_settings_of_the_current_app(self) -> None:
        assert jobs.add.app.main == current_app().main
        assert jobs.create_group.app is jobs.app
