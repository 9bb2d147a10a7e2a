"""Runs of workers open and close the circuit breakers of their channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Timer
from typing import Any

import pytest
from django.core.management import call_command

from pgqueue import BatchCall, Channel, Defer, RateLimited, task
from pgqueue.database.connections import connect
from pgqueue.models import Breaker, History, Message
from tests.factories import Connection

pytestmark = pytest.mark.django_db(transaction=True)

CRM = Channel("crm")
answers: list[bool] = []


@task(channel="crm", max_attempts=1)
def ask() -> None:
    if not answers.pop(0):
        raise ConnectionError("the service is away")


@task(channel="crm", max_attempts=1, atomic=True)
def ask_atomically() -> None:
    if not answers.pop(0):
        raise ConnectionError("the service is away")


@task(channel="crm", max_attempts=1)
def put_off() -> None:
    raise Defer(3600)


def drain() -> None:
    call_command("runworker", "--drain", verbosity=1)


@pytest.mark.parametrize("asking", [ask, ask_atomically])
def test_a_service_that_comes_back_gets_its_messages(asking: object) -> None:
    answers[:] = [False, False, False, True, True]
    CRM.policy(max_running=1, breaker=(2, 60, 0.2))
    for _ in range(5):
        asking.enqueue()  # type: ignore[attr-defined]

    drain()

    assert Message.objects.dead().count() == 3
    assert History.objects.filter(outcome="succeeded").count() == 2
    assert answers == []
    assert CRM.breakers() == []


def test_an_open_breaker_keeps_its_messages_and_leaves_other_channels_alone() -> None:
    answers[:] = [False]
    CRM.policy(max_running=1, breaker=(1, 60, 3600))
    ask.enqueue()
    drain()
    ask.enqueue()
    answers[:] = [True]
    ask.using(channel="other").enqueue()
    call_command("runworker", "--drain", "--channel", "other", verbosity=1)

    (seen,) = CRM.breakers()

    assert (seen.state, seen.failures, seen.most) == ("open", 1, 1)
    assert answers == []
    assert Message.objects.filter(channel="crm", state="ready").count() == 1


@task(channel="crm", max_attempts=1, atomic="repeatable read")
def fail_beside_another() -> None:
    """Another run fails after this transaction has begun."""
    answers.pop()
    with closing(connect("default", name="test")) as other:
        other.execute("UPDATE pgqueue_breaker SET failed_at = failed_at || now()")
    raise ConnectionError("the service is away")


@task(channel="crm", max_attempts=1, atomic="repeatable read", batch=10)
def fail_together_beside_another(calls: list[BatchCall[[]]]) -> None:
    answers.pop()
    with closing(connect("default", name="test")) as other:
        other.execute("UPDATE pgqueue_breaker SET failed_at = failed_at || now()")
    raise ConnectionError("the service is away")


@pytest.mark.parametrize(
    ("failing", "messages"), [(fail_beside_another, 1), (fail_together_beside_another, 2)]
)
def test_a_failure_beside_another_is_written_and_calls_no_service_again(
    failing: Any, messages: int
) -> None:
    answers[:] = [False]
    CRM.policy(breaker=(9, 60, 3600))
    ask.enqueue()
    drain()
    answers[:] = [True] * 12
    failing.enqueue_many([()] * messages)

    drain()

    assert len(answers) == 11
    assert len(Breaker.objects.get().failed_at) == 2 + messages
    dead = Message.objects.dead().filter(task=failing.name)
    assert [each.errors[0]["class"] for each in dead] == ["builtins.ConnectionError"] * messages


def test_a_deferral_is_no_failure() -> None:
    CRM.policy(breaker=(1, 60, 3600))
    put_off.enqueue()

    drain()

    assert not Breaker.objects.exists()


happened: list[str] = []
ended: list[Callable[[], None]] = []


def have_another_unlock() -> None:
    happened.append("asked")
    with closing(connect("default", name="test")) as other:
        unlock.using(connection=other).enqueue()


@task(channel="crm", max_attempts=1, atomic=True)
def fail_atomically() -> None:
    have_another_unlock()
    raise ConnectionError("the service is away")


@task(channel="crm", max_attempts=1, atomic=True, batch=2, batch_wait=5)
def fail_atomically_together(calls: list[BatchCall[[]]]) -> None:
    have_another_unlock()
    raise ConnectionError("the service is away")


@task(channel="crm", atomic=True)
def be_limited_atomically() -> None:
    have_another_unlock()
    raise RateLimited(retry_after=600)


@task(channel="crm", atomic=True, batch=2, batch_wait=5)
def be_limited_atomically_together(calls: list[BatchCall[[]]]) -> None:
    have_another_unlock()
    raise RateLimited(retry_after=600)


@task(channel="other")
def unlock() -> None:
    happened.append("went on")
    for end in ended:
        end()


@pytest.fixture
def operator() -> Iterator[Connection]:
    """A connection whose transaction `unlock` ends; a timer ends it after some seconds."""
    happened.clear()
    with closing(connect("default", name="test")) as connection:

        def end() -> None:
            connection.execute("ROLLBACK")

        def end_late() -> None:
            happened.append("waited")
            end()

        ended[:] = [end]
        timer = Timer(5, end_late)
        timer.start()
        yield connection
        timer.cancel()


@pytest.mark.parametrize(
    ("failing", "messages"), [(fail_atomically, 1), (fail_atomically_together, 2)]
)
def test_a_failure_in_a_transaction_waits_for_no_locked_breaker(
    operator: Connection, failing: Any, messages: int
) -> None:
    answers[:] = [False]
    CRM.policy(breaker=(9, 60, 3600))
    ask.enqueue()
    drain()
    operator.execute("BEGIN; UPDATE pgqueue_breaker SET failed_at = failed_at")
    failing.enqueue_many([()] * messages)

    call_command("runworker", "--drain", "--threads", "1", verbosity=1)

    assert happened == ["asked", "went on"]
    assert Message.objects.dead().filter(task=failing.name).count() == messages
    assert len(Breaker.objects.get().failed_at) == 1 + messages


@pytest.mark.parametrize(
    ("limited", "messages"), [(be_limited_atomically, 1), (be_limited_atomically_together, 2)]
)
def test_a_rate_limit_in_a_transaction_waits_for_no_locked_channel(
    operator: Connection, limited: Any, messages: int, caplog: pytest.LogCaptureFixture
) -> None:
    CRM.configure(age_after=None)
    operator.execute("BEGIN; UPDATE pgqueue_channel SET on_full = on_full")
    limited.enqueue_many([()] * messages)

    call_command("runworker", "--drain", "--threads", "1", verbosity=1)

    assert happened == ["asked", "went on"]
    assert Message.objects.filter(state="scheduled", failures=0).count() == messages
    assert "the pause by RateLimited failed after the commit: LockNotAvailable" in caplog.text
