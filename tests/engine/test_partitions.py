"""The days of history: made ahead by a duty, or by a settle that finds one missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from pgqueue.engine import partitions, settle
from pgqueue.models import History
from tests.factories import Connection, done, run
from tests.stepping import Step

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _made_again(connect: Callable[..., Connection]) -> Iterator[None]:
    yield
    keeper = connect()
    for day in days(keeper):
        if not today() - DAY <= day <= today() + partitions.AHEAD:
            drop(keeper, day)
    partitions.ensure(keeper)


def today() -> date:
    return datetime.now(UTC).date()


def days(connection: Connection) -> list[date]:
    """Return the days that history has a partition for."""
    rows = connection.execute(
        "SELECT to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') FROM pg_inherits "
        "WHERE inhparent = 'pgqueue_history'::regclass ORDER BY 1"
    )
    return [day for (day,) in rows]


def drop(connection: Connection, *which: date) -> None:
    for day in which:
        connection.execute(f"DROP TABLE pgqueue_history_{day:%Y%m%d}")


class TestEnsuring:
    def test_makes_what_is_missing_from_yesterday_to_two_weeks_ahead(
        self, connection: Connection
    ) -> None:
        drop(connection, *days(connection))

        made = partitions.ensure(connection)

        assert made == days(connection) == [today() + n * DAY for n in range(-1, 15)]

    def test_makes_nothing_that_is_there(self, connection: Connection) -> None:
        drop(connection, today() + 3 * DAY, today() + 14 * DAY)

        made = partitions.ensure(connection)

        assert made == [today() + 3 * DAY, today() + 14 * DAY]
        assert partitions.ensure(connection) == []

    def test_may_look_less_far(self, connection: Connection) -> None:
        drop(connection, *days(connection))

        assert partitions.ensure(connection, ahead=DAY) == [today() + n * DAY for n in (-1, 0, 1)]

    def test_makes_them_as_the_migration_does(self, connection: Connection) -> None:
        by_migration, by_engine = today() + 1 * DAY, today() + 2 * DAY
        drop(connection, by_engine)

        partitions.ensure(connection)

        assert shape(connection, by_engine) == shape(connection, by_migration)

    # One is 14 hours ahead, one 11 behind: in one of them it is another day.
    @pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
    def test_makes_days_of_utc_in_any_session(self, connection: Connection, zone: str) -> None:
        drop(connection, today() - DAY, today(), today() + DAY)
        connection.execute(f"SET TIME ZONE '{zone}'")
        connection.execute("SET DateStyle = 'German, DMY'")

        made = partitions.ensure(connection)
        connection.execute("RESET ALL")

        assert made == [today() - DAY, today(), today() + DAY]
        row = connection.execute(
            "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = %s",
            [f"pgqueue_history_{today():%Y%m%d}"],
        ).fetchone()
        assert row
        assert f"'{today()} 00:00:00+00'" in row[0]
        assert f"'{today() + DAY} 00:00:00+00'" in row[0]

    def test_leaves_the_transaction_around_as_it_was(self, connection: Connection) -> None:
        drop(connection, today() + 14 * DAY)

        with connection.transaction(force_rollback=True):
            connection.execute("CREATE TEMPORARY TABLE effect ()")
            partitions.ensure(connection)
            connection.execute("SELECT 1 FROM effect")

        assert days(connection)[-1] == today() + 13 * DAY

    def test_waits_for_no_reader_and_makes_none_wait(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        drop(connection, today() + 14 * DAY)
        held = run(connection)
        connection.execute("SET lock_timeout = '1ms'")
        third.execute("SET lock_timeout = '1ms'")

        with other.transaction():
            other.execute("SELECT count(*) FROM pgqueue_history")  # a report, a dump
            with connection.transaction():
                partitions.ensure(connection)
                third.execute("SELECT count(*) FROM pgqueue_history")
                settled = settle.complete(third, [done(each) for each in held])

        assert len(settled) == 1

    def test_waits_for_no_settle(self, connection: Connection, other: Connection) -> None:
        drop(connection, today() + 14 * DAY)
        held = run(connection)
        connection.execute("SET lock_timeout = '1ms'")

        with other.transaction():
            settle.complete(other, [done(each) for each in held])
            made = partitions.ensure(connection)

        assert made == [today() + 14 * DAY]


class TestTwoAtOnce:
    def test_make_each_day_once(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        drop(connection, today() + 13 * DAY, today() + 14 * DAY)

        with connection.transaction():
            first = partitions.ensure(connection)
            second = step(partitions.ensure, other)
            second.waits()

        assert first == [today() + 13 * DAY, today() + 14 * DAY]
        assert second.result() == []
        assert days(connection)[-2:] == first

    def test_where_the_first_gives_up_the_second_goes_on(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        drop(connection, today() + 13 * DAY, today() + 14 * DAY)

        with connection.transaction(force_rollback=True):
            partitions.ensure(connection)
            second = step(partitions.ensure, other)
            second.waits()

        assert second.result() == [today() + 13 * DAY, today() + 14 * DAY]

    def test_settles_that_miss_today_are_written_both(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        one, two = run(connection, 2)
        drop(connection, today())

        with connection.transaction():
            settle.complete(connection, [done(one)])
            second = step(settle.complete, other, [done(two)])
            second.waits()

        assert second.result() == {two.id}
        assert History.objects.count() == 2


def shape(connection: Connection, day: date) -> object:
    """Return columns, constraints and indexes of a partition, without what names its day."""
    name = f"pgqueue_history_{day:%Y%m%d}"
    columns = connection.execute(
        "SELECT attname, atttypid, attnotnull, attcollation, pg_get_expr(adbin, adrelid) "
        "FROM pg_attribute a LEFT JOIN pg_attrdef d ON adrelid = attrelid AND adnum = attnum "
        "WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        [name],
    ).fetchall()
    checks = connection.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conrelid = %s::regclass AND contype = 'c' ORDER BY 1",
        [name],
    ).fetchall()
    indexes = connection.execute(
        "SELECT regexp_replace(indexdef, '.* USING', '') FROM pg_indexes "
        "WHERE tablename = %s ORDER BY 1",
        [name],
    ).fetchall()
    return columns, checks, indexes
