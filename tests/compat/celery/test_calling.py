"""What Celery's user guide shows of calls: each example's twin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from pgqueue.compat.celery import exceptions, signature, states
from pgqueue.compat.celery import uuid as make_id
from pgqueue.compat.celery.app import Celery
from pgqueue.compat.celery.result import AsyncResult, EagerResult
from pgqueue.exceptions import InvalidTask, TaskResultDoesNotExist, UnknownTask
from pgqueue.models import Dedupe, Message
from pgqueue.testing import run_all
from tests.compat.celery import jobs
from tests.jobs import mail
from tests.tasks import test_tenants

pytestmark = pytest.mark.django_db


def stored(result: Any) -> Message:
    return Message.objects.get(pk=result.id)


class TestBasics:
    def test_delay_and_apply_async_store_the_same(self) -> None:
        payloads = [
            stored(each).payload
            for each in (
                jobs.add.delay(2, y=3),
                jobs.add.apply_async((2,), {"y": 3}),
                jobs.add.apply_async(args=[2], kwargs={"y": 3}),
                jobs.add.s(2, y=3).apply_async(),
                jobs.add.s(2, y=3).delay(),
                jobs.app.send_task(jobs.add.name, (2,), {"y": 3}),
                signature(jobs.add.name, (2,), {"y": 3}).delay(),
            )
        ]

        assert payloads == [{"args": [2], "kwargs": {"y": 3}}] * 7

    def test_a_call_runs_here(self) -> None:
        assert jobs.add(2, 2) == 4
        assert jobs.add.s(2, 2)() == 4
        assert not Message.objects.exists()

    def test_a_name_that_is_no_task_is_an_error(self) -> None:
        with pytest.raises(UnknownTask, match=r"No task is named nothing .*pgqueue_enqueue\(\)"):
            jobs.app.send_task("nothing")

    def test_an_unknown_option_is_an_error_that_guesses(self) -> None:
        with pytest.raises(InvalidTask, match="Did you mean 'countdown'"):
            jobs.add.apply_async((1, 2), coutdown=3)

    @pytest.mark.parametrize("option", [
        "producer", "publisher", "connection", "exchange", "routing_key", "router", "reply_to",
        "chain", "chord", "group_id", "declare", "kwargsrepr",
    ])  # fmt: skip
    def test_what_is_not_taken_over_says_what_to_do(self, option: str) -> None:
        with pytest.raises(exceptions.Unsupported, match=f"^{option}="):
            jobs.add.apply_async((1, 2), **{option: object()})

    def test_what_has_no_effect_is_taken(self) -> None:
        jobs.add.apply_async(
            (2, 2), retry=True, retry_policy={"max_retries": 3}, compression="zlib",
            delivery_mode=2, serializer="json", shadow="sum",
        )  # fmt: skip

    @pytest.mark.parametrize("serializer", ["pickle", "yaml", "msgpack"])
    def test_pickle_is_an_error(self, serializer: str) -> None:
        with pytest.raises(exceptions.Unsupported, match="arguments are JSON"):
            jobs.add.apply_async((10, 10), serializer=serializer)


class TestTimes:
    def test_a_countdown_is_seconds_from_now(self) -> None:
        message = stored(jobs.add.apply_async((2, 2), countdown=3))

        assert message.run_at - message.created_at == timedelta(seconds=3)
        assert message.state == "scheduled"

    def test_an_eta_is_a_time(self) -> None:
        tomorrow = datetime.now(UTC) + timedelta(days=1)

        assert stored(jobs.add.apply_async((2, 2), eta=tomorrow)).run_at == tomorrow
        naive = tomorrow.replace(tzinfo=None)
        assert stored(jobs.add.apply_async((2, 2), eta=naive)).run_at == tomorrow
        with pytest.raises(InvalidTask, match="eta=5"):
            jobs.add.apply_async((2, 2), eta=5)

    def test_of_a_countdown_and_an_eta_the_countdown_holds_unless_it_is_0(self) -> None:
        tomorrow = datetime.now(UTC) + timedelta(days=1)

        message = stored(jobs.add.apply_async((2, 2), countdown=5, eta=tomorrow))
        assert message.run_at - message.created_at == timedelta(seconds=5)
        assert stored(jobs.add.apply_async((2, 2), eta=tomorrow, countdown=0)).run_at == tomorrow
        assert stored(jobs.add.apply_async((2, 2), countdown=0)).state == "ready"

    def test_it_expires_after_seconds_or_at_a_time(self) -> None:
        message = stored(jobs.add.apply_async((10, 10), expires=60))
        assert message.expires_at - message.created_at == timedelta(seconds=60)

        at = timezone.now() + timedelta(days=1)
        assert stored(jobs.add.apply_async((10, 10), expires=at)).expires_at == at
        text = at.isoformat()
        assert stored(jobs.add.apply_async((10, 10), expires=text)).expires_at == at

    def test_the_expiry_of_a_call_holds_whatever_the_task_has(self, settings: Any) -> None:
        tomorrow = timezone.now() + timedelta(days=1)
        settings.CELERY_TASK_ANNOTATIONS = {"*.add": {"expires": tomorrow}}
        by_seconds = stored(jobs.add.apply_async((1, 2), expires=3 * 86400))

        assert stored(jobs.routed.apply_async((1,), expires=tomorrow)).expires_at == tomorrow
        assert by_seconds.expires_at - by_seconds.created_at == timedelta(days=3)
        assert stored(jobs.add.delay(1, 2)).expires_at == tomorrow

    def test_it_expires_after_a_timedelta(self) -> None:
        message = stored(jobs.add.apply_async((10, 10), expires=timedelta(minutes=1)))

        assert message.expires_at - message.created_at == timedelta(minutes=1)
        for wrong in ([60], True, float("nan")):
            with pytest.raises(InvalidTask, match="^expires="):
                jobs.add.apply_async((10, 10), expires=wrong)

    def test_what_has_expired_is_revoked(self) -> None:
        result = jobs.add.apply_async((10, 10), expires=-1)
        run_all()

        assert result.state == states.REVOKED
        with pytest.raises(exceptions.TaskRevokedError):
            result.get()


class TestRouting:
    def test_a_queue_is_a_channel(self) -> None:
        assert stored(jobs.add.apply_async((1, 2), queue="priority.high")).channel == (
            "priority.high"
        )

    def test_priorities_are_ten_times_as_many(self) -> None:
        assert stored(jobs.add.apply_async((1, 2), priority=9)).priority == 90
        assert stored(jobs.add.apply_async((1, 2), priority=0)).priority == 0
        with pytest.raises(InvalidTask, match="from 0 to 9, higher first"):
            jobs.add.apply_async((1, 2), priority=255)

    def test_headers_travel_with_the_message(self) -> None:
        result = jobs.dump_context.apply_async((1,), headers={"periodic_task_name": "task_name"})
        run_all()

        assert result.get()["headers"] == {"periodic_task_name": "task_name"}


class TestIds:
    def test_a_task_id_finds_the_message_while_it_lives_and_after(self) -> None:
        id = make_id()
        result = jobs.dump_context.apply_async((1,), task_id=id)

        assert result.id == id
        assert AsyncResult(id).state == states.PENDING
        run_all()
        assert AsyncResult(id).get()["id"] == id
        assert jobs.dump_context.AsyncResult(id).successful()

    def test_a_second_message_has_not_the_same_one(self) -> None:
        first = jobs.add.apply_async((1, 2), task_id="my-own")
        second = jobs.add.apply_async((3, 4), task_id="my-own")
        run_all()

        assert first == second and second.get() == 3
        assert jobs.add.apply_async((5, 6), task_id="my-own").get() == 3

    def test_a_task_id_of_a_tenant_is_found_outside_of_it(
        self, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "TENANT": test_tenants.PATH}
        monkeypatch.setitem(test_tenants.answers, "current", "north")
        jobs.add.apply_async((1, 2), task_id="my-own")
        monkeypatch.setitem(test_tenants.answers, "current", None)

        run_all()

        assert AsyncResult("my-own").get() == 3

    def test_a_task_id_in_another_queue_is_found(self) -> None:
        jobs.add.apply_async((1, 2), task_id="there", queue="elsewhere")
        run_all()

        assert AsyncResult("there", app=jobs.app).get() == 3

    def test_a_task_id_finds_a_message_that_waits_for_longer_than_its_key_is_remembered(
        self,
    ) -> None:
        reminder = jobs.add.apply_async((1, 2), task_id="later", countdown=3 * 86400)
        Dedupe.objects.all().delete()

        AsyncResult("later").revoke()

        assert reminder.state == states.REVOKED

    def test_a_task_id_finds_no_message_of_another_task_with_this_dedupe_key(self) -> None:
        order = jobs.charge.apply_async(("account", "card"), task_id="order-7", countdown=600)
        digest = mail.using(dedupe_key="order-7", dedupe_for=86400).enqueue("her@example.com")

        jobs.app.control.revoke("order-7")
        digest.refresh()

        assert order.state == states.REVOKED and digest.status == "ready"

    def test_a_number_is_no_task_id_since_messages_have_them(self) -> None:
        with pytest.raises(InvalidTask, match="is the id of another message"):
            jobs.add.apply_async((1, 2), task_id=17)

    def test_what_is_unknown_is_pending(self) -> None:
        for id in ("unknown", "123456789", "9" * 4301, "a\x00b", "\ud800", "a" * 10_000, ""):
            result = AsyncResult(id)
            assert (result.state, result.ready(), result.result) == (states.PENDING, False, None)
            with pytest.raises(TaskResultDoesNotExist):
                result.get(timeout=0)


class TestResults:
    def test_a_result_tells_all_of_the_end(self) -> None:
        result = jobs.add.delay(2, 3)
        assert (result.status, result.ready(), result.successful()) == (
            states.PENDING, False, False,
        )  # fmt: skip
        run_all()

        assert (result.status, result.ready(), result.successful(), result.failed()) == (
            states.SUCCESS, True, True, False,
        )  # fmt: skip
        assert (result.result, result.info, result.traceback) == (5, 5, None)
        assert (result.name, result.args, result.retries) == (jobs.add.name, [2, 3], 0)
        assert result.date_done is not None
        assert str(result) == result.task_id == result.id == result
        assert isinstance(result, jobs.app.AsyncResult)

    def test_an_error_is_raised_unless_that_is_not_wanted(self) -> None:
        result = jobs.fail.delay("oh")
        run_all()

        with pytest.raises(ValueError, match="oh"):
            result.get(timeout=1)
        assert repr(result.get(propagate=False)) == "ValueError('oh')"
        assert "in fail" in (result.traceback or "")

    def test_the_state_of_a_result_is_known_when_its_row_is_deleted(self) -> None:
        result = jobs.find_group.delay(jobs.create_group("authors"))
        run_all()
        Group.objects.all().delete()

        assert (result.state, result.ready(), result.successful()) == (states.SUCCESS, True, True)
        with pytest.raises(Group.DoesNotExist):
            result.get()

    def test_a_message_is_revoked(self) -> None:
        results = [jobs.add.delay(1, 2) for _ in range(4)]
        results[0].revoke()
        results[1].revoke(terminate=True, signal="SIGKILL")
        jobs.app.control.revoke(results[2].id)
        jobs.app.control.revoke([results[3].id], terminate=True)

        assert {each.state for each in results} == {states.REVOKED}
        with pytest.raises(exceptions.TaskRevokedError):
            results[0].get()

    def test_forgetting_leaves_it_to_retention(self) -> None:
        result = jobs.add.delay(1, 2)
        run_all()
        result.forget()

        assert result.get() == 3

    def test_a_callback_is_called_with_the_value(self) -> None:
        told: list[Any] = []
        result = jobs.add.delay(1, 2)
        run_all()
        result.get(callback=lambda id, value: told.append((id, value)))

        assert told == [(result.id, 3)]

    def test_on_message_is_not_taken_over(self) -> None:
        with pytest.raises(exceptions.Unsupported, match="message_stream"):
            jobs.add.delay(1, 2).get(on_message=print)
        with pytest.raises(exceptions.Unsupported, match="callback"):
            jobs.add.delay(1, 2).then(print)


class TestOnCommit:
    @pytest.mark.django_db(transaction=True)
    def test_a_message_is_stored_at_the_commit(self) -> None:
        with transaction.atomic():
            assert jobs.add.delay_on_commit(1, 2) is None
            jobs.add.apply_async_on_commit((3, 4), countdown=5)
            assert not Message.objects.exists()

        assert Message.objects.count() == 2

    def test_what_can_not_be_stored_is_an_error_of_the_call(self) -> None:
        with pytest.raises(TypeError):
            jobs.add.delay_on_commit(1, object())
        with pytest.raises(exceptions.Unsupported):
            jobs.add.apply_async_on_commit((1, 2), routing_key="x")


class TestEager:
    def test_apply_runs_here_with_retries_at_once(self) -> None:
        result = jobs.fetch.apply((2,))

        assert isinstance(result, EagerResult)
        assert (result.get(), result.state, result.ready()) == (2, states.SUCCESS, True)
        assert jobs.dump_context.apply((1,)).get()["is_eager"]
        assert not Message.objects.exists()

    def test_an_error_is_in_the_result_or_raised(self) -> None:
        result = jobs.fail.apply(("no",))

        assert result.failed() and "ValueError: no" in (result.traceback or "")
        with pytest.raises(ValueError, match="no"):
            result.get()
        with pytest.raises(ValueError, match="no"):
            jobs.fail.apply(("no",), throw=True)
        assert jobs.fetch.apply((9,)).failed()
        assert jobs.some_task.apply().state == states.IGNORED
        assert jobs.render_scene.apply(("/x",)).failed()
        assert jobs.upload_files.apply((["a"],)).get() == "uploaded"

    def test_a_task_without_a_maximum_of_retries_ends_as_well(self) -> None:
        result = jobs.backing_off.apply(("ValueError",))

        assert result.failed() and repr(result.result) == "ValueError('ValueError')"
        with pytest.raises(ValueError, match="the service is away"):
            jobs.asking_again.apply(throw=True)

    def test_a_requeue_counts_as_no_retry(self) -> None:
        assert jobs.requeue_once.apply().get() == [0, 0]

    def test_all_is_eager_where_the_settings_say_so(self, settings: Any) -> None:
        settings.CELERY_TASK_ALWAYS_EAGER = True

        assert jobs.add.delay(1, 2).get() == 3
        assert jobs.fail.delay("no").failed()
        settings.CELERY_TASK_EAGER_PROPAGATES = True
        with pytest.raises(ValueError, match="no"):
            jobs.fail.delay("no")
        assert not Message.objects.exists()


class TestSignatures:
    def test_a_signature_is_called_with_more_arguments_first(self) -> None:
        assert stored(jobs.add.s(2).delay(1)).payload["args"] == [1, 2]
        assert stored(jobs.add.si(1, 2).delay(3)).payload["args"] == [1, 2]
        assert repr(jobs.add.s(1, y=2)) == f"{jobs.add.name}(1, y=2)"

    def test_options_are_set(self) -> None:
        message = stored(jobs.add.signature((1, 2), queue="mail").set(priority=3).apply_async())

        assert (message.channel, message.priority) == ("mail", 30)


class TestApps:
    @pytest.mark.parametrize("name", [
        "worker_main", "start", "amqp", "backend", "connection", "pool", "events", "log", "steps",
    ])  # fmt: skip
    def test_what_an_app_has_not_says_what_to_do(self, name: str) -> None:
        with pytest.raises(exceptions.Unsupported, match=f"app.{name}: "):
            getattr(Celery(set_as_current=False), name)

    def test_single_workers_are_not_controlled(self) -> None:
        with pytest.raises(exceptions.Unsupported, match="control.autoscale: "):
            jobs.app.control.autoscale(1, 2)
        with pytest.raises(exceptions.Unsupported, match="inspect\\(\\).clock: "):
            jobs.app.control.inspect().clock()

    def test_many_calls_go_by_the_task_of_pgqueue(self) -> None:
        assert len(jobs.add.own.enqueue_many([(1, 2), (3, 4)])) == 2
