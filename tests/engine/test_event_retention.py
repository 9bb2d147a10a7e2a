"""The partitions of the log: made ahead of the sequencer, and dropped from the front."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from pgqueue import webhooks
from pgqueue.engine import (
    event_partitions,
    event_retention,
    groups,
    log,
    partitioning,
    publish,
    sequence,
)
from pgqueue.engine.log import Bounds
from pgqueue.engine.publish import NewEvent
from pgqueue.engine.values import Position
from pgqueue.events.reading import read
from pgqueue.exceptions import EventsRemoved
from pgqueue.models import Export
from tests.factories import Connection, exported, log_as_migrated, logged, one, subscribed
from tests.stepping import Step

DAY = timedelta(days=1)
MONTH = 30 * DAY
SIZE = event_partitions.SIZE
PATIENCE = "10ms"


@pytest.fixture(autouse=True)
def _as_migrated(connect: Callable[..., Connection]) -> Iterator[None]:
    yield
    log_as_migrated(connect())


@pytest.fixture(params=["by a session", "behind a pooler"])
def dropping(connection: Connection, request: pytest.FixtureRequest) -> Connection:
    if request.param == "behind a pooler":
        connection.prepare_threshold = None
    return connection


def fill(connection: Connection, *ages: timedelta) -> None:
    """Have full partitions of these ages, as far as anyone can tell."""
    for number, ago in enumerate(ages):
        logged(connection, max(1, number * SIZE), ago=ago + DAY)
        logged(connection, (number + 1) * SIZE - 1, ago=ago)


def tables(connection: Connection) -> list[str]:
    """Return the partitions that the log has."""
    rows = connection.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE NOT inhdetachpending "
        "AND inhparent = 'pgqueue_event'::regclass ORDER BY length(inhrelid::regclass::text), 1"
    )
    return [name for (name,) in rows]


def leftovers(connection: Connection) -> list[str]:
    """Return the tables that are named as partitions, and are none, or not for long any more."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relname ~ '^pgqueue_event_[0-9]+$' AND relkind = 'r' "
        "AND oid NOT IN (SELECT inhrelid FROM pg_inherits WHERE NOT inhdetachpending) ORDER BY 1"
    )
    return [name for (name,) in rows]


def group(connection: Connection, name: str, *positions: int) -> None:
    """Have a group whose partitions are at these positions."""
    with connection.transaction():
        groups.make_group(connection, name, partitions=len(positions), position=0)
    move(connection, name, *positions)


def move(connection: Connection, name: str, *positions: int) -> None:
    for number, position in enumerate(positions):
        connection.execute(
            'UPDATE pgqueue_cursor SET position = %s WHERE "group" = %s AND partition = %s',
            [position, name, number],
        )


def drop_all(connection: Connection, **ages: Any) -> int:
    """Drop until nothing is left to drop; return how many."""
    dropped = 0
    while count := event_retention.drop(connection, **{"keep": MONTH, **ages}):
        dropped += count
    return dropped


class TestDropping:
    def test_takes_the_full_partitions_whose_youngest_event_is_too_old(
        self, dropping: Connection
    ) -> None:
        fill(dropping, 90 * DAY, 31 * DAY, 29 * DAY)

        dropped = drop_all(dropping)

        assert dropped == 2
        assert tables(dropping) == ["pgqueue_event_2"]
        assert leftovers(dropping) == []

    def test_takes_one_at_a_time_from_the_front(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY, 80 * DAY, 70 * DAY)

        dropped = event_retention.drop(dropping, keep=MONTH)

        assert dropped == 1
        assert tables(dropping)[0] == "pgqueue_event_1"

    def test_takes_none_behind_one_that_is_kept(self, dropping: Connection) -> None:
        # One long transaction published all of the second before the first one's last.
        fill(dropping, 10 * DAY, 90 * DAY)

        assert drop_all(dropping) == 0
        assert tables(dropping) == ["pgqueue_event_0", "pgqueue_event_1"]

    def test_goes_by_numbers_not_by_their_spelling(self, dropping: Connection) -> None:
        for number in (9, 10):
            logged(dropping, number * SIZE + SIZE - 1, ago=90 * DAY)
        for number in (0, 1):
            dropping.execute(f"DROP TABLE pgqueue_event_{number}")

        event_retention.drop(dropping, keep=MONTH)

        assert tables(dropping) == ["pgqueue_event_10"]

    def test_takes_none_that_has_room_for_another_event(self, dropping: Connection) -> None:
        logged(dropping, SIZE - 2, ago=90 * DAY)

        assert drop_all(dropping) == 0

    def test_leaves_alone_what_is_not_a_partition_of_the_log(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY, 80 * DAY)
        dropping.execute("ALTER TABLE pgqueue_event DETACH PARTITION pgqueue_event_0")

        assert drop_all(dropping) == 1
        assert (tables(dropping), leftovers(dropping)) == ([], ["pgqueue_event_0"])
        assert one(dropping, "SELECT to_regclass('pgqueue_event_inbox') IS NOT NULL") == (True,)

    def test_needs_the_partitions_of_the_log_that_it_sees(
        self, connection: Connection, other: Connection
    ) -> None:
        fill(connection, 90 * DAY)
        other.execute("CREATE SCHEMA elsewhere")
        try:
            other.execute(
                "CREATE TABLE elsewhere.pgqueue_event (LIKE public.pgqueue_event) "
                "PARTITION BY RANGE (position); SET search_path = elsewhere, public"
            )

            assert drop_all(other) == 0
        finally:
            other.execute("RESET search_path; DROP SCHEMA elsewhere CASCADE")
        assert drop_all(connection) == 1


class TestOneThatCanNotBeDropped:
    def test_keeps_no_other(self, dropping: Connection, caplog: pytest.LogCaptureFixture) -> None:
        fill(dropping, 40 * DAY, 40 * DAY, 40 * DAY, DAY)
        dropping.execute("CREATE VIEW archive AS SELECT * FROM pgqueue_event_0")

        try:
            for _ in range(4):
                event_retention.drop(dropping, keep=MONTH)
        finally:
            dropping.execute("DROP VIEW archive")

        assert tables(dropping)[0] == "pgqueue_event_3"
        assert leftovers(dropping) == ["pgqueue_event_0"]
        assert one(dropping, "SELECT position FROM pgqueue_log_floor WHERE log = 'event'") == (
            3 * SIZE - 1,
        )
        assert "drop partitions fails because of pgqueue_event_0, and goes on" in caplog.text
        assert drop_all(dropping) == 1
        assert leftovers(dropping) == []


class TestTheFloor:
    def test_is_the_last_position_that_was_removed(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY, DAY)
        drop_all(dropping)

        assert log.bounds(dropping) == Bounds(floor=SIZE - 1, head=2 * SIZE - 1)

    def test_tells_those_who_read_from_behind_it(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY, DAY)

        drop_all(dropping)

        with pytest.raises(EventsRemoved, match=f"after={SIZE - 1}"):
            read(after=SIZE - 2)
        assert [each.position for each in read(after=SIZE - 1)] == [SIZE, 2 * SIZE - 1]

    def test_is_raised_before_anything_goes(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        fill(connection, 90 * DAY, DAY)

        with other.transaction():
            before = log.read(other, after=0, limit=9)
            dropping = step(event_retention.drop, connection, keep=MONTH)
            dropping.waits()
            with pytest.raises(EventsRemoved):
                read(after=0)

        assert before.events[0].position == 1
        assert (before.floor, dropping.result()) == (0, 1)

    def test_is_not_raised_where_a_partition_stays(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY)
        group(dropping, "slow", 5)

        drop_all(dropping)

        assert log.bounds(dropping).floor == 0

    @pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
    def test_tells_a_transaction_that_was_open_before(
        self, connection: Connection, other: Connection, isolation: str
    ) -> None:
        fill(connection, 90 * DAY, DAY)

        with other.transaction():
            # Its snapshot is older than the drop, but it has not read the log yet.
            other.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            other.execute("SELECT count(*) FROM pgqueue_group")
            drop_all(connection)
            found = log.read(other, after=0, limit=9)

        assert found.floor == SIZE - 1

    def test_tells_those_who_come_to_what_an_operator_has_archived(
        self, connection: Connection
    ) -> None:
        fill(connection, DAY, DAY, DAY)
        connection.execute("ALTER TABLE pgqueue_event DETACH PARTITION pgqueue_event_1")

        with pytest.raises(EventsRemoved, match=f"after={2 * SIZE - 1}"):
            read(after=SIZE - 2)

        assert [each.position for each in read(after=2 * SIZE - 1)] == [2 * SIZE, 3 * SIZE - 1]

    def test_is_where_positions_go_on_after_all_partitions(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY, 80 * DAY)
        drop_all(dropping)
        assert tables(dropping) == []
        publish.publish(dropping, NewEvent("a", "", None, "{}"))

        moved = sequence.sequence(dropping)

        assert moved == 1
        assert [each.position for each in read(after=2 * SIZE - 1)] == [2 * SIZE]
        assert tables(dropping) == ["pgqueue_event_2", "pgqueue_event_3"]


class TestAGroup:
    def test_keeps_what_one_of_its_partitions_has_not_passed(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY, 80 * DAY)
        group(dropping, "billing", SIZE - 1, SIZE - 2)

        dropped = [drop_all(dropping)]
        move(dropping, "billing", SIZE - 1, SIZE - 1)
        dropped += [drop_all(dropping)]

        assert dropped == [0, 1]
        assert tables(dropping) == ["pgqueue_event_1"]

    def test_keeps_nothing_once_it_is_deleted(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY)
        group(dropping, "gone", 0, 0)

        groups.delete(dropping, "gone")

        assert drop_all(dropping) == 1

    def test_keeps_nothing_that_is_older_than_the_limit(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY, 50 * DAY, 40 * DAY)
        group(dropping, "slow", 5)

        dropped = [drop_all(dropping, max_age=age * DAY) for age in (100, 60, 45)]

        assert dropped == [0, 1, 1]
        assert tables(dropping) == ["pgqueue_event_2"]

    def test_that_is_moved_back_meanwhile_keeps_what_it_moves_to(
        self, dropping: Connection, other: Connection
    ) -> None:
        fill(dropping, 90 * DAY)
        group(other, "slow", SIZE - 1)
        has = partitioning.Log.has

        def move_and_look(*given: Any, **options: Any) -> bool:
            groups.reset(other, "slow", 7)
            return has(*given, **options)

        with patch.object(partitioning.Log, "has", move_and_look):
            dropped = drop_all(dropping)

        assert dropped == 0
        assert log.bounds(dropping).floor == 0

    def test_that_is_a_webhook_keeps_nothing_once_it_is_disabled(
        self, connection: Connection
    ) -> None:
        webhooks.create("shop", "https://example.com/hooks")
        fill(connection, 40 * DAY)

        webhooks.pause("shop")
        waits = [event_retention.waits_for(connection, keep=MONTH)]
        webhooks.disable("shop")
        waits += [event_retention.waits_for(connection, keep=MONTH)]

        assert waits == [["subscription shop"], []]
        assert drop_all(connection) == 1

    def test_that_the_drop_waits_for_is_named(self, connection: Connection) -> None:
        fill(connection, 40 * DAY)
        group(connection, "slow", 5, SIZE - 1)
        group(connection, "quick", SIZE - 1)
        group(connection, "", 6)
        subscribed(connection, "late", position=7)
        subscribed(connection, "quick")

        assert event_retention.waits_for(connection, keep=MONTH) == [
            *("group slow", "subscription late", "the dispatch")
        ]
        assert event_retention.waits_for(connection, keep=50 * DAY) == []
        assert event_retention.waits_for(connection, keep=MONTH, max_age=35 * DAY) == []


class TestAnExport:
    def test_keeps_what_a_target_has_not_if_retention_is_told_to_wait(
        self, connection: Connection
    ) -> None:
        fill(connection, 90 * DAY, 80 * DAY, 70 * DAY)
        for name, position in (("/a", 3 * SIZE - 1), ("/b", 2 * SIZE - 2)):
            exported(connection, Position(3, 4), name=name)
            Export.objects.filter(target=name).update(event_position=position)

        assert event_retention.waits_for(connection, keep=MONTH, exports_first=True) == []
        assert drop_all(connection, exports_first=True) == 1
        waited_for = event_retention.waits_for(connection, keep=MONTH, exports_first=True)
        assert waited_for == ["export /b"]
        assert drop_all(connection, exports_first=True, max_age=75 * DAY) == 1
        assert drop_all(connection) == 1

    def test_keeps_all_before_the_first_one(self, connection: Connection) -> None:
        fill(connection, 90 * DAY)

        assert drop_all(connection, exports_first=True) == 0
        waited_for = event_retention.waits_for(connection, keep=MONTH, exports_first=True)
        assert waited_for == ["a first export"]

    def test_of_another_log_counts_for_nothing(self, connection: Connection) -> None:
        fill(connection, 90 * DAY)
        exported(connection, Position(3, 4))
        Export.objects.update(event_position=SIZE)

        assert drop_all(connection, exports_first=True) == 0
        Export.objects.update(event_position=SIZE - 1)
        assert drop_all(connection, exports_first=True) == 1


class TestASubscription:
    def test_keeps_what_it_has_not_passed_while_it_lags(self, dropping: Connection) -> None:
        fill(dropping, 90 * DAY, 80 * DAY)
        group(dropping, "", 2 * SIZE - 1)
        subscribed(dropping, "late", position=SIZE - 2)
        subscribed(dropping, "quick")

        dropped = [drop_all(dropping)]
        dropping.execute("UPDATE pgqueue_subscription SET follows = true")
        dropped += [drop_all(dropping)]

        assert dropped == [0, 2]

    def test_that_follows_keeps_what_the_dispatch_has_not_passed(
        self, dropping: Connection
    ) -> None:
        fill(dropping, 90 * DAY, 80 * DAY)
        group(dropping, "", SIZE - 1)
        subscribed(dropping, "quick")

        assert drop_all(dropping) == 1

    def test_needs_to_be_there_or_the_dispatch_keeps_nothing(self, dropping: Connection) -> None:
        # Where no worker runs any more, its cursor stands still.
        fill(dropping, 90 * DAY)
        group(dropping, "", 5)

        assert drop_all(dropping) == 1


class TestDroppingBeside:
    def test_for_a_reader_it_waits_and_others_go_on(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        fill(connection, 90 * DAY, DAY)
        logged(connection, 2 * SIZE)
        third.execute("SET lock_timeout = '1ms'")

        with other.transaction():
            other.execute("SELECT count(*) FROM pgqueue_event")
            dropping = step(event_retention.drop, connection, keep=MONTH)
            dropping.waits()
            publish.publish(third, NewEvent("a", "", None, "{}"))
            moved = sequence.sequence(third)
            found = log.read(third, after=2 * SIZE, limit=9)

        assert moved == 1
        assert [each.position for each in found.events] == [2 * SIZE + 1]
        assert dropping.result() == 1

    def test_for_who_reads_too_long_it_gives_up_and_goes_on_next_time(
        self, connection: Connection, other: Connection
    ) -> None:
        fill(connection, 90 * DAY, 80 * DAY)

        with patch.object(partitioning, "PATIENCE", PATIENCE), other.transaction():
            other.execute("SELECT count(*) FROM pgqueue_event")
            with pytest.raises(LockNotAvailable):
                drop_all(connection)
            floor = log.bounds(connection).floor

        assert floor == SIZE - 1
        assert drop_all(connection) == 2
        assert (tables(connection), leftovers(connection)) == ([], [])

    def test_where_another_drops_it_does_nothing(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        fill(connection, 90 * DAY)

        with third.transaction():
            third.execute("SELECT count(*) FROM pgqueue_event")
            first = step(event_retention.drop, connection, keep=MONTH)
            first.waits()
            second = event_retention.drop(other, keep=MONTH)

        assert (second, first.result()) == (None, 1)

    def test_and_a_drop_of_history_neither_waits_for_the_other(
        self, connection: Connection, other: Connection
    ) -> None:
        fill(connection, 90 * DAY)
        other.execute(partitioning.SQL["try_for_session"], {"table": "pgqueue_history"})

        assert event_retention.drop(connection, keep=MONTH) == 1


def test_positions_beyond_two_billion_are_read(connection: Connection) -> None:
    logged(connection, 2**31 + 5)

    found = log.read(connection, after=2**31 - 2, limit=9)

    assert [each.position for each in found.events] == [2**31 + 5]


class TestMaking:
    def test_has_one_beyond_the_one_that_is_being_filled(self, connection: Connection) -> None:
        logged(connection, 3 * SIZE + 5, ago=DAY)

        event_partitions.ensure(connection)

        assert tables(connection)[-1] == "pgqueue_event_4"
        assert event_partitions.ensure(connection) == 0

    def test_has_more_where_events_come_fast(self, connection: Connection) -> None:
        # Half a million in 15 s: four fill up in two minutes.
        logged(connection, 1, ago=timedelta(seconds=15))
        logged(connection, SIZE // 2)

        event_partitions.ensure(connection)

        assert tables(connection)[-1] in ("pgqueue_event_4", "pgqueue_event_5")
        assert timedelta(minutes=1) < event_partitions.lasting(connection) < timedelta(minutes=4)

    def test_has_ten_more_at_most(self, connection: Connection) -> None:
        logged(connection, 1)
        logged(connection, SIZE // 2)

        event_partitions.ensure(connection)

        assert tables(connection)[-1] == "pgqueue_event_10"

    def test_has_them_for_as_long_as_anyone_wants_in_an_empty_log(
        self, connection: Connection
    ) -> None:
        assert event_partitions.ensure(connection) == 0
        assert event_partitions.lasting(connection) > 30 * DAY

    def test_makes_them_as_the_migration_does(self, connection: Connection) -> None:
        migrated = shape(connection, 1)
        connection.execute("DROP TABLE pgqueue_event_1")

        event_partitions.ensure(connection)

        assert shape(connection, 1) == migrated

    def test_gives_way_where_another_session_has_just_made_one(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        connection.execute("DROP TABLE pgqueue_event_1")

        with connection.transaction():
            made = event_partitions.ensure(connection)
            second = step(event_partitions.ensure, other)
            second.waits()

        assert (made, second.result()) == (1, 0)


def shape(connection: psycopg.Connection[Any], number: int) -> object:
    """Return columns, constraints and indexes of a partition."""
    columns = connection.execute(
        "SELECT attname, atttypid, attnotnull, attcollation FROM pg_attribute "
        "WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        [f"pgqueue_event_{number}"],
    ).fetchall()
    indexes = connection.execute(
        "SELECT regexp_replace(indexdef, '.* USING', '') FROM pg_indexes "
        "WHERE tablename = %s ORDER BY 1",
        [f"pgqueue_event_{number}"],
    ).fetchall()
    return columns, indexes
