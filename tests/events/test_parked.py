"""Events that a group has given up, and what becomes of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from pgqueue import Channel, consumer, publish, read
from pgqueue.database.connections import borrow
from pgqueue.events import consumers, dead_events
from pgqueue.events.consumers import Consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.models import Cursor, History, Message
from pgqueue.testing import run_all


@pytest.fixture(autouse=True)
def _no_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})


@pytest.fixture(autouse=True)
def _users_are_deleted() -> Any:
    yield
    User.objects.all().delete()


def declare(handler: Callable[[Any], Any], **options: Any) -> Consumer:
    given = {"start": "beginning", "max_attempts": 1, **options}
    return consumer("billing", **given)(handler)


def handle(billing: Consumer) -> None:
    """Have a reader look once, and go."""
    reader = GroupReader(billing)
    reader.tick()
    reader.finish()


@pytest.mark.parametrize("atomic", [False, True])
def test_an_event_that_fits_into_no_message_has_a_dead_letter_with_its_position(
    atomic: bool,
) -> None:
    def fails(event: Any) -> None:
        raise ValueError("no such order")

    with borrow("default") as connection:
        connection.execute("SELECT pgqueue_publish('order.paid', '{\"n\": 1e5000}')")
    publish("order.paid", 2)
    handle(declare(fails, atomic=atomic))

    large, small = Message.objects.order_by("id")
    assert (large.state, large.payload["args"]) == ("dead", ["billing", 1])
    assert small.payload["args"][1]["payload"] == 2
    assert Cursor.objects.get().position == 2


@pytest.mark.django_db(databases=["default", "second"])
def test_a_replay_reads_the_event_from_the_database_of_its_dead_letter() -> None:
    handled: list[Any] = []
    publish("order.paid", "of another log")
    publish("order.paid", 2, database="second")
    run_all(database="second")
    [event] = read(database="second")
    declare(lambda event: handled.append(event.payload))

    dead_events.handle_unread.using(database="second").enqueue("billing", event.position)
    run_all(database="second", raise_errors=True)

    assert handled == [2]


@pytest.mark.parametrize("atomic", [False, True])
def test_a_replay_of_an_atomic_groups_event_is_atomic(atomic: bool) -> None:
    def fails_behind_its_effect(event: Any) -> None:
        User.objects.create(username=f"{event.topic} {User.objects.count()}")
        raise ValueError("no such order")

    publish("order.paid")
    handle(declare(fails_behind_its_effect, atomic=atomic))
    assert User.objects.count() == (0 if atomic else 1)

    Channel("group:billing").replay()
    call_command("runworker", "--drain")

    assert Message.objects.get().state == "dead"
    # A replayed message runs again as often as it may fail; each has an effect, or none has.
    assert User.objects.exists() is not atomic


@pytest.mark.parametrize("atomic", [False, True])
def test_a_replay_that_succeeds_ends_the_dead_letter(atomic: bool) -> None:
    failing = [True]

    def fails_once(event: Any) -> None:
        if failing:
            raise ValueError(failing.pop())
        User.objects.create(username=event.payload["name"])

    publish("user.signed_up", {"name": "ada"})
    handle(declare(fails_once, atomic=atomic))
    Channel("group:billing").replay()
    call_command("runworker", "--drain")

    assert History.objects.get().outcome == "succeeded"
    assert User.objects.get().username == "ada"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "dead letter"),
        ({"on_failure": "stop"}, "the partition stops there"),
        ({"max_attempts": 2, "backoff": [60]}, "tried again in 60.0 s"),
        ({"max_attempts": 2, "backoff": [60], "batch": 5}, "each is tried by itself, now"),
    ],
)
def test_the_log_says_what_comes_next(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], said: str
) -> None:
    def fails(event: Any) -> None:
        raise ValueError("no such order")

    publish("order.paid")
    publish("order.paid")
    with caplog.at_level(logging.WARNING, "pgqueue"):
        handle(declare(fails, **options))

    position = Cursor.objects.get().position + 1
    event = f"order.paid at {1 if said.startswith(('dead', 'each')) else position}"
    what = f"{event} and 1 more" if "batch" in options else event
    assert caplog.messages[0] == f"{what} failed in the group billing: {said}"
