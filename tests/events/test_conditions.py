"""Append conditions: one of two writers gets a conflict, and others are not held up."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import psycopg
import pytest
from django.db import transaction
from django.db.migrations.writer import OperationWriter
from psycopg.errors import (
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
    SerializationFailure,
)

from pgqueue import (
    NO_EVENT,
    Event,
    PositionAhead,
    PositionConflict,
    apublish,
    publish,
    publish_many,
    read,
)
from pgqueue.engine.sequence import catch_up
from pgqueue.exceptions import InvalidEvent
from pgqueue.models import AppendLock
from pgqueue.operations import IndexKeys
from tests.events.conftest import indexed_by_keys
from tests.factories import Connection, one
from tests.stepping import Step

Stepping = Callable[..., Step]
TOPIC, KEY = "order.paid", "7"
WRITERS, EACH = 4, 25


class Shipped(Event, topic="conditions.shipped", key="order"):
    order: int


@pytest.fixture(params=[False, True], ids=["without an index", "with an index"])
def _index(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[None]:
    """The log has the indexes of IndexKeys, or not: conditions mean the same."""
    with indexed_by_keys() if request.param else nullcontext():
        yield


def append(connection: Connection, expect: int | None = None, **options: Any) -> None:
    """Publish an event of the key on a session."""
    given = {"key": KEY, "expect": expect, "connection": connection, **options}
    publish(TOPIC, **given)


def payloads() -> list[Any]:
    return [each.payload for each in read()]


def conflict(call: Callable[..., Any], *given: Any, **options: Any) -> tuple[int, int | None]:
    """Return what was expected, and what was found instead."""
    with pytest.raises(PositionConflict) as raised:
        call(*given, **options)
    assert (raised.value.topic, raised.value.key) == (TOPIC, KEY)
    return raised.value.expected, raised.value.found


@pytest.mark.usefixtures("_index")
class TestExpect:
    def test_publishes_if_the_position_is_the_one_of_the_last_event(self) -> None:
        publish(TOPIC, 1, key=KEY, expect=NO_EVENT)
        (first,) = read()
        publish(TOPIC, 2, key=KEY, expect=first.position)

        assert payloads() == [1, 2]

    @pytest.mark.parametrize("has_position", [True, False])
    def test_is_a_conflict_if_another_event_has_come(self, has_position: bool) -> None:
        publish("order.paid.other", key=KEY)
        publish(TOPIC, 1, key=KEY)
        _, first = read()
        publish(TOPIC, 2, key=KEY)
        if has_position:
            read()

        found = first.position + 1 if has_position else None
        assert conflict(publish, TOPIC, 3, key=KEY, expect=first.position) == (2, found)
        assert conflict(publish, TOPIC, 3, key=KEY, expect=NO_EVENT) == (0, found)
        assert payloads() == [None, 1, 2]

    def test_is_a_conflict_if_the_event_is_another_one(self) -> None:
        publish(TOPIC, 1, key=KEY)
        publish(TOPIC, 2, key="other")
        read()

        assert conflict(publish, TOPIC, 3, key=KEY, expect=2) == (2, 1)

    def test_is_a_conflict_if_there_is_no_such_event(self) -> None:
        publish(TOPIC, 2, key="other")
        read()

        assert conflict(publish, TOPIC, key=KEY, expect=1) == (1, 0)

    def test_does_not_see_other_topics_and_keys(self) -> None:
        publish("order.placed", key=KEY)
        publish(TOPIC, key="8")
        publish(TOPIC)

        publish(TOPIC, "new", key=KEY, expect=NO_EVENT)

        assert payloads()[-1] == "new"

    def test_takes_the_key_and_the_topic_of_a_typed_event(self) -> None:
        publish(Shipped(order=7), expect=NO_EVENT)
        with pytest.raises(PositionConflict) as raised:
            publish(Shipped(order=7), expect=NO_EVENT)
        publish(Shipped(order=8), expect=NO_EVENT)

        assert (raised.value.topic, raised.value.key) == ("conditions.shipped", "7")
        assert len(read()) == 2

    def test_works_in_async_code(self) -> None:
        asyncio.run(apublish(TOPIC, key=KEY, expect=NO_EVENT))
        with pytest.raises(PositionConflict):
            asyncio.run(apublish(TOPIC, key=KEY, expect=NO_EVENT))
        with pytest.raises(PositionConflict):
            asyncio.run(apublish("other", if_none_since=(TOPIC, KEY, NO_EVENT)))

    def test_beyond_the_log_is_an_error_of_its_own(self) -> None:
        publish(TOPIC, key=KEY)
        read()

        with pytest.raises(PositionAhead) as raised:
            publish(TOPIC, key=KEY, expect=2)
        with pytest.raises(PositionAhead):
            publish(TOPIC, key=KEY, if_none_since=(TOPIC, "8", 2))

        assert (raised.value.after, raised.value.head) == (2, 1)

    def test_passes_if_retention_has_removed_the_event_and_no_later_one(
        self, connection: Connection
    ) -> None:
        publish(TOPIC, key=KEY)
        read()
        connection.execute("DELETE FROM pgqueue_event")
        connection.execute("INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', 9)")

        publish(TOPIC, 2, key=KEY, expect=1)

        assert conflict(publish, TOPIC, key=KEY, expect=1) == (1, None)
        assert [each.position for each in read(after=9)] == [10]

    def test_looks_into_all_partitions_of_the_log(self, connection: Connection) -> None:
        for position in (5, 1_000_005):
            connection.execute(
                "INSERT INTO pgqueue_event (position, topic, key, metadata, created_at) "
                "VALUES (%s, %s, %s, '{}', now())",
                [position, TOPIC, str(position)],
            )

        for position in (5, 1_000_005):
            publish(TOPIC, key=str(position), expect=position)
            with pytest.raises(PositionConflict):
                publish(TOPIC, key=str(position), expect=NO_EVENT)


@pytest.mark.usefixtures("_index")
class TestIfNoneSince:
    def test_publishes_if_no_event_came_after_the_position(self) -> None:
        publish(TOPIC, 1, key=KEY)
        publish("other", 2)
        read()

        publish("stock.sold", 3, if_none_since=(TOPIC, KEY, 2))
        publish("stock.sold", 4, if_none_since=(TOPIC, KEY, 1))

        assert payloads() == [1, 2, 3, 4]

    def test_is_a_conflict_if_one_came(self) -> None:
        publish(TOPIC, 1, key=KEY)
        read()

        assert conflict(publish, "a", if_none_since=(TOPIC, KEY, NO_EVENT)) == (0, 1)
        given = [("a", "b", 1), (TOPIC, KEY, 0)]
        assert conflict(publish, "a", key="b", expect=0, if_none_since=given) == (0, 1)
        assert payloads() == [1]

    def test_two_writers_that_look_at_each_others_events_do_not_both_pass(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        def sell(connection: Connection, own: str, others: str) -> None:
            publish("sold", key=own, if_none_since=("sold", others, 0), connection=connection)

        with connection.transaction():
            sell(connection, "a", "b")
            second = step(sell, other, "b", "a")
            second.waits()

        with pytest.raises(PositionConflict):
            second.result()
        assert [each.key for each in read()] == ["a"]


@pytest.mark.usefixtures("_index")
class TestTwoWriters:
    @pytest.mark.parametrize("used", [0, 1])
    def test_one_waits_for_the_other_and_gets_a_conflict(
        self, connection: Connection, other: Connection, step: Stepping, used: int
    ) -> None:
        if used:
            append(connection, NO_EVENT)
            read()
        with connection.transaction():
            append(connection, used)
            second = step(append, other, used)
            second.waits()

        assert conflict(second.result) == (used, None)
        assert len(read()) == used + 1

    def test_one_passes_if_the_other_is_rolled_back(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        with connection.transaction(force_rollback=True):
            append(connection, NO_EVENT, metadata={"by": 1})
            second = step(append, other, NO_EVENT, metadata={"by": 2})
            second.waits()
        second.result()

        assert [each.metadata for each in read()] == [{"by": 2}]

    def test_of_one_key_leave_no_gap_while_others_give_positions(
        self, connect: Callable[..., Connection]
    ) -> None:
        """Each writer appends the next number after the one that it has seen."""

        def write(connection: Connection) -> None:
            written = 0
            while written < EACH:
                catch_up(connection)
                (position, number) = one(
                    connection,
                    "SELECT coalesce(max(position), 0), coalesce(max(payload::int), 0) "
                    "FROM pgqueue_event WHERE topic = %s AND key = %s",
                    TOPIC, KEY,
                )  # fmt: skip
                with suppress(PositionConflict):
                    publish(TOPIC, number + 1, key=KEY, expect=position, connection=connection)
                    written += 1

        sessions = [connect() for _ in range(WRITERS)]
        with ThreadPoolExecutor() as threads:
            for each in [threads.submit(write, session) for session in sessions]:
                each.result(60)

        assert payloads() == list(range(1, WRITERS * EACH + 1))

    def test_of_other_keys_and_topics_wait_for_nobody(
        self, connection: Connection, other: Connection
    ) -> None:
        other.execute("SET lock_timeout = '2s'")
        with connection.transaction():
            append(connection, NO_EVENT)
            append(other, NO_EVENT, key="8")
            publish("order.placed", key=KEY, expect=NO_EVENT, connection=other)
            publish("a", if_none_since=("b", KEY, NO_EVENT), connection=other)

        assert len(read()) == 4

    def test_without_a_condition_wait_for_nobody_and_are_seen_if_they_were_committed_before(
        self, connection: Connection, other: Connection
    ) -> None:
        other.execute("SET lock_timeout = '2s'")
        with connection.transaction():
            append(connection, NO_EVENT)
            append(other)
            assert conflict(append, connection, NO_EVENT) == (0, None)

        assert len(read()) == 2

    @pytest.mark.parametrize("used", [0, 1])
    def test_fail_in_a_transaction_whose_snapshot_is_older(
        self, connection: Connection, other: Connection, used: int
    ) -> None:
        if used:
            append(other, NO_EVENT)
            read()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(SerializationFailure), connection.transaction():
            connection.execute("SELECT count(*) FROM pgqueue_event")
            append(other, used)
            append(connection, used)

        assert len(read()) == used + 1

    def test_with_an_older_snapshot_see_no_later_publisher_without_a_condition(
        self, connection: Connection, other: Connection
    ) -> None:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with connection.transaction():
            connection.execute("SELECT count(*) FROM pgqueue_event")
            append(other)
            append(connection, NO_EVENT)

        assert len(read()) == 2

    def test_fail_in_a_transaction_that_is_older_than_an_unused_lock_may_be(
        self, connection: Connection
    ) -> None:
        (definition,) = one(
            connection,
            "SELECT pg_get_functiondef(oid) FROM pg_proc "
            "WHERE proname = 'pgqueue_unmet_condition_v1'",
        )
        assert "interval '1 hour'" in definition
        younger = definition.replace("interval '1 hour'", "interval '0'")
        for level, is_refused in [
            (psycopg.IsolationLevel.REPEATABLE_READ, True),
            (psycopg.IsolationLevel.READ_COMMITTED, False),
        ]:
            connection.isolation_level = level
            with connection.transaction(force_rollback=True):
                connection.execute(younger)
                if is_refused:
                    with pytest.raises(SerializationFailure, match="too old"):
                        append(connection, NO_EVENT)
                else:
                    append(connection, NO_EVENT)


@pytest.mark.usefixtures("_index")
class TestATransaction:
    def test_does_not_count_its_own_events(self) -> None:
        publish(TOPIC, 1, key=KEY)
        (first,) = read()
        with transaction.atomic():
            publish(TOPIC, 2, key=KEY)
            with transaction.atomic():
                publish(TOPIC, 3, key=KEY, expect=first.position)
            publish(TOPIC, 4, key=KEY, expect=first.position)
            publish("a", 5, if_none_since=(TOPIC, KEY, first.position))

        assert payloads() == [1, 2, 3, 4, 5]

    def test_goes_on_after_a_conflict(self) -> None:
        publish(TOPIC, 1, key=KEY)
        read()
        with transaction.atomic():
            assert conflict(publish, TOPIC, key=KEY, expect=NO_EVENT) == (0, 1)
            publish(TOPIC, 2, key=KEY, expect=1)

        assert payloads() == [1, 2]

    def test_leaves_nothing_of_a_savepoint_that_is_rolled_back(
        self, connection: Connection, other: Connection
    ) -> None:
        other.execute("SET lock_timeout = '2s'")
        with connection.transaction():
            with connection.transaction(force_rollback=True):
                append(connection, NO_EVENT)
            append(other, NO_EVENT)
            assert conflict(append, connection, NO_EVENT) == (0, None)

        assert len(read()) == 1


class TestPlainSQL:
    def test_publishes_if_the_position_is_the_one_of_the_last_event(
        self, connection: Connection
    ) -> None:
        for payload, expect in ((1, 0), (2, 1)):
            connection.execute(
                'SELECT pgqueue_publish_if(%s, %s, %s, %s, \'{"by": "ada"}\')',
                [TOPIC, KEY, expect, str(payload)],
            )
            read()

        assert payloads() == [1, 2]
        assert read()[1].metadata == {"by": "ada"}

    def test_else_raises_and_publishes_nothing(self, connection: Connection) -> None:
        publish(TOPIC, 1, key=KEY)
        with pytest.raises(ObjectNotInPrerequisiteState, match="It has no position yet"):
            connection.execute("SELECT pgqueue_publish_if(%s, %s, 0)", [TOPIC, KEY])
        read()
        with pytest.raises(ObjectNotInPrerequisiteState, match="It is at position 1"):
            connection.execute("SELECT pgqueue_publish_if(%s, %s, 0)", [TOPIC, KEY])

        assert payloads() == [1]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ("'a', '', 0", "needs a key"),
            ("'a', 'b', -1", "is no position"),
            ("'a', 'b', NULL", "is no position"),
            ("'a', NULL, 0", "is no key"),
            ("NULL, 'b', 0", "is no topic"),
            ("'a b', 'b', 0", "is no topic"),
            ("'a', 'b', 0, metadata => '[]'", "JSON object"),
        ],
    )
    def test_refuses_invalid_arguments(
        self, connection: Connection, arguments: str, words: str
    ) -> None:
        with pytest.raises(InvalidParameterValue, match=words):
            connection.execute(f"SELECT pgqueue_publish_if({arguments})")


def pages_of_a_look(connection: Connection) -> int:
    """Return how many pages a publisher of a new key reads to see that there is no event."""
    (plan,) = one(
        connection,
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pgqueue_unmet_condition_v1("
        "'a', 'new', ARRAY['a'], ARRAY['new'], ARRAY[0::bigint], ARRAY[true])",
    )
    top = plan[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def test_an_index_finds_the_events_of_a_key_at_once(connection: Connection) -> None:
    publish_many([("a", None, f"key {number}") for number in range(20_000)])
    catch_up(connection)
    publish_many([("a", None, f"key {number}") for number in range(20_000)])  # in the inbox

    without = pages_of_a_look(connection)
    with indexed_by_keys():
        pages_of_a_look(connection)  # the first look reads the catalogues
        assert pages_of_a_look(connection) < 60 < without


class TestARefusal:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"expect": 0}, "expect=0: give the event a key="),
            ({"key": "a", "expect": -1}, "expect=-1"),
            ({"key": "a", "expect": True}, "expect=True"),
            ({"key": "a", "expect": 2**63}, "expect=9223372036854775808"),
            ({"if_none_since": ("a", "b")}, r"if_none_since=\('a', 'b'\)"),
            ({"if_none_since": ("a", "", 0)}, "the key must not be empty"),
            ({"if_none_since": ("a.*", "b", 0)}, r"topic='a\.\*'"),
            ({"if_none_since": ("a", 7, 0)}, "if_none_since: key=7"),
            ({"if_none_since": ("a", "b", -1)}, "if_none_since: position=-1"),
            ({"if_none_since": []}, r"if_none_since=\[\]"),
            ({"if_none_since": "a"}, "if_none_since='a'"),
            ({"if_none_since": [7]}, "if_none_since=7"),
        ],
    )
    def test_names_what_is_invalid(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(InvalidEvent, match=words):
            publish(TOPIC, **options)

        assert read() == []

    def test_survives_a_pickle(self) -> None:
        error = PositionConflict(TOPIC, KEY, 3, None)

        again = pickle.loads(pickle.dumps(error))  # noqa: S301

        assert vars(again) == vars(error)
        assert "it has no position yet" in str(again)


def test_a_publisher_without_conditions_locks_nothing() -> None:
    publish(TOPIC, key=KEY)

    assert not AppendLock.objects.exists()


def test_the_operation_is_written_into_a_migration() -> None:
    code, imports = OperationWriter(IndexKeys(), indentation=0).serialize()

    assert code.splitlines() == ["pgqueue.operations.IndexKeys(", "),"]
    assert imports == {"import pgqueue.operations"}
    assert IndexKeys().describe() == "Index the log by keys"
