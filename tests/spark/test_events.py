"""The event log is read as of where it ended: each event once, or an error. Without Spark."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgqueue.arrow import events
from pgqueue.arrow.events import Range, divided
from pgqueue.arrow.options import read_options
from pgqueue.arrow.planning import Part, plan
from pgqueue.arrow.reading import BY_POSITION, batches, query
from pgqueue.arrow.tables import EVENT
from pgqueue.spark import DataLoss, InvalidOption, OtherCluster, TableChanged
from tests.eventually import eventually
from tests.factories import Connection
from tests.spark.conftest import Read
from tests.spark.log import LOCK, positions, publish, raise_floor, store
from tests.spark.test_reading import AWKWARD

MOMENT = datetime(2026, 11, 24, 10, tzinfo=UTC)


def found(read: Read, **given: str) -> list[int]:
    """Return the positions that a read finds, in the order of its parts."""
    rows: list[int] = read("events", columns="position", **given)["position"].to_pylist()
    return rows


def planned(url: str, **given: str) -> list[tuple[Any, Part]]:
    options = read_options({"url": url, "table": "events", **given})
    return [(options, part) for part in plan(options)]


def rows(parts: list[tuple[Any, Part]]) -> list[dict[str, Any]]:
    return [row for each in parts for batch in batches(*each) for row in batch.to_pylist()]


class TestARead:
    @pytest.mark.parametrize("count", ["1", "3", "64"])
    def test_in_any_number_of_partitions_has_each_event_once(
        self, read: Read, connection: Connection, count: str
    ) -> None:
        store(connection, 50)

        assert sorted(found(read, numPartitions=count)) == list(range(1, 51))

    def test_has_what_was_published_before(self, read: Read, connection: Connection) -> None:
        publish(connection, 3)

        assert found(read) == [1, 2, 3]
        assert positions(connection) == [1, 2, 3]

    def test_ends_where_the_log_did_when_it_was_planned(
        self, url: str, connection: Connection
    ) -> None:
        store(connection, 4)
        parts = planned(url, numPartitions="2")
        store(connection, 5)

        assert [row["position"] for row in rows(parts)] == [1, 2, 3, 4]

    def test_of_an_empty_log_has_no_rows(self, read: Read) -> None:
        assert found(read) == []

    def test_gives_what_postgresql_has(self, read: Read, connection: Connection) -> None:
        payloads = [None, {"a": [1, "ü\n"]}, "text", 2**70, [], False]
        for text, payload in zip(AWKWARD, payloads * 9, strict=False):
            connection.execute(
                "INSERT INTO pgqueue_event_inbox (topic, key, payload, metadata) "
                "VALUES ('t', %s, %s, %s)",
                [text, None if payload is None else json.dumps(payload), json.dumps({"k": text})],
            )

        got = read("events").to_pylist()

        expected = connection.execute(
            "SELECT position, topic, key, payload::text, metadata::text, created_at "
            "FROM pgqueue_event ORDER BY position"
        ).fetchall()
        assert [tuple(row.values()) for row in got] == expected
        assert [row["key"] for row in got] == AWKWARD
        assert [json.loads(row["metadata"]) for row in got] == [{"k": each} for each in AWKWARD]

    def test_touches_only_the_partitions_of_its_positions(
        self, url: str, connection: Connection
    ) -> None:
        raise_floor(connection, 999_989)
        store(connection, 20)
        parts = planned(url, numPartitions="2")

        plans = []
        for options, part in parts:
            assert part.positions
            text = query(options, EVENT, events.rows_after(part.positions, None), BY_POSITION)
            explained = connection.execute(b"EXPLAIN " + text.as_bytes(connection)).fetchall()
            plans.append(str(explained))

        assert [row["position"] for row in rows(parts)] == list(range(999_990, 1_000_010))
        assert "pgqueue_event_0" in plans[0]
        assert "pgqueue_event_1" not in plans[0]
        assert "pgqueue_event_0" not in plans[1]

    def test_is_divided_into_even_ranges(self) -> None:
        assert divided(Range(5, 15), 3) == [Range(5, 8), Range(8, 11), Range(11, 15)]
        assert divided(Range(0, 2), 64) == [Range(0, 1), Range(1, 2)]
        assert divided(Range(7, 7), 4) == []


class TestASelection:
    @pytest.mark.parametrize(
        ("topic", "expected"),
        [
            ("order.paid", ["order.paid"]),
            ("order.*", ["order.paid", "order.sent"]),
            ("order.**", ["order.line.added", "order.paid", "order.sent"]),
            ('["user.new", "*.sent"]', ["order.sent", "user.new"]),
            ("**", ["a'%s", "order.line.added", "order.paid", "order.sent", "user.new"]),
            ("a'%s", ["a'%s"]),
            ("a'%s.*", []),
            ("[]", []),
        ],
    )
    def test_is_by_topics_and_patterns(
        self, read: Read, connection: Connection, topic: str, expected: list[str]
    ) -> None:
        for each in ("order.paid", "order.sent", "order.line.added", "user.new", "a'%s"):
            publish(connection, topic=each)

        assert sorted(read("events", topic=topic)["topic"].to_pylist()) == expected

    def test_is_by_keys(self, read: Read, connection: Connection) -> None:
        for key in ("a", "b", "c"):
            publish(connection, 2, key=key)

        assert found(read, key='["a", "c"]') == [1, 2, 5, 6]
        assert found(read, key="b", topic="order.*", after="3") == [4]

    def test_is_by_positions(self, read: Read, connection: Connection) -> None:
        store(connection, 10)

        assert found(read, after="4", before="8") == [5, 6, 7]
        assert found(read, after="8") == [9, 10]
        assert found(read, before="3") == [1, 2]
        assert found(read, after="10") == found(read, before="1") == []

    def test_is_by_times_though_events_are_not_in_their_order(
        self, read: Read, url: str, connection: Connection
    ) -> None:
        for minute in (0, 2, 1, 4, 3, 5):
            publish(connection, at=MOMENT + timedelta(minutes=minute))
        since, until = (str(MOMENT + timedelta(minutes=each)) for each in (2, 5))

        assert found(read, since=since, until=until) == [2, 4, 5]
        # It does not read the others.
        [(_, part)] = planned(url, since=since, until=until)
        assert part.positions == Range(1, 5)
        assert found(read, until=str(MOMENT)) == []

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"topic": "order.**.x"}, "option topic: topics='order.\\*\\*.x': it must be words"),
            ({"topic": "a..b"}, "option topic: .*it must be words"),
            ({"channel": "a"}, "The table events takes no option channel"),
            ({"after": "-1"}, "after is '-1'; it must be a position"),
            ({"before": "9" * 19}, "before is .* it must be a position"),
            ({"after": "3", "before": "3"}, r"after \(3\) must be less than before \(3\)"),
            ({"table": "history", "after": "3"}, "The table history takes no option after"),
            ({"table": "history", "topic": "a"}, "The table history takes no option topic"),
        ],
    )
    def test_that_is_wrong_is_named(self, given: dict[str, str], said: str) -> None:
        with pytest.raises(InvalidOption, match=said):
            read_options({"table": "events", **given})


class TestLoss:
    def test_while_it_is_read_is_an_error(self, url: str, connection: Connection) -> None:
        store(connection, 5)
        [(options, part)] = planned(url)
        reading = batches(options, part)

        assert next(reading).num_rows == 5
        raise_floor(connection, 1)

        with pytest.raises(TableChanged, match="removed events up to position 1 after this read"):
            list(reading)

    def test_between_plan_and_read_is_an_error_of_what_was_lost(
        self, url: str, connection: Connection
    ) -> None:
        store(connection, 10)
        first, second = planned(url, numPartitions="2")
        raise_floor(connection, 5)

        assert len(rows([second])) == 5
        with pytest.raises(TableChanged):
            rows([first])

    def test_is_seen_whatever_isolation_the_database_has(
        self, url: str, connection: Connection
    ) -> None:
        store(connection, 5)
        strict = make_conninfo(url, options="-c default_transaction_isolation=serializable")
        [(options, part)] = planned(strict)
        reading = batches(options, part)
        next(reading)
        raise_floor(connection, 1)

        with pytest.raises(TableChanged):
            list(reading)

    def test_before_the_read_is_none_unless_a_position_is_asked_for(
        self, read: Read, connection: Connection
    ) -> None:
        store(connection, 5)
        connection.execute("DELETE FROM pgqueue_event WHERE position <= 3")
        raise_floor(connection, 3)

        assert found(read) == found(read, after="3") == [4, 5]
        with pytest.raises(DataLoss, match="up to position 3, so reading after 2 misses some"):
            found(read, after="2")

    def test_of_the_end_of_the_log_is_an_error(self, url: str, connection: Connection) -> None:
        store(connection, 5)
        parts = planned(url)
        connection.execute("DELETE FROM pgqueue_event WHERE position > 3")

        with pytest.raises(OtherCluster, match="log ends at position 3 here, before 5"):
            rows(parts)
        with pytest.raises(OtherCluster, match="ends at position 3 here, before 4"):
            planned(url, after="4")


class TestPositions:
    """They are given by whoever reads, if it can."""

    def test_are_not_given_where_only_reading_is_possible(
        self, read: Read, url: str, connection: Connection
    ) -> None:
        store(connection, 2)
        publish(connection, 3)
        standby = make_conninfo(url, options="-c default_transaction_read_only=on")

        assert len(rows(planned(standby))) == 2
        assert found(read) == [1, 2, 3, 4, 5]

    def test_are_not_given_by_a_role_that_may_only_read(
        self, url: str, connection: Connection
    ) -> None:
        store(connection, 2)
        publish(connection, 3)
        role = f"reader_{connection.info.dbname}"
        connection.execute(f"CREATE ROLE {role}")
        try:
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
            limited = make_conninfo(url, options=f"-c role={role}")

            assert len(rows(planned(limited))) == 2
        finally:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")

    def test_that_another_session_gives_are_waited_for(
        self, url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(connection, 3)
        tries: list[object] = []
        monkeypatch.setattr("pgqueue.engine.sequence.sleep", tries.append)
        with psycopg.connect(url) as other, ThreadPoolExecutor() as pool:
            other.execute(LOCK)
            reading = pool.submit(planned, url)
            eventually(lambda: len(tries) > 2)
            other.rollback()

            assert len(rows(reading.result(30))) == 3

    def test_are_not_waited_for_for_ever(
        self, url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(connection, 3)
        monkeypatch.setattr(events, "PATIENCE", 0.05)
        with psycopg.connect(url) as other:
            other.execute(LOCK)

            assert rows(planned(url)) == []
