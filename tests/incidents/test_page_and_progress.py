"""Marten skipped events in four ways, between the query of a page and the record of progress.

Its reader asked for a page, and noted the highest number that it had seen. It skipped events that
were committed between the two, and events of a projection that was reset, rebuilt or archived.

Here positions are given after the commit, without gaps, and the record of progress is fenced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection as django

from pgqueue import Rebuild
from pgqueue.engine import event_retention, publish
from pgqueue.engine.event_partitions import SIZE
from pgqueue.engine.publish import NewEvent
from pgqueue.events import consumers, groups
from pgqueue.events.consumers import consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.events.publishing import publish_many
from pgqueue.events.reading import read
from pgqueue.events.rebuilding import RebuildReader
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import EventsRemoved
from tests.events.test_groups import again, cursor, exhaust
from tests.factories import Connection, log_as_migrated, logged

DAY = timedelta(days=1)
LATE = NewEvent("order", "late", '"late"', "{}")


@pytest.fixture(autouse=True)
def _groups_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})


@pytest.fixture(autouse=True)
def _as_migrated(connect: Callable[..., Connection]) -> Iterator[None]:
    yield
    log_as_migrated(connect())


class Amid:
    """A handler that does something once, between the read of a page and the record of progress.

    The list `seen` has the payloads of the events, also where their transaction was rolled back.
    """

    def __init__(self, do: Callable[[], Any], *, at: Any = 0) -> None:
        self.seen: list[Any] = []
        self._do: Callable[[], Any] | None = do
        self._at = at

    def __call__(self, given: Any) -> None:
        events: list[RecordedEvent] = given if isinstance(given, list) else [given]
        for event in events:
            self.seen.append(event.payload)
            if event.payload == self._at and self._do:
                do, self._do = self._do, None
                elsewhere(do)


def elsewhere(work: Callable[[], Any]) -> None:
    """Do something in a thread of its own, on a connection of its own, to its end."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            django.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive() and not failed, failed


WAYS = [{}, {"batch": 2}, {"atomic": True}, {"atomic": True, "batch": 2}]
in_every_way = pytest.mark.parametrize("way", WAYS, ids=str)


def reader_of(handle: Amid, **options: Any) -> GroupReader:
    return GroupReader(consumer("g", start="beginning", **options)(handle))


@in_every_way
def test_an_event_that_is_committed_amid_a_page_is_handled(
    other: Connection, way: dict[str, Any]
) -> None:
    # Published before the page, and committed behind it.
    other.execute("BEGIN")
    publish.publish(other, LATE)
    publish_many([("order", n) for n in range(3)])
    handle = Amid(lambda: (other.execute("COMMIT"), publish_many([("order", 3)]), read()))
    reader = reader_of(handle, **way)

    exhaust(reader)
    reader.finish()

    assert sorted(map(str, handle.seen)) == ["0", "1", "2", "3", "late"]
    assert cursor().position == 5


@in_every_way
@pytest.mark.parametrize("to", ["beginning", 1])
def test_a_group_that_is_reset_amid_a_page_begins_there(way: dict[str, Any], to: Any) -> None:
    publish_many([("order", n) for n in range(4)])
    handle = Amid(lambda: (groups.reset("g", to), publish_many([("order", 4)])), at=2)
    reader = reader_of(handle, **way)

    for _ in range(3):
        again(reader)
        exhaust(reader)
    reader.finish()

    first = 0 if to == "beginning" else to
    assert handle.seen.count(2) == 2, "it went on behind its page"
    assert handle.seen[-5 + first :] == list(range(first, 5))
    assert cursor().position == 5


@in_every_way
def test_a_rebuild_that_begins_amid_a_page_has_every_event(way: dict[str, Any]) -> None:
    publish_many([("order", n) for n in range(4)])
    handle = Amid(lambda: (groups.rebuild("g"), publish_many([("order", 4)])), at=2)
    anew: list[Any] = []

    def store(given: Any) -> None:
        if not made.is_rebuilding:
            handle(given)
            return
        events = given if isinstance(given, list) else [given]
        anew.extend(each.payload for each in events)

    handing_over = Rebuild(begin=lambda: None, hand_over=lambda: None)
    made = consumer("g", start="beginning", rebuild=handing_over, **way)(store)
    live, rebuild = GroupReader(made), RebuildReader(made)

    for _ in range(3):
        again(live)
        exhaust(live)
        again(rebuild)
        exhaust(rebuild)
    for each in (live, rebuild):
        each.finish()

    assert sorted(set(handle.seen)) == list(range(5))
    assert anew == list(range(5))
    assert cursor().position == 5


@in_every_way
def test_a_partition_is_not_dropped_amid_the_page_that_ends_it(
    connection: Connection, other: Connection, way: dict[str, Any]
) -> None:
    dropped: list[int | None] = []
    place(connection)
    handle = Amid(lambda: dropped.append(event_retention.drop(other, keep=DAY)), at=SIZE - 1)
    reader = reader_of(handle, **way)

    exhaust(reader)
    reader.finish()
    after = event_retention.drop(other, keep=DAY)

    assert (dropped, after) == ([0], 1)
    assert handle.seen == [SIZE - 2, SIZE - 1, SIZE, SIZE + 1]


@in_every_way
def test_a_partition_that_is_dropped_by_force_amid_a_page_is_told(
    connection: Connection, other: Connection, way: dict[str, Any]
) -> None:
    """EVENT_MAX_AGE ends the wait for the group. The reader gets an error where events are gone."""
    place(connection)
    forced: dict[str, Any] = {"keep": DAY, "max_age": DAY}
    handle = Amid(lambda: event_retention.drop(other, **forced), at=SIZE - 2)
    reader = reader_of(handle, **{**way, **({"batch": 1} if way.get("batch") else {})})

    told = 0
    for _ in range(5):
        again(reader)
        try:
            exhaust(reader)
        except EventsRemoved:
            told += 1
    reader.finish()

    is_whole = handle.seen == [SIZE - 2, SIZE - 1, SIZE, SIZE + 1]
    assert is_whole or told, f"events were skipped without an error: {handle.seen}"


def place(connection: Connection) -> None:
    """Have two old events at the end of a partition, and two at the begin of the next one."""
    for position in (SIZE - 2, SIZE - 1, SIZE, SIZE + 1):
        logged(connection, position, ago=90 * DAY if position < SIZE else timedelta())
    connection.execute("UPDATE pgqueue_event SET topic = 'order', payload = to_jsonb(position)")
    connection.execute(
        "INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %s) "
        "ON CONFLICT (log) DO UPDATE SET position = excluded.position",
        [SIZE - 3],
    )
    groups.make("g", start=SIZE - 3)
