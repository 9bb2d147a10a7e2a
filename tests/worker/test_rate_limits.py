"""Tasks that raise RateLimited: their message is deferred, and the scope is paused."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import transaction

from pgqueue import (
    BatchCall,
    Channel,
    DurableContext,
    RateLimited,
    TaskContext,
    send,
    send_many,
    task,
)
from pgqueue.database.connections import connect
from pgqueue.models import History, Lane, Message, TaskPause
from pgqueue.states import State

pytestmark = pytest.mark.django_db(transaction=True)


def drain() -> None:
    call_command("runworker", "--drain", verbosity=1)


@task(max_attempts=1)
def call_a_busy_service(scope: Any = "channel", seconds: float = 600) -> None:
    Group.objects.create(name="effect")
    raise RateLimited(retry_after=seconds, progress="noted", scope=scope)


@task(max_attempts=1)
async def call_a_busy_service_async(scope: Any = "channel", seconds: float = 600) -> None:
    await Group.objects.acreate(name="effect")
    raise RateLimited(retry_after=seconds, progress="noted", scope=scope)


@task(max_attempts=1, batch=10)
def call_in_a_batch(calls: list[BatchCall[[]]]) -> None:
    raise RateLimited(retry_after=600)


@task(max_attempts=1, takes_context=True)
def go_on_at_once(context: TaskContext) -> None:
    if context.attempt == 1:
        raise RateLimited(retry_after=0)


@task(max_attempts=1)
def handle(payload: Any) -> None:
    asked.append("asked")
    raise RateLimited(retry_after=600, scope="task")


@task(max_attempts=1, key="a", atomic="repeatable read", takes_context=True)
def call_beside_others(context: TaskContext, scope: Any) -> None:
    """Another worker changes the rows that a pause changes, after this transaction has begun."""
    asked.append("asked")
    Group.objects.create(name="effect")
    with closing(connect("default", name="test")) as other:
        other.execute("UPDATE pgqueue_lane SET tat = now()")
        other.execute("UPDATE pgqueue_channel SET retention = '1 day'")
    raise RateLimited(retry_after=600, scope=scope)


def fail_after_the_commit() -> None:
    raise RuntimeError("the cache is away")


@task(max_attempts=1, atomic="repeatable read")
def call_with_a_hook_that_fails() -> None:
    transaction.on_commit(fail_after_the_commit)
    raise RateLimited(retry_after=600)


@task(max_attempts=1, atomic="repeatable read", batch=10)
def call_together_with_a_hook_that_fails(calls: list[BatchCall[[]]]) -> None:
    transaction.on_commit(fail_after_the_commit)
    raise RateLimited(retry_after=600)


@task(max_attempts=1)
def do_nothing() -> None:
    pass


asked: list[str] = []


def prepare() -> None:
    asked.append("prepared")


def ask() -> None:
    asked.append("asked")
    if asked.count("asked") == 1:
        raise RateLimited(retry_after=600)


@task(max_attempts=1, durable=True)
def call_in_a_step(run: DurableContext) -> None:
    run.step(prepare)
    run.step(ask)


WAYS = [
    pytest.param(call_a_busy_service, id="sync"),
    pytest.param(call_a_busy_service.using(atomic=True), id="atomic"),
    pytest.param(call_a_busy_service_async, id="async"),
]


@pytest.mark.parametrize("scope", ["key", "channel"])
def test_of_an_isolated_run_beside_other_workers_asks_the_service_once(scope: str) -> None:
    asked.clear()
    Channel("default").policy(max_running=4, each_key=True)
    Channel("default").configure(age_after=None)
    result = call_beside_others.enqueue(scope)

    drain()

    message = Message.objects.get(pk=result.id)
    assert asked == ["asked"]
    assert (message.state, message.failures) == (State.SCHEDULED, 0)
    assert Group.objects.filter(name="effect").count() == 1
    if scope == "key":
        assert Lane.objects.get(key="a").paused_until is not None
    else:
        assert Channel("default").stats().paused


@pytest.mark.parametrize(
    "calling", [call_with_a_hook_that_fails, call_together_with_a_hook_that_fails]
)
def test_of_an_isolated_run_pauses_its_channel_though_a_hook_of_the_run_fails(
    calling: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calling.enqueue_many([()] * 2)

    drain()

    assert "an on_commit hook failed" in caplog.text
    assert Message.objects.filter(state=State.SCHEDULED, failures=0).exists()
    assert Channel("default").stats().paused


def test_of_a_handler_pauses_its_raw_messages() -> None:
    Channel("in").configure(handler=f"{__name__}.handle")
    asked.clear()
    send("in", 1)
    drain()
    send_many("in", [2, 3])

    drain()

    assert asked == ["asked"]
    assert TaskPause.objects.get().task == f"{__name__}.handle"


@pytest.mark.parametrize("calling", WAYS)
class TestARateLimit:
    def test_pauses_its_channel_and_no_other(self, calling: Any) -> None:
        result = calling.enqueue()
        drain()
        later = do_nothing.enqueue()
        elsewhere = do_nothing.using(channel="elsewhere").enqueue()

        drain()

        result.refresh()
        message = Message.objects.get(pk=result.id)
        assert (message.state, message.progress) == (State.SCHEDULED, "noted")
        assert (result.attempt, message.failures, message.errors) == (1, 0, [])
        assert Group.objects.filter(name="effect").count() == 1
        assert Message.objects.get(pk=later.id).state == State.READY
        assert [str(each.pk) for each in History.objects.all()] == [elsewhere.id]
        paused_until = Channel("default").stats().paused_until
        assert paused_until is not None
        assert abs(message.run_at - paused_until) < timedelta(minutes=1)

    @pytest.mark.parametrize("is_governed", [False, True])
    def test_pauses_its_key_and_no_other(self, calling: Any, is_governed: bool) -> None:
        if is_governed:
            Channel("default").policy(max_running=5, each_key=True)
        result = calling.using(key="a").enqueue("key")
        drain()
        others = [do_nothing.enqueue(), do_nothing.using(key="b").enqueue()]
        waiting = do_nothing.using(key="a").enqueue()

        drain()  # it waits for no message of the key

        message = Message.objects.get(pk=result.id)
        assert (message.state, message.failures) == (State.SCHEDULED, 0)
        assert {str(each.pk) for each in History.objects.all()} == {each.id for each in others}
        assert Message.objects.get(pk=waiting.id).state == State.READY
        lane = Lane.objects.get(key="a")
        assert lane.paused_until is not None
        assert abs(message.run_at - lane.paused_until) < timedelta(minutes=1)
        assert not Channel("default").stats().paused

    def test_pauses_its_task_and_no_other(self, calling: Any) -> None:
        result = calling.enqueue("task")
        drain()
        waiting = calling.using(channel="elsewhere").enqueue("task")
        other = do_nothing.enqueue()

        drain()

        message = Message.objects.get(pk=result.id)
        assert (message.state, message.failures) == (State.SCHEDULED, 0)
        assert Message.objects.get(pk=waiting.id).state == State.READY
        assert [str(each.pk) for each in History.objects.all()] == [other.id]
        until = TaskPause.objects.get(task=message.task).until
        assert abs(message.run_at - until) < timedelta(minutes=1)

    def test_of_the_key_needs_one(self, calling: Any) -> None:
        calling.enqueue("key")

        drain()

        message = Message.objects.get()
        assert message.state == State.DEAD
        assert message.errors[0]["class"] == "pgqueue.exceptions.InvalidMessage"
        assert "has no key. Enqueue it with using(key=…)" in message.errors[0]["message"]


def test_a_rate_limit_of_no_time_pauses_nothing() -> None:
    go_on_at_once.enqueue()

    drain()

    assert History.objects.get().attempt == 2
    assert not Channel("default").stats().paused


def test_a_rate_limit_of_a_batch_defers_all_its_messages() -> None:
    call_in_a_batch.enqueue_many([()] * 3)

    drain()

    assert Message.objects.filter(state=State.SCHEDULED, failures=0).count() == 3
    assert Channel("default").stats().paused


def test_a_rate_limit_in_a_step_repeats_this_step_alone() -> None:
    asked.clear()
    result = call_in_a_step.enqueue()
    drain()
    paused = Channel("default").resume()
    waiting = Message.objects.filter(pk=result.id, state=State.SCHEDULED, failures=0)

    waiting.run_now()
    drain()

    assert paused
    assert asked == ["prepared", "asked", "asked"]
    assert History.objects.get().outcome == "succeeded"
