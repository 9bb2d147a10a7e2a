"""What a failed run leaves in the log and with its message."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from traceback import extract_tb
from typing import Any

import pytest
from django.core.management import call_command

from pgqueue import Retry, signals
from pgqueue.calls.outcomes import Ending
from pgqueue.models import Message
from pgqueue.tasks import Task, task

pytestmark = pytest.mark.django_db(transaction=True)

LOOP = ["--async", "2"]


@task(max_attempts=2, backoff=[0])
def fail() -> None:
    _helper()


@task(max_attempts=1, atomic=True)
def fail_atomically() -> None:
    _helper()


@task(max_attempts=1)
async def fail_async() -> None:
    await asyncio.sleep(0)
    _helper()


def _helper() -> None:
    raise ValueError("the user's")


@task(max_attempts=1, timeout=0.2)
def take_too_long() -> None:
    while True:
        time.sleep(0.01)


@task(max_attempts=1, timeout=0.2)
async def take_too_long_async() -> None:
    await asyncio.sleep(3600)


@task(max_attempts=1)
def take_a_number(number: int) -> None: ...


@task(max_attempts=1)
def return_an_object() -> object:
    return object()


@task(max_attempts=2)
def ask_for_a_retry() -> None:
    raise Retry(0.25)


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", "--threads", "1", *arguments, verbosity=1)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    logger = logging.getLogger("pgqueue")
    before = logger.level
    logger.setLevel(logging.INFO)
    yield caplog
    logger.setLevel(before)


def failures(log: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in log.records if "failed on attempt" in each.getMessage()]


def functions(record: logging.LogRecord) -> list[str]:
    assert record.exc_info
    return [frame.name for frame in extract_tb(record.exc_info[2])]


def stored() -> str:
    traceback: str = Message.objects.get().errors[-1]["traceback"]
    return traceback


def test_it_is_one_line_with_what_comes_next_then_the_traceback(
    log: pytest.LogCaptureFixture,
) -> None:
    result = fail.enqueue()

    drain()

    name = "tests.worker.test_failures_in_the_log.fail"
    assert [each.getMessage() for each in failures(log)] == [
        f"{name} #{result.id} failed on attempt 1: retried at once",
        f"{name} #{result.id} failed on attempt 2: dead letter",
    ]
    assert [each.levelname for each in failures(log)] == ["WARNING", "ERROR"]
    assert len([each for each in log.records if each.exc_info]) == 2


def test_it_says_when_it_is_retried(log: pytest.LogCaptureFixture) -> None:
    ask_for_a_retry.enqueue()

    drain()

    said = [each.getMessage().partition(": ")[2] for each in failures(log)]
    assert said == ["retried in 0.25 s", "dead letter"]


@pytest.mark.parametrize(
    ("failing", "arguments", "user"),
    [
        (fail, [], ["fail", "_helper"]),
        (fail_atomically, [], ["fail_atomically", "_helper"]),
        (fail_async, [], ["fail_async", "_helper"]),
        (fail_async, LOOP, ["fail_async", "_helper"]),
        (take_too_long, [], ["take_too_long"]),
        (take_too_long_async, [], ["take_too_long_async", "sleep"]),
        (take_too_long_async, LOOP, ["take_too_long_async", "sleep"]),
    ],
)
def test_its_traceback_begins_at_the_users_frame(
    failing: Task[..., Any], arguments: list[str], user: list[str], log: pytest.LogCaptureFixture
) -> None:
    failing.enqueue()

    drain(*arguments)

    assert functions(failures(log)[-1]) == user
    first, second = stored().splitlines()[:2]
    assert first == "Traceback (most recent call last):"
    assert second.endswith(f"in {user[0]}")
    assert __file__ in second


def test_one_without_a_frame_of_the_users_keeps_ours(log: pytest.LogCaptureFixture) -> None:
    take_a_number.enqueue(1)
    Message.objects.update(payload={"a": ["no number"]})

    drain()

    assert "decode" in functions(failures(log)[-1])
    assert "in decode" in stored()


def test_a_result_that_cannot_be_stored_keeps_our_frames(log: pytest.LogCaptureFixture) -> None:
    return_an_object.enqueue()

    drain()

    assert "encode_result" in functions(failures(log)[-1])


@pytest.mark.parametrize("failing", [fail, fail_async])
def test_all_frames_are_there_at_debug(
    failing: Task[..., Any], log: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("pgqueue").setLevel(logging.DEBUG)
    failing.enqueue()

    drain()

    assert functions(failures(log)[-1])[0] == "_run"
    assert "in _run\n" in stored()


@pytest.mark.parametrize("arguments", [[], LOOP])
@pytest.mark.parametrize("failing", [fail, fail_async])
def test_receivers_get_the_exception_with_its_whole_traceback(
    failing: Task[..., Any], arguments: list[str]
) -> None:
    heard: list[list[str]] = []

    def hear(ending: Ending, **kwargs: object) -> None:
        assert ending.error
        heard.append([frame.name for frame in extract_tb(ending.error.__traceback__)])

    failing.enqueue()
    signals.task_finished.connect(hear)
    try:
        drain(*arguments)
    finally:
        signals.task_finished.disconnect(hear)

    assert "ended" in heard[-1]
    assert heard[-1][-2:] == [failing.func.__name__, "_helper"]
