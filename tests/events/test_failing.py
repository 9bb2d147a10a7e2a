"""What a group does with an event that its handler fails with, and with those behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import django.db
import psycopg
import pytest
from django.contrib.auth.models import User

from pgqueue import consumer, publish, publish_many
from pgqueue.events import consumers, groups
from pgqueue.events.consuming import GroupReader
from pgqueue.models import Cursor, Message

Connection = psycopg.Connection[Any]
Read = Callable[..., GroupReader]


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(consumers, "_consumers", {})
    yield
    User.objects.all().delete()


@pytest.fixture
def read() -> Iterator[Read]:
    """A function that makes a reader of a group, whose steps the test takes."""
    readers: list[GroupReader] = []

    def read(handler: Callable[[Any], Any], **options: Any) -> GroupReader:
        given = {"start": "beginning", "backoff": [0], **options}
        readers.append(GroupReader(consumer("billing", **given)(handler)))
        return readers[-1]

    yield read
    for each in readers:
        each.finish()


def test_what_is_tried_again_is_a_warning_and_what_is_given_up_an_error(
    read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(event: Any) -> None:
        raise ValueError("never")

    publish("order.paid")
    reader = read(fails, max_attempts=2)
    for _ in range(2):
        reader.tick()

    told = [(each.levelname, each.getMessage().partition(": ")[2]) for each in caplog.records]
    assert told == [("WARNING", "tried again in 0.0 s"), ("ERROR", "dead letter")]


def test_it_holds_its_partition_for_five_errors_whatever_the_settings_say_of_messages(
    read: Read, settings: Any
) -> None:
    settings.PGQUEUE = {**settings.PGQUEUE, "MAX_ATTEMPTS": 50}
    tried: list[int] = []

    def fails(event: Any) -> None:
        tried.append(event.position)
        if event.position == 1:
            raise ValueError("never")

    publish_many([("order.paid", None)] * 2)
    reader = read(fails)
    for _ in range(6):
        reader.tick()

    assert tried == [1, 1, 1, 1, 1, 2]


def test_it_holds_those_behind_it_back_until_it_succeeds(read: Read) -> None:
    tried: list[int] = []

    def fails_twice(event: Any) -> None:
        tried.append(event.position)
        if tried.count(2) in (1, 2) and event.position == 2:
            raise ValueError("not yet")

    publish_many([("order.paid", None)] * 3)
    reader = read(fails_twice)
    for _ in range(3):
        reader.tick()

    assert tried == [1, 2, 2, 2, 3]
    (state,) = groups.states()
    assert (state.position, state.lag, state.error) == (3, 0, "")


def test_it_is_tried_by_itself_where_a_batch_failed(read: Read) -> None:
    tried: list[list[int]] = []

    def fails_with_the_second(events: list[Any]) -> None:
        tried.append([event.position for event in events])
        if 2 in tried[-1]:
            raise ValueError("the second")

    publish_many([("order.paid", None)] * 5)
    reader = read(fails_with_the_second, batch=3, max_attempts=2)
    for _ in range(10):
        reader.tick()

    assert tried == [[1, 2, 3], [1], [2], [2], [3], [4, 5]]
    assert Message.objects.dead().get().channel == "group:billing"
    assert Cursor.objects.get().position == 5


def test_it_stops_its_partition_and_no_other_until_it_is_resumed(read: Read) -> None:
    handled: list[int] = []
    failing = {1}

    def fails(event: Any) -> None:
        if event.position in failing:
            raise ValueError("no such order")
        handled.append(event.position)

    publish_many([("order.paid", None, f"order:{number}") for number in range(40)])
    reader = read(fails, partitions=4, max_attempts=1, on_failure="stop")
    for _ in range(5):
        reader.tick()
    stopped = Cursor.objects.get(is_stopped=True)
    assert (stopped.position, stopped.error) == (0, "ValueError: no such order")
    assert 0 < len(handled) < 39

    failing.clear()
    groups.resume("billing")
    for _ in range(5):
        reader._rebalance_at = 0.0
        reader.tick()

    assert sorted(handled) == list(range(1, 41))


def test_an_atomic_handlers_effects_are_there_once_however_often_it_failed(read: Read) -> None:
    failing = [True, True]

    def fails_behind_its_effect(event: Any) -> None:
        User.objects.create(username=event.payload)
        if failing and failing.pop():
            raise ValueError("behind its effect")

    publish("user.signed_up", "ada")
    publish("user.signed_up", "joan")
    reader = read(fails_behind_its_effect, atomic=True)
    for _ in range(5):
        reader.tick()

    assert sorted(User.objects.values_list("username", flat=True)) == ["ada", "joan"]
    assert Cursor.objects.get().position == 2


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 1024])
def test_each_key_is_in_one_partition_and_none_is_in_a_negative_one(
    connection: Connection, partitions: int
) -> None:
    rows = connection.execute(
        "SELECT pgqueue_partition_v1('key:' || n, %s) FROM generate_series(1, 20000) AS n",
        [partitions],
    ).fetchall()

    assert {number for (number,) in rows} == set(range(partitions))
    assert all(0 <= number < partitions for (number,) in rows)


def conflict(cursor: Any, code: str = "serialization_failure") -> None:
    """Raise what another transaction that was in the way raises."""
    cursor.execute(f"DO $$ BEGIN RAISE 'in the way' USING ERRCODE = '{code}'; END $$")


@pytest.mark.parametrize("code", ["serialization_failure", "deadlock_detected"])
@pytest.mark.parametrize("batch", [None, 10])
def test_a_conflict_with_other_transactions_is_not_charged(
    read: Read, caplog: pytest.LogCaptureFixture, batch: int | None, code: str
) -> None:
    tried: list[Any] = []

    def conflicts_at_first(given: Any) -> None:
        tried.append(given)
        User.objects.create(username=f"user {len(tried)}")
        if len(tried) <= 10:
            with django.db.connection.cursor() as cursor:
                conflict(cursor, code)

    publish("order.paid")
    reader = read(conflicts_at_first, atomic=True, batch=batch, max_attempts=1)
    reader.tick()

    assert len(tried) == 11
    assert [each.username for each in User.objects.all()] == ["user 11"]
    assert groups.states()[0].lag == 0
    assert not Message.objects.exists()
    assert caplog.records == []


def test_what_is_always_in_conflict_is_charged_after_ten_reruns(read: Read) -> None:
    tried: list[Any] = []

    def conflicts(event: Any) -> None:
        tried.append(event.position)
        with django.db.connection.cursor() as cursor:
            conflict(cursor)

    publish("order.paid")
    reader = read(conflicts, atomic=True, max_attempts=2)
    reader.tick()
    assert Cursor.objects.get(group="billing").failures == 1
    reader.tick()

    assert len(tried) == 2 * 11
    assert Message.objects.get(channel="group:billing").failures == 2


def test_a_reader_that_stops_amid_conflicts_charges_nothing(read: Read) -> None:
    def conflicts(event: Any) -> None:
        reader._stopping.set()
        with django.db.connection.cursor() as cursor:
            conflict(cursor)

    publish("order.paid")
    reader = read(conflicts, atomic=True, max_attempts=1)
    reader.tick()

    assert Cursor.objects.get(group="billing").failures == 0
    assert not Message.objects.exists()
