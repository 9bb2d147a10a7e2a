"""`manage.py pgqueue_schedule`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from pgqueue.models import Message, Schedule

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def said(*arguments: str) -> str:
    """Return what the command says."""
    output = StringIO()
    call_command("pgqueue_schedule", *arguments, stdout=output)
    return output.getvalue().strip()


def add(name: str = "nightly", **columns: Any) -> None:
    given = {"task": "tests.jobs.add", "args": [1], **columns}
    Schedule.objects.create(name=name, **given)


def test_list_has_a_line_for_each() -> None:
    add(cron="0 3 * * *", timezone="Asia/Tokyo", next_at=NOON, error="ChannelFull: full")
    add("often", every=timedelta(minutes=5), paused=True, ticked_at=NOON)

    lines = said("list").splitlines()

    assert lines[0].split() == ["schedule", "next", "last", "task", "when"]
    assert lines[1].split(maxsplit=5) == [
        "nightly", "2026-06-01", "12:00:00+0000", "-", "tests.jobs.add", "0 3 * * * (Asia/Tokyo)",
    ]  # fmt: skip
    assert lines[2].split(maxsplit=5) == [
        "often", "paused", "2026-06-01", "12:00:00+0000", "tests.jobs.add", "every 0:05:00",
    ]  # fmt: skip
    assert lines[3] == "nightly: ChannelFull: full"


def test_list_may_be_json() -> None:
    add(every=timedelta(minutes=5), next_at=NOON)

    (found,) = json.loads(said("list", "--format", "json"))

    assert found == {
        "name": "nightly",
        "task": "tests.jobs.add",
        "cron": None,
        "every": 300.0,
        "timezone": "UTC",
        "args": [1],
        "kwargs": {},
        "missed": "once",
        "overlap": "allow",
        "paused": False,
        "declared": False,
        "next_at": "2026-06-01T12:00:00+00:00",
        "ticked_at": None,
        "error": None,
    }


def test_pausing_is_said_once() -> None:
    add(cron="@daily", next_at=NOON)

    assert said("pause", "nightly") == "Paused."
    assert said("pause", "nightly") == "It was paused already."
    assert Schedule.objects.get().paused
    assert said("resume", "nightly") == "Resumed."
    assert said("resume", "nightly") == "It was not paused."
    assert json.loads(said("pause", "nightly", "--format", "json")) == {
        "name": "nightly",
        "paused": True,
        "changed": True,
    }


def test_run_enqueues_one_message_now() -> None:
    add(cron="@daily", overlap="skip")

    first = said("run", "nightly")
    message = Message.objects.get()

    assert first == f"Enqueued message {message.pk}."
    assert message.metadata == {"schedule": "nightly"}
    assert said("run", "nightly") == f"Message {message.pk} of it waits or runs already."
    assert json.loads(said("run", "nightly", "--format", "json"))["came_of"] == "existing"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["pause", "gone"], "There is no schedule 'gone'"),
        (["run", "gone"], "There is no schedule 'gone'"),
        (["run", "unknown"], "No task is named 'tests.gone'"),
        (["run", "misfit"], "tests.jobs.add"),
        (["list", "--database", "nowhere"], "DATABASES has no 'nowhere'"),
        (["explode"], "invalid choice"),
    ],
)
def test_what_can_not_be_is_an_error(arguments: list[str], error: str) -> None:
    add("unknown", task="tests.gone", cron="@daily")
    add("misfit", args=[1, 2, 3], cron="@daily")

    with pytest.raises(CommandError, match=error):
        said(*arguments)

    assert not Message.objects.exists()


@pytest.mark.django_db(databases=["default", "second"])
def test_another_database_may_be_named() -> None:
    Schedule.objects.using("second").create(
        name="s", task="tests.jobs.add", args=[1], cron="@daily"
    )

    said("run", "s", "--database", "second")

    assert Message.objects.using("second").get().task == "tests.jobs.add"
    assert not Message.objects.exists()
