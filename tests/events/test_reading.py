"""Reading: events after a position, in the order of the log, and no silent gap."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction

from pgqueue.engine import log, sequence
from pgqueue.engine.culprits import WHOLE
from pgqueue.events.publishing import publish, publish_many
from pgqueue.events.reading import aread, read
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import (
    EventsRemoved,
    InvalidFilter,
    PGQueueError,
    PositionAhead,
    UnreadablePayload,
)
from pgqueue.models import Event, EventInbox
from pgqueue.options.filters import as_filter
from tests.events.conftest import indexed_by_keys
from tests.eventually import eventually
from tests.factories import Connection


def positions(**options: Any) -> list[int]:
    return [each.position for each in read(**options)]


def remove(connection: Connection, upto: int) -> None:
    """Remove events from the front of the log, as retention does."""
    connection.execute("DELETE FROM pgqueue_event WHERE position <= %s", [upto])
    connection.execute(
        "INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %s) "
        "ON CONFLICT (log) DO UPDATE SET position = excluded.position",
        [upto],
    )


class TestRead:
    def test_returns_what_is_after_a_position(self) -> None:
        publish_many([("a", number) for number in range(1, 6)])

        assert positions() == [1, 2, 3, 4, 5]
        assert positions(after=0) == [1, 2, 3, 4, 5]
        assert positions(after=3) == [4, 5]
        assert positions(after=5) == []

    def test_returns_as_many_as_the_limit_and_reads_on(self) -> None:
        publish_many([("a", number) for number in range(1, 8)])

        assert positions(limit=3) == [1, 2, 3]
        assert positions(limit=3, after=3) == [4, 5, 6]
        assert positions(limit=3, after=6) == [7]

    def test_returns_a_thousand_if_nobody_says_otherwise(self) -> None:
        publish_many([("a", number) for number in range(1001)])

        assert positions() == list(range(1, 1001))

    @pytest.mark.polled
    def test_waits_for_another_session_that_is_giving_positions(
        self, other: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may have what was published before, which is not to be seen until it commits."""
        waiting = threading.Event()
        monkeypatch.setattr("pgqueue.engine.sequence.sleep", lambda _: waiting.set())
        publish("a")

        def in_thread() -> list[int]:
            try:
                return positions()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(1) as thread:
            with other.transaction():
                other.execute(sequence.SQL["lead"])
                other.execute(sequence.SQL["move"], {**WHOLE._asdict(), "limit": 10})
                reading = thread.submit(in_thread)
                eventually(lambda: waiting.is_set() or reading.done())
            assert reading.result(10) == [1]

    @pytest.mark.polled
    def test_waits_no_longer_than_it_has_patience(
        self, connection: Connection, other: Connection
    ) -> None:
        publish("a")
        with other.transaction():
            other.execute(sequence.SQL["lead"])
            sequence.catch_up(connection, patience=0.05)

        assert positions() == [1]

    def test_finds_what_topics_and_conditions_say(self) -> None:
        publish_many(
            [
                ("order.paid", {"total": 5}),
                ("order.paid", {"total": 50}),
                ("order.sent", {"total": 50}),
                ("mail.sent", {"total": 50}),
            ]
        )

        assert positions(topics="order.*") == [1, 2, 3]
        assert positions(topics=["order.sent", "mail.*"]) == [3, 4]
        assert positions(topics="order.paid", where={"total__gte": 10}) == [2]
        assert positions(where={"total__gte": 10}, limit=2) == [2, 3]
        assert positions(where={"total__gte": 10}, after=2) == [3, 4]

    def test_looks_through_a_long_stretch_of_what_it_does_not_want(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "REACH", 10)
        publish_many([("b" if number % 40 == 39 else "a",) for number in range(1, 101)])

        assert positions(topics="b") == [39, 79]
        assert positions(topics="b", limit=1) == [39]
        assert positions(topics="b", limit=1, after=39) == [79]
        assert positions(topics="b", after=79) == []
        assert positions(topics="c") == []

    @pytest.mark.parametrize("reach", [1, 1_000_000])
    def test_finds_the_events_of_a_key(self, monkeypatch: pytest.MonkeyPatch, reach: int) -> None:
        monkeypatch.setattr(log, "REACH_OF_A_KEY", reach)
        publish_many([("a", 1, "7"), ("b", 2, "7"), ("a", 3, "8"), ("a", 4), ("a", 5, "7")])

        assert positions(key="7") == [1, 2, 5]
        assert positions(key="7", topics="a") == [1, 5]
        assert positions(key="7", after=1, limit=1) == [2]
        assert positions(key="8", where={"n": 1}) == []
        assert positions(key="") == [4]
        assert positions(key="9") == []
        assert [each.position for each in asyncio.run(aread(key="8"))] == [3]

    def test_finds_the_events_of_a_key_by_the_index(self, connection: Connection) -> None:
        publish_many([("a", None, str(number % 1000)) for number in range(20_000)])
        read(limit=1)
        wanted = as_filter("a", None, "7")
        given = {"after": 0, "limit": 9, "reach": 10**6, "size": 10**6, "bytes": 10**6}
        with indexed_by_keys():
            connection.execute("ANALYZE pgqueue_event")
            statement = "EXPLAIN " + log.SQL["read"].format(condition=wanted.sql)
            cursor = psycopg.ClientCursor(connection)
            plan = cursor.execute(statement, {**wanted.parameters, **given}).fetchall()

        assert "pgqueue_event_0_key_topic_position_idx" in str(plan)

    def test_of_an_empty_log_finds_nothing(self) -> None:
        assert read() == []

    def test_gives_positions_to_what_was_published(self) -> None:
        publish("a")

        assert positions() == [1]
        assert not EventInbox.objects.exists()

    @pytest.mark.polled
    def test_gives_no_positions_within_a_transaction(self) -> None:
        publish("a")
        read()
        publish("b")

        with transaction.atomic():
            publish("c")
            assert positions() == [1]

        assert EventInbox.objects.count() == 2
        assert [each.topic for each in read()] == ["a", "b", "c"]

    @pytest.mark.polled
    def test_gives_no_positions_where_django_is_not_in_autocommit(self) -> None:
        publish("a")
        transaction.set_autocommit(False)
        try:
            assert positions() == []
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

        assert positions() == [1]

    @pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
    def test_works_whatever_the_isolation_of_djangos_transactions_is(self, isolation: str) -> None:
        publish_many([("a",)] * 3)
        django = connections["default"]
        django.ensure_connection()
        with django.cursor() as cursor:
            cursor.execute(f"SET default_transaction_isolation = '{isolation}'")

        assert positions() == [1, 2, 3]
        assert positions(after=3) == []
        django.close()

    def test_in_async_code_is_the_same(self) -> None:
        publish_many([("a",), ("b",)])

        found = asyncio.run(aread(after=1, topics="b"))

        assert [each.position for each in found] == [2]


class TestABound:
    def test_below_which_events_were_removed_is_told(self, connection: Connection) -> None:
        publish_many([("a",)] * 5)
        read()
        remove(connection, 3)

        for after in (0, 1, 2):
            with pytest.raises(EventsRemoved, match="after=3") as raised:
                read(after=after)
            assert (raised.value.after, raised.value.floor) == (after, 3)
        assert positions(after=3) == [4, 5]

    def test_is_told_also_where_all_events_were_removed(self, connection: Connection) -> None:
        publish_many([("a",)] * 5)
        read()
        remove(connection, 5)

        with pytest.raises(EventsRemoved):
            read(after=4)
        assert read(after=5) == []
        publish("b")
        assert positions(after=5) == [6]

    def test_is_told_whatever_the_filter_would_have_found(self, connection: Connection) -> None:
        publish_many([("a",)] * 5)
        read()
        remove(connection, 3)

        with pytest.raises(EventsRemoved):
            read(after=2, topics="b", limit=1)

    def test_beyond_the_head_is_told(self) -> None:
        publish_many([("a",)] * 5)

        with pytest.raises(PositionAhead, match="ends at position 5, before 6") as raised:
            read(after=6)
        assert (raised.value.after, raised.value.head) == (6, 5)

    def test_of_an_empty_log_is_told(self) -> None:
        with pytest.raises(PositionAhead):
            read(after=1)

    def test_counts_what_is_published_but_not_sequenced(self) -> None:
        publish_many([("a",)] * 5)

        assert read(after=5) == []


class TestARefusal:
    @pytest.mark.parametrize(
        ("options", "culprit"),
        [
            *(({"after": value}, "after=") for value in (-1, None, "1", 1.5, True, 2**63)),
            *(({"limit": value}, "limit=") for value in (0, -1, None, "1", 1.5, True)),
            ({"database": 5}, "database="),
        ],
    )
    def test_names_what_can_not_be(self, options: dict[str, Any], culprit: str) -> None:
        with pytest.raises(ValueError, match=culprit):
            read(**options)

    @pytest.mark.parametrize(
        "options",
        [{"topics": "a b"}, {"topics": 5}, {"where": {"a": []}}, {"key": 7}, {"key": "x" * 1001}],
    )
    def test_names_a_filter_that_can_not_be(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidFilter):
            read(**options)

    def test_of_the_largest_position_is_none(self) -> None:
        with pytest.raises(PositionAhead):
            read(after=2**62)


class TestAnEvent:
    def test_whose_payload_is_not_known_here_says_so_when_it_is_asked_for(
        self, connection: Connection
    ) -> None:
        connection.execute("""SELECT pgqueue_publish('a', '{"@": "Moon", "value": 1}')""")

        (event,) = read()

        assert event.payload_json == '{"@": "Moon", "value": 1}'
        with pytest.raises(UnreadablePayload, match="the payload of a at 1"):
            _ = event.payload

    def test_is_a_row_of_the_log(self) -> None:
        publish("a", {"b": 1}, key="k")
        (event,) = read()

        row = Event.objects.get()

        assert (row.position, row.topic, row.key, row.payload) == (1, "a", "k", {"b": 1})
        assert row.created_at == event.created_at
        assert str(row) == str(event)

    def test_is_equal_to_itself_and_can_be_in_a_set(self) -> None:
        publish("a", [1])

        (event,), (again,) = read(), read()

        assert event.payload == [1]
        assert event == again
        assert len({event, again}) == 1


def test_it_says_that_the_tables_are_missing() -> None:
    with transaction.atomic():
        with connections["default"].cursor() as cursor:
            cursor.execute("ALTER TABLE pgqueue_event RENAME TO pgqueue_gone")
        with pytest.raises(PGQueueError, match="migrate"):
            read()
        transaction.set_rollback(True)


def test_numbers_find_decimals_in_whatever_way_they_are_stored() -> None:
    publish("typed", {"total": "150.50"})  # as typed events have it
    publish("tagged", {"total": Decimal("150.50")})
    publish("plain", {"total": 150.5})
    publish("none", {"total": "much"})
    publish("less", {"total": Decimal("9.99")})

    found = {
        lookup: [each.topic for each in read(where={lookup: 150.5})]
        for lookup in ("total", "total__gte", "total__ne")
    }

    all_three = ["typed", "tagged", "plain"]
    assert found == {"total": all_three, "total__gte": all_three, "total__ne": ["less"]}


def test_a_payload_that_is_nested_too_deeply_says_so_when_it_is_asked_for() -> None:
    event = RecordedEvent(1, "a", "", "[" * 200_000 + "]" * 200_000, "{}", datetime.now(UTC))

    with pytest.raises(UnreadablePayload, match="the payload of a at 1"):
        _ = event.payload


def test_no_more_than_so_many_bytes_of_payloads_are_read_at_once(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "BYTES", 1000)
    texts = [str(n) * 640 for n in range(5)]
    publish_many([("large", each) for each in texts])

    assert [each.payload for each in read()] == texts
    assert [each.payload for each in read(limit=3)] == texts[:3]

    stretch = log.read(connection, after=0, limit=5)
    assert ([each.position for each in stretch.events], stretch.upto) == ([1, 2], 2)
