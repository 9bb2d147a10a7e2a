"""Errors in Sentry: one event for a dead letter, by the real SDK in a real worker.

It is set up as docs/guide/tracing.md has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgqueue.models import History, Message
from tests.processes import manage
from tests.telemetry import failing

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

Events = list[dict[str, Any]]


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Events]:
    """A function that runs a worker until nothing is left, and returns what Sentry was sent."""
    file = tmp_path / "events"

    def drain(*options: str) -> Events:
        ended = manage(
            *("runworker", "--drain", *options),
            DJANGO_SETTINGS_MODULE="tests.telemetry.tracked_settings",
            SENTRY_FILE=str(file),
        )
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    return drain


def frames(event: dict[str, Any]) -> list[str]:
    """Return the functions of an event's traceback."""
    return [each["function"] for each in event["exception"]["values"][-1]["stacktrace"]["frames"]]


def test_one_dead_letter_is_one_event_and_a_retry_is_none(report: Callable[..., Events]) -> None:
    dead = {
        failing.fail.enqueue(1).id: (failing.fail.name, 3),
        failing.fail.enqueue(2).id: (failing.fail.name, 3),
        failing.fail_atomically.enqueue().id: (failing.fail_atomically.name, 2),
        failing.fail_async.enqueue(3).id: (failing.fail_async.name, 2),
        failing.fail_as_django.enqueue().id: ("tests.telemetry.failing.fail_as_django", 1),
    }
    failing.recover.enqueue()

    events = report("--threads", "1")

    assert Message.objects.dead().count() == len(dead)
    assert History.objects.get().task == failing.recover.name
    assert sorted(each["tags"]["message_id"] for each in events) == sorted(dead)
    for event in events:
        task, attempts = dead[event["tags"]["message_id"]]
        assert event["level"] == "error"
        assert event["exception"]["values"][-1]["type"] == "ZeroDivisionError"
        assert frames(event) == [task.rpartition(".")[2], "divide"]
        assert event["tags"]["task"] == event["transaction"] == task
        assert event["tags"]["attempt"] == attempts
        assert event["fingerprint"] == ["{{ default }}", task]
        # What the run itself has noted, and nothing of the others in this thread.
        told = [each.get("message") for each in event.get("breadcrumbs", {}).get("values", [])]
        number = event["tags"].get("number")
        assert (number is None) == (task not in (failing.fail.name, failing.fail_async.name))
        assert [each for each in told if "about to" in str(each)] == (
            [f"about to divide {number}"] if task == failing.fail.name else []
        )


def test_a_coroutine_s_event_has_what_its_own_run_has_noted(report: Callable[..., Events]) -> None:
    results = [failing.fail_async.enqueue(number) for number in range(3)]

    events = report("--async", "4")

    noted = {each["tags"]["message_id"]: each["tags"]["number"] for each in events}
    assert noted == {result.id: number for number, result in enumerate(results)}
    assert [frames(each) for each in events] == [["fail_async", "divide"]] * 3
