"""The days of history: made ahead by a duty, or by a settle that misses one; dropped in the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from psycopg import Error
from psycopg.errors import LockNotAvailable, ObjectNotInPrerequisiteState, QueryCanceled
from psycopg.types.json import Jsonb

from pgqueue.engine import lookup, partitioning, partitions, settle
from pgqueue.models import Channel, History, LogFloor
from pgqueue.options.retention import Retention
from pgqueue.states import Outcome
from tests.eventually import eventually
from tests.factories import Connection, done, one, past, run
from tests.stepping import Step

DAY = timedelta(days=1)


def all_for(keep: timedelta) -> Retention:
    """Keep everything for so long."""
    return dict.fromkeys(Outcome.values, keep)


MONTH = all_for(30 * DAY)


@pytest.fixture(autouse=True)
def _made_again(connect: Callable[..., Connection]) -> Iterator[None]:
    yield
    keeper = connect()
    for name in leftovers(keeper):
        keeper.execute(f"DROP TABLE {name}")
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

    def test_gives_way_where_another_session_has_just_made_the_type_of_the_table(
        self, connection: Connection
    ) -> None:
        # PostgreSQL looks for the table first, then for its type: the other may commit in between.
        drop(connection, today() + 14 * DAY)
        connection.execute(f"CREATE DOMAIN pgqueue_history_{today() + 14 * DAY:%Y%m%d} AS int")
        try:
            assert partitions.ensure(connection) == []
        finally:
            connection.execute(f"DROP DOMAIN pgqueue_history_{today() + 14 * DAY:%Y%m%d}")

        assert partitions.ensure(connection) == [today() + 14 * DAY]

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


class TestDropping:
    """Days go at the longest that anything is kept."""

    def test_takes_the_days_that_nothing_is_kept_of(self, connection: Connection) -> None:
        for ago in (2, 30, 31, 400):
            past(connection, ago)

        dropped = partitions.drop(connection, MONTH)

        assert dropped == [today() - 400 * DAY, today() - 31 * DAY]
        assert days(connection)[:2] == [today() - 30 * DAY, today() - 2 * DAY]
        assert leftovers(connection) == []
        assert partitions.drop(connection, MONTH) == []

    def test_takes_none_that_is_kept_in_one_channel_or_for_one_outcome(
        self, connection: Connection
    ) -> None:
        past(connection, 90)
        Channel.objects.create(name="audit", retention_discarded=100 * DAY)

        dropped = [
            partitions.drop(connection, {**MONTH, "expired": 100 * DAY}),
            partitions.drop(connection, MONTH),
        ]
        Channel.objects.update(retention_discarded=None)

        assert dropped == [[], []]
        assert partitions.drop(connection, MONTH) == [today() - 90 * DAY]

    def test_takes_days_in_which_nothing_is_any_more(self, connection: Connection) -> None:
        past(connection, 3)
        past(connection, 4)
        connection.execute("DELETE FROM pgqueue_history")
        eventually(lambda: is_vacuumed(connection), what="another session always has a snapshot")
        past(connection, 5)

        assert partitions.drop(connection, MONTH) == [today() - 4 * DAY, today() - 3 * DAY]
        assert days(connection)[0] == today() - 5 * DAY

    @pytest.mark.parametrize("is_pooled", [False, True])
    def test_begins_with_none_after_a_minute(self, connection: Connection, is_pooled: bool) -> None:
        past(connection, 91)
        past(connection, 90)
        if is_pooled:
            connection.prepare_threshold = None

        with patch.object(partitioning, "monotonic", count(step=40.0).__next__):
            in_a_minute = partitions.drop(connection, MONTH)

        assert in_a_minute == [today() - 91 * DAY]
        assert partitions.drop(connection, MONTH) == [today() - 90 * DAY]

    @pytest.mark.parametrize("is_pooled", [False, True])
    def test_says_first_up_to_which_transaction_history_is_gone(
        self, connection: Connection, is_pooled: bool
    ) -> None:
        past(connection, 91)
        [last] = one(connection, "SELECT max(txid) FROM pgqueue_history")
        past(connection, 29)
        if is_pooled:
            connection.prepare_threshold = None

        partitions.drop(connection, MONTH)
        partitions.drop(connection, MONTH)

        assert [*LogFloor.objects.values_list("log", "position")] == [("history", last)]

    def test_never_takes_a_day_that_is_written_to(self, connection: Connection) -> None:
        # A run that ended just before midnight is settled just after.
        before = days(connection)

        assert partitions.drop(connection, all_for(timedelta(microseconds=1))) == []
        assert days(connection) == before

    def test_takes_days_again_after_a_long_retention_was_short_for_a_time(
        self, connection: Connection
    ) -> None:
        past(connection, 50)

        assert partitions.drop(connection, all_for(100 * DAY)) == []
        assert partitions.drop(connection, MONTH) == [today() - 50 * DAY]
        past(connection, 50)
        assert partitions.drop(connection, all_for(100 * DAY)) == []

    def test_leaves_alone_what_another_session_has_detached(self, connection: Connection) -> None:
        archived = past(connection, 90)
        connection.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {archived}")

        assert partitions.drop(connection, MONTH) == []
        assert leftovers(connection) == [archived]

    def test_leaves_alone_what_was_once_to_go_and_then_is_detached_by_another_session(
        self, connection: Connection, other: Connection
    ) -> None:
        # Two that it marked: one could not be detached, of the other it died before it tried.
        archived = [past(connection, 91), past(connection, 90)]
        with patch.object(partitioning, "PATIENCE", "10ms"), other.transaction():
            other.execute("LOCK TABLE ONLY pgqueue_history IN SHARE UPDATE EXCLUSIVE MODE")
            with pytest.raises(LockNotAvailable):
                partitions.drop(connection, MONTH)
        after_a_failure = marked(connection)
        connection.execute(f"COMMENT ON TABLE {archived[1]} IS '{partitioning.MARK}'")

        kept = partitions.drop(connection, all_for(1000 * DAY))
        after_all = marked(connection)
        for name in archived:
            connection.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {name}")

        assert (after_a_failure, kept, after_all) == ([], [], [])
        assert partitions.drop(connection, MONTH) == []
        assert leftovers(connection) == archived

    def test_leaves_alone_what_another_session_detaches_while_it_is_at_others(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        first, archived = past(connection, 91), past(connection, 90)
        connection.execute(f"COMMENT ON TABLE {first} IS '{partitioning.MARK}'")
        connection.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {first} CONCURRENTLY")

        with third.transaction():
            third.execute(f"SELECT count(*) FROM {first}")  # noqa: S608
            dropping = step(partitions.drop, connection, MONTH)
            dropping.waits()
            other.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {archived} CONCURRENTLY")

        assert dropping.result() == [today() - 91 * DAY]
        assert marked(connection) == []
        assert partitions.drop(connection, MONTH) == []
        assert leftovers(connection) == [archived]

    def test_leaves_alone_what_another_session_detaches_just_before_it_would(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        archived = past(connection, 90)

        with other.transaction():
            other.execute("LOCK TABLE ONLY pgqueue_history IN SHARE UPDATE EXCLUSIVE MODE")
            dropping = step(partitions.drop, connection, MONTH)
            dropping.waits()
            while_it_waits = marked(other)
            other.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {archived}")

        assert (while_it_waits, dropping.result()) == ([], [])
        assert partitions.drop(connection, MONTH) == []
        assert leftovers(connection) == [archived]

    def test_leaves_alone_what_another_session_detaches_between_its_own_steps(
        self, connection: Connection, other: Connection
    ) -> None:
        archived = past(connection, 90)
        mark = partitioning._mark

        def mark_and_let_him(*arguments: Any) -> bool:
            is_marked = mark(*arguments)
            other.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {archived}")
            return is_marked

        with (
            patch.object(partitioning, "_mark", mark_and_let_him),
            pytest.raises(Error, match="is not a partition"),
        ):
            partitions.drop(connection, MONTH)

        assert partitions.drop(connection, MONTH) == []
        assert leftovers(connection) == [archived]

    def test_leaves_alone_what_another_session_detaches_concurrently_between_its_own_steps(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        archived = past(connection, 90)
        mark = partitioning._mark
        his: list[Step] = []

        def mark_and_let_him(*arguments: Any) -> bool:
            is_marked = mark(*arguments)
            detach = f"ALTER TABLE pgqueue_history DETACH PARTITION {archived} CONCURRENTLY"
            his.append(step(Connection.execute, other, detach))
            his[0].waits()
            return is_marked

        with third.transaction():
            third.execute("SELECT count(*) FROM pgqueue_history")
            with (
                patch.object(partitioning, "_mark", mark_and_let_him),
                pytest.raises(ObjectNotInPrerequisiteState, match="already pending detach"),
            ):
                partitions.drop(connection, MONTH)
            while_he_waits = marked(connection)
            meanwhile = partitions.drop(connection, MONTH)
        his[0].result()

        assert (while_he_waits, meanwhile) == ([], [])
        assert partitions.drop(connection, MONTH) == []
        assert leftovers(connection) == [archived]

    def test_goes_on_beside_another_day_that_was_left_halfway_detached(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        archived = past(connection, 2)
        past(connection, 90)
        with third.transaction():
            third.execute("SELECT count(*) FROM pgqueue_history")
            other.execute("SET statement_timeout = '100ms'")
            with pytest.raises(QueryCanceled):
                other.execute(
                    f"ALTER TABLE pgqueue_history DETACH PARTITION {archived} CONCURRENTLY"
                )

        dropped = partitions.drop(connection, MONTH)
        again = partitions.drop(connection, MONTH)

        assert (dropped, again) == ([today() - 90 * DAY], [])
        assert marked(connection) == []
        connection.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {archived} FINALIZE")
        assert one(connection, f"SELECT count(*) FROM {archived}") == (1,)  # noqa: S608

    @pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
    def test_means_days_of_utc_in_any_session(self, connection: Connection, zone: str) -> None:
        past(connection, 31)
        past(connection, 30)
        connection.execute(f"SET TIME ZONE '{zone}'; SET DateStyle = 'German, DMY'")

        dropped = partitions.drop(connection, MONTH)
        connection.execute("RESET TimeZone; RESET DateStyle")

        assert dropped == [today() - 31 * DAY]

    def test_needs_the_days_of_the_table_that_it_sees(
        self, connection: Connection, other: Connection
    ) -> None:
        past(connection, 90)
        other.execute("CREATE SCHEMA elsewhere")
        try:
            other.execute(
                "CREATE TABLE elsewhere.pgqueue_history (LIKE public.pgqueue_history) "
                "PARTITION BY RANGE (finished_at); SET search_path = elsewhere, public"
            )

            assert partitions.drop(other, MONTH) == []
        finally:
            other.execute("RESET search_path; DROP SCHEMA elsewhere CASCADE")


class TestOneThatCanNotBeDropped:
    @pytest.mark.parametrize("is_pooled", [False, True], ids=["by a session", "behind a pooler"])
    @pytest.mark.parametrize("number", [91, 90])
    def test_keeps_no_other_day(
        self,
        connection: Connection,
        caplog: pytest.LogCaptureFixture,
        is_pooled: bool,
        number: int,
    ) -> None:
        if is_pooled:
            connection.prepare_threshold = None
        names = {n: past(connection, n) for n in (92, 91, 90)}
        kept = names[number]
        connection.execute(f"CREATE VIEW archive AS SELECT * FROM {kept}")  # noqa: S608

        try:
            dropped = partitions.drop(connection, MONTH)
            again = partitions.drop(connection, MONTH)
        finally:
            connection.execute("DROP VIEW archive")

        assert dropped == [today() - n * DAY for n in (92, 91, 90) if n != number]
        assert again == []
        assert leftovers(connection) == [kept]
        assert f"drop partitions fails because of {kept}, and goes on" in caplog.text
        assert partitions.drop(connection, MONTH) == [today() - number * DAY]

    def test_or_made_keeps_no_other_day(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        soon = [today() + n * DAY for n in (5, 6, 7)]
        drop(connection, *soon)
        connection.execute(
            "CREATE TABLE pgqueue_history_others PARTITION OF pgqueue_history DEFAULT"
        )
        try:
            connection.execute(
                "INSERT INTO pgqueue_history_others SELECT * FROM jsonb_populate_record("
                "NULL::pgqueue_history_others, %s)",
                [Jsonb(_row(connection, soon[1]))],
            )

            made = partitions.ensure(connection)
        finally:
            connection.execute("DROP TABLE pgqueue_history_others")

        assert made == [soon[0], soon[2]]
        assert f"because of pgqueue_history_{soon[1]:%Y%m%d}" in caplog.text


def _row(connection: Connection, day: date) -> dict[str, Any]:
    """Return a row of history that ended on a day."""
    settle.complete(connection, [done(each) for each in run(connection, 1)])
    [row] = one(connection, "SELECT to_jsonb(h) FROM pgqueue_history h")
    return {**(row if isinstance(row, dict) else json.loads(row)), "finished_at": f"{day}T12:00Z"}


class TestDroppingBeside:
    """A report, a settle, another drop: none waits for it, and it waits for none long."""

    def test_for_a_report_it_waits_and_settles_go_on(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        past(connection, 90)
        held = run(third, 2)
        # It has its plans from before, as workers do.
        third.prepare_threshold = 0
        settle.complete(third, [done(held[0])])
        lookup.find(third, held[0].id)
        third.execute("SET lock_timeout = '1ms'")

        with other.transaction():
            other.execute("SELECT count(*) FROM pgqueue_history")
            dropping = step(partitions.drop, connection, MONTH)
            dropping.waits()
            settled = settle.complete(third, [done(held[1])])
            third.execute("SELECT count(*) FROM pgqueue_history")
            lookup.find(third, held[0].id)
            in_the_middle = days(third)[0]

        assert settled == {held[1].id}
        assert in_the_middle == today() - 90 * DAY
        assert dropping.result() == [today() - 90 * DAY]
        assert leftovers(connection) == []

    def test_for_a_settle_under_way_it_waits_and_others_go_on(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        past(connection, 90)
        one, two = run(third, 2)
        third.execute("SET lock_timeout = '1ms'")

        with other.transaction():
            settle.complete(other, [done(one)])
            dropping = step(partitions.drop, connection, MONTH)
            dropping.waits()
            settled = settle.complete(third, [done(two)])

        assert settled == {two.id}
        assert dropping.result() == [today() - 90 * DAY]
        assert History.objects.count() == 2

    def test_for_who_reads_too_long_it_gives_up_and_goes_on_next_time(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        past(connection, 90)
        past(connection, 91)
        (held,) = run(third)
        third.execute("SET lock_timeout = '1ms'")

        with (
            patch.object(partitioning, "PATIENCE", "10ms"),
            other.transaction(),
        ):
            other.execute("SELECT count(*) FROM pgqueue_history")
            with pytest.raises(LockNotAvailable):
                partitions.drop(connection, MONTH)
            while_it_is_half_done = settle.complete(third, [done(held)])
            with pytest.raises(LockNotAvailable):  # so long as he reads
                partitions.drop(connection, MONTH)

        assert while_it_is_half_done == {held.id}
        assert partitions.ensure(connection) == []
        assert partitions.drop(connection, MONTH) == [today() - n * DAY for n in (91, 90)]
        assert leftovers(connection) == []

    def test_goes_on_where_another_died_after_he_detached(self, connection: Connection) -> None:
        name = past(connection, 90)
        connection.execute(f"COMMENT ON TABLE {name} IS '{partitioning.MARK}'")
        connection.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {name} CONCURRENTLY")

        # Kept for longer by now: it is gone from history all the same.
        assert partitions.drop(connection, all_for(1000 * DAY)) == [today() - 90 * DAY]
        assert leftovers(connection) == []

    def test_where_another_drops_them_it_does_nothing(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        past(connection, 90)

        with third.transaction():
            third.execute("SELECT count(*) FROM pgqueue_history")
            first = step(partitions.drop, connection, MONTH)
            first.waits()
            second = partitions.drop(other, MONTH)
            made = partitions.ensure(other)

        assert (second, made) == (None, [])
        assert first.result() == [today() - 90 * DAY]
        assert partitions.drop(other, MONTH) == []

    def test_outlives_the_statement_timeout_that_workers_have(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        past(connection, 90)
        connection.execute("SET statement_timeout = '50ms'")

        with other.transaction():
            other.execute("SELECT count(*) FROM pgqueue_history")
            dropping = step(partitions.drop, connection, MONTH)
            dropping.waits()
            other.execute("SELECT pg_sleep(0.1)")

        assert dropping.result() == [today() - 90 * DAY]


class TestDroppingBehindATransactionPooler:
    @pytest.fixture
    def pooled(self, connection: Connection) -> Connection:
        connection.prepare_threshold = None
        return connection

    def test_changes_no_session(self, pooled: Connection) -> None:
        before = pooled.execute("SELECT name, setting FROM pg_settings").fetchall()
        past(pooled, 90)

        dropped = partitions.drop(pooled, MONTH)

        assert dropped == [today() - 90 * DAY]
        assert pooled.execute("SELECT name, setting FROM pg_settings").fetchall() == before
        assert one(
            pooled,
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        ) == (0,)

    def test_gives_up_soon_where_another_session_reads(
        self, pooled: Connection, other: Connection
    ) -> None:
        past(pooled, 90)

        with other.transaction():
            other.execute("SELECT count(*) FROM pgqueue_history")
            with pytest.raises(LockNotAvailable):
                partitions.drop(pooled, MONTH)

        assert partitions.drop(pooled, MONTH) == [today() - 90 * DAY]

    def test_has_dropped_the_days_before_one_that_another_session_reads(
        self, pooled: Connection, other: Connection
    ) -> None:
        past(pooled, 91)
        read = past(pooled, 90)

        with other.transaction():
            other.execute(f"SELECT count(*) FROM {read}")  # noqa: S608
            with pytest.raises(LockNotAvailable):
                partitions.drop(pooled, MONTH)
            while_he_reads = days(pooled)[0]

        assert while_he_reads == today() - 90 * DAY
        assert partitions.drop(pooled, MONTH) == [today() - 90 * DAY]

    def test_lets_settles_in_between_two_days(self, pooled: Connection, other: Connection) -> None:
        past(pooled, 91)
        past(pooled, 90)
        held = run(other, 2)
        other.execute("SET lock_timeout = '1ms'")
        drop_in_one = partitioning._drop_in_one

        def settle_and_drop(*arguments: Any) -> bool:
            settle.complete(other, [done(held.pop())])
            return drop_in_one(*arguments)

        with patch.object(partitioning, "_drop_in_one", settle_and_drop):
            dropped = partitions.drop(pooled, MONTH)

        assert (dropped, held) == ([today() - 91 * DAY, today() - 90 * DAY], [])

    @pytest.mark.parametrize("by", ["detaching", "dropping days, too"])
    def test_leaves_alone_what_another_session_takes_while_it_is_at_others(
        self, pooled: Connection, other: Connection, by: str
    ) -> None:
        archived = past(pooled, 90)
        drop_in_one = partitioning._drop_in_one

        def take_and_drop(*arguments: Any) -> bool:
            if by == "detaching":
                other.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {archived}")
            else:
                other.execute(partitioning.SQL["try_for_session"], {"table": partitions.TABLE})
            return drop_in_one(*arguments)

        with patch.object(partitioning, "_drop_in_one", take_and_drop):
            dropped = partitions.drop(pooled, MONTH)

        assert dropped == []
        assert one(pooled, "SELECT to_regclass(%s) IS NOT NULL", archived) == (True,)

    def test_leaves_alone_what_was_once_to_go_and_then_is_detached_by_another_session(
        self, pooled: Connection
    ) -> None:
        archived = past(pooled, 90)
        pooled.execute(f"COMMENT ON TABLE {archived} IS '{partitioning.MARK}'")

        kept = partitions.drop(pooled, all_for(1000 * DAY))
        pooled.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {archived}")

        assert (kept, partitions.drop(pooled, MONTH)) == ([], [])
        assert leftovers(pooled) == [archived]

    def test_goes_on_where_one_without_has_begun(
        self, pooled: Connection, other: Connection, third: Connection
    ) -> None:
        past(pooled, 90)
        name = past(pooled, 91)
        pooled.execute(f"COMMENT ON TABLE {name} IS '{partitioning.MARK}'")
        pooled.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {name} CONCURRENTLY")
        with patch.object(partitioning, "PATIENCE", "10ms"), other.transaction():
            other.execute("SELECT count(*) FROM pgqueue_history")
            with pytest.raises(LockNotAvailable):
                partitions.drop(third, {**MONTH})

        dropped = partitions.drop(pooled, MONTH)

        assert sorted(dropped) == [today() - 90 * DAY]
        assert leftovers(pooled) == []


def is_vacuumed(connection: Connection) -> bool:
    """Vacuum history; say whether nothing is left of it, as an autoanalyze may keep dead rows."""
    connection.execute("VACUUM pgqueue_history")
    size = "sum(pg_relation_size(inhrelid)) FROM pg_inherits"
    return one(connection, f"SELECT {size} WHERE inhparent = 'pgqueue_history'::regclass") == (0,)


def leftovers(connection: Connection) -> list[str]:
    """Return the tables of days that are no part of history."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relname ~ '^pgqueue_history_[0-9]{8}$' "
        "AND oid NOT IN (SELECT inhrelid FROM pg_inherits WHERE NOT inhdetachpending) ORDER BY 1"
    )
    return [name for (name,) in rows]


def marked(connection: Connection) -> list[str]:
    """Return the tables of days that are to be dropped."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE obj_description(oid, 'pg_class') = %s ORDER BY 1",
        [partitioning.MARK],
    )
    return [name for (name,) in rows]


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
        "SELECT replace(pg_get_constraintdef(oid), ' NOT VALID', '') FROM pg_constraint "
        "WHERE conrelid = %s::regclass AND contype = 'c' ORDER BY 1",
        [name],
    ).fetchall()
    indexes = connection.execute(
        "SELECT regexp_replace(indexdef, '.* USING', '') FROM pg_indexes "
        "WHERE tablename = %s ORDER BY 1",
        [name],
    ).fetchall()
    return columns, checks, indexes
