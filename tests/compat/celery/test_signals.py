"""Celery's signals: those that are sent, and what the others say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from pgqueue import signals as own
from pgqueue.compat.celery import Celery, chord, exceptions, signals, states
from pgqueue.models import Message
from pgqueue.testing import run_all
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.worker import Worker
from tests.compat.celery import jobs

pytestmark = pytest.mark.django_db
SENT = [name for name, each in vars(signals).items() if isinstance(each, signals.Signal)]
NEVER = [name for name, each in vars(signals).items() if isinstance(each, signals.Absent)]


@pytest.fixture
def told() -> Iterator[list[tuple[str, Any, dict[str, Any]]]]:
    """What all signals have sent."""
    told: list[tuple[str, Any, dict[str, Any]]] = []
    receivers = {}
    for name in SENT:

        def receive(*, sender: Any, name: str = name, signal: Any = None, **named: Any) -> None:
            told.append((name, sender, named))

        receivers[name] = getattr(signals, name).connect(receive)
    yield told
    for name, receiver in receivers.items():
        getattr(signals, name).disconnect(receiver)


def names(told: list[tuple[str, Any, dict[str, Any]]]) -> list[str]:
    return [name for name, _, _ in told]


def test_a_run_that_succeeds_is_told_of(told: list[Any]) -> None:
    result = jobs.add.delay(1, y=2)
    run_all()

    assert names(told) == [
        "before_task_publish", "after_task_publish", "task_prerun", "task_success", "task_postrun",
    ]  # fmt: skip
    _, sender, published = told[1]
    assert sender == jobs.add.name
    assert published["headers"]["id"] == result.id
    assert published["routing_key"] == "default"
    _, sender, begun = told[2]
    assert sender is jobs.add
    assert (begun["task_id"], begun["args"], begun["kwargs"]) == (result.id, [1], {"y": 2})
    assert told[3][2] == {"result": 3}
    assert (told[4][2]["retval"], told[4][2]["state"]) == (3, states.SUCCESS)


def test_retries_and_the_failure_are_told_of(told: list[Any]) -> None:
    jobs.noisy_fail.delay()
    run_all(retries=True)

    assert names(told)[2:] == [
        "task_prerun", "task_retry", "task_postrun", "task_prerun", "task_failure", "task_postrun",
    ]  # fmt: skip
    retried, failed = told[3][2], told[6][2]
    assert isinstance(retried["reason"], exceptions.Retry)
    assert repr(failed["exception"]) == "KeyError('key')"
    assert failed["traceback"] is not None and "KeyError" in str(failed["einfo"])
    assert told[7][2]["state"] == states.FAILURE


def test_what_is_discarded_has_only_ended(told: list[Any]) -> None:
    jobs.some_task.delay()
    run_all()

    assert names(told)[2:] == ["task_prerun", "task_postrun"]
    assert told[-1][2]["state"] == states.IGNORED


def test_an_eager_run_is_told_of(told: list[Any]) -> None:
    jobs.add.apply((1, 2))
    jobs.fail.apply(("no",))

    assert names(told) == [
        "task_prerun", "task_success", "task_postrun", "task_prerun", "task_failure",
        "task_postrun",
    ]  # fmt: skip


def test_a_receiver_is_for_one_task_or_for_all() -> None:
    told = []

    @signals.task_success.connect(sender=jobs.add)
    def receive(sender: Any, result: Any, **named: Any) -> None:
        told.append((sender.request.id, result))

    @signals.before_task_publish.connect(sender="tests.compat.celery.jobs." + "add")
    def trace(sender: str, headers: dict[str, Any], **named: Any) -> None:
        headers["trace"] = "abc"

    try:
        result = jobs.add.apply_async((1, 2), task_id="mine")
        jobs.double.delay(1)
        run_all()
        assert told == [("mine", 3)]
        assert Message.objects.count() == 0
        assert result.get() == 3
    finally:
        assert signals.task_success.disconnect(receive, sender=jobs.add)
        assert signals.before_task_publish.disconnect(trace, sender=jobs.add.name)


def test_what_is_added_to_the_headers_travels_with_the_message() -> None:
    @signals.before_task_publish.connect
    def trace(headers: dict[str, Any], **named: Any) -> None:
        headers["trace"] = "abc"

    try:
        result = jobs.dump_context.apply_async((1,), headers={"own": 1}, task_id="with-id")
    finally:
        signals.before_task_publish.disconnect(trace)
    run_all()

    told = result.get()
    assert (told["headers"], told["id"]) == ({"own": 1, "trace": "abc"}, "with-id")


def test_headers_of_a_call_with_names_of_celery_travel_whoever_listens(told: list[Any]) -> None:
    headers = {"lang": "de", "origin": "shop", "shadow": "nightly"}
    result = jobs.dump_context.apply_async((1,), headers=headers)
    run_all()

    assert told[0][2]["headers"]["lang"] == "de"
    assert result.get()["headers"] == headers


def test_a_receiver_that_fails_undoes_only_itself() -> None:
    @signals.after_task_publish.connect
    def fail(**named: Any) -> None:
        Group.objects.create(name="twice")
        Group.objects.create(name="twice")

    try:
        result = jobs.add.delay(1, 2)
    finally:
        signals.after_task_publish.disconnect(fail)

    assert not Group.objects.exists()
    run_all()
    assert result.get() == 3


def test_the_headers_have_the_id_before_the_message_is_stored(told: list[Any]) -> None:
    result = jobs.add.apply_async((1, 2), countdown=60, expires=90, time_limit=5)
    jobs.charge.delay("ada", card="1234")
    (before, after, *_, hidden) = [
        named["headers"] for name, _, named in told if name.endswith("task_publish")
    ]

    assert before["id"] == after["id"] == before["root_id"] == result.id
    assert (before["parent_id"], before["retries"], before["group"]) == (None, 0, None)
    assert (before["argsrepr"], before["kwargsrepr"], before["lang"]) == ("(1, 2)", "{}", "py")
    assert before["timelimit"] == [5.0, None]
    assert timezone.now() < datetime.fromisoformat(before["eta"]) < after_seconds(61)
    assert after_seconds(80) < datetime.fromisoformat(before["expires"]) < after_seconds(91)
    assert str(os.getpid()) in before["origin"]
    assert hidden["argsrepr"] == hidden["kwargsrepr"] == "[redacted]"
    assert Message.objects.get(pk=result._looked().id).metadata == {"celery": {"id": result.id}}


def after_seconds(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def test_what_a_run_publishes_has_it_as_its_parent(told: list[Any]) -> None:
    result = jobs.publish_another.delay()
    run_all()

    published = [named["headers"] for name, _, named in told if name == "before_task_publish"]
    assert published[1]["parent_id"] == published[0]["id"] == result.id
    assert published[1]["root_id"] == result.id


def test_messages_of_a_canvas_have_their_ids_in_the_headers(told: list[Any]) -> None:
    result = chord([jobs.add.s(1, 2), jobs.add.s(3, 4)], jobs.tsum.s()).delay()
    run_all()

    ids = {name: [named["headers"]["id"] for each, _, named in told if each == name]
           for name in ("before_task_publish", "after_task_publish")}  # fmt: skip
    assert ids["before_task_publish"] == ids["after_task_publish"]
    assert len(set(ids["before_task_publish"])) == 3
    assert result.id == ids["before_task_publish"][-1]
    assert result.get() == 10


def test_messages_that_replace_a_run_are_told_of_before_and_after(told: list[Any]) -> None:
    result = jobs.replace_by.delay(chord([jobs.add.s(1, 2)], jobs.tsum.s()))
    run_all()

    ids = {name: [named["headers"]["id"] for each, _, named in told if each == name]
           for name in ("before_task_publish", "after_task_publish")}  # fmt: skip
    assert ids["before_task_publish"] == ids["after_task_publish"]
    assert len(ids["after_task_publish"]) == 3
    assert result.get() == 3


def test_a_worker_is_told_of(told: list[Any]) -> None:
    app = Celery("current")
    own.worker_starting.send(object, channels=None)
    own.worker_started.send(object, channels=None)
    own.worker_stopping.send(object, requests=1)
    own.worker_stopped.send(object, released=0)

    assert names(told) == [
        "celeryd_init", "celeryd_after_setup", "worker_init", "worker_process_init", "worker_ready",
        "worker_shutting_down", "worker_process_shutdown", "worker_shutdown",
    ]  # fmt: skip
    for number in (2, 4, 7):
        sender = told[number][1]
        assert sender.app is app and sender.hostname == told[3][1] == told[5][1] == told[0][1]
        assert sender.hostname.startswith("celery@")
    assert told[1][2]["instance"].app is app and told[1][2]["conf"] is app.conf
    assert told[5][2] == {"sig": "SIGTERM", "how": "Warm", "exitcode": 0}
    assert told[6][2] == {"pid": os.getpid(), "exitcode": 0}


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_begins_to_stop_tells_so_while_tasks_run() -> None:
    @signals.worker_shutting_down.connect
    def tell(sender: str, sig: str, how: str, exitcode: int, **named: Any) -> None:
        jobs.STOPPING.set()

    result = jobs.end_as_the_worker_stops.delay()
    worker = Worker(WorkerConfig(database="default", threads=1, grace=timedelta(seconds=30)))
    jobs.SEEN.append(worker)
    try:
        worker.run()
    finally:
        signals.worker_shutting_down.disconnect(tell)
        jobs.STOPPING.clear()

    assert result.get() is True


@pytest.mark.parametrize("name", NEVER)
def test_a_signal_that_is_never_sent_can_not_be_connected(name: str) -> None:
    signal = getattr(signals, name)

    assert signal.name == name
    with pytest.raises(exceptions.Unsupported, match=f"{name} is never sent"):
        signal.connect(print)
    assert not signal.disconnect(print)
