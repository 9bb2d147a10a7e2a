"""What workers have counted is added up, and is counted once whenever it is read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection as django_connection

from pgqueue.engine import lease, run_statistics
from pgqueue.engine.run_statistics import (
    BOUNDS,
    BUCKETS,
    HOUR,
    MINUTE,
    OTHER,
    Counts,
)
from pgqueue.models import Statistic, Tally, TallyBatch, Total
from tests.eventually import eventually
from tests.factories import Connection, run

DAY = timedelta(days=1)


def counted(channel: str = "mail", task: str = "send", **counts: float) -> Counts:
    histogram = [0] * BUCKETS
    histogram[3] = int(counts.get("succeeded", 0))
    zeros = dict.fromkeys(Counts._fields[2:10], 0)
    given = {**zeros, "channel": channel, "task": task, **counts}
    return Counts(**given, waits=histogram, runs=histogram)  # type: ignore[arg-type]


def add(connection: Connection, counts: list[Counts]) -> None:
    run_statistics.add(connection, counts, source=uuid4(), batch=1)


def _waiting(pids: list[int]) -> int:
    """Return how many of these sessions wait for a lock."""
    with django_connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s) "
            "AND wait_event_type = 'Lock'",
            [pids],
        )
        [count] = cursor.fetchone()
    return int(count)


def age(connection: Connection, by: timedelta) -> None:
    connection.execute("UPDATE pgqueue_tally SET at = at - %s", [by])


class TestTenants:
    def of(self, tenant: str, succeeded: int = 1) -> Counts:
        return counted(succeeded=succeeded)._replace(tenant=tenant)

    def told(self, connection: Connection) -> dict[str, int]:
        return {each.tenant: each.succeeded for each in run_statistics.tenant_totals(connection)}

    def test_are_added_up_beside_the_totals_of_all(self, connection: Connection) -> None:
        add(connection, [self.of("north", 2), self.of("south", 3), counted(succeeded=4)])
        add(connection, [counted(task="other", failed=5)._replace(tenant="north")])

        run_statistics.fold(connection, tenants=9)

        [north, south] = run_statistics.tenant_totals(connection)
        assert (north.tenant, north.succeeded, north.failed) == ("north", 2, 5)
        assert (south.tenant, south.succeeded, south.failed) == ("south", 3, 0)
        assert [each.succeeded for each in run_statistics.totals(connection)] == [0, 9]

    def test_beyond_the_limit_are_counted_together(self, connection: Connection) -> None:
        add(connection, [self.of(name) for name in ("a", "b", "c", "d")])
        run_statistics.fold(connection, tenants=2)
        add(connection, [self.of(name, 10) for name in ("0", "b", "d", OTHER)])
        run_statistics.fold(connection, tenants=2)

        assert self.told(connection) == {"a": 1, "b": 11, OTHER: 32}

    def test_never_have_fewer_runs_while_they_are_added_up(self, connection: Connection) -> None:
        seen: dict[str, int] = {}
        for name in ("d", "c", "b", "a"):
            add(connection, [self.of(name), self.of("d")])
            for fold in (False, True):
                if fold:
                    run_statistics.fold(connection, tenants=2)
                now = self.told(connection)
                assert all(now.get(each, 0) >= number for each, number in seen.items())
                seen = now

        assert seen == {"c": 1, "d": 5, OTHER: 2}

    def test_are_not_counted_without_a_limit(self, connection: Connection) -> None:
        add(connection, [self.of("north")])

        run_statistics.fold(connection)

        assert self.told(connection) == {}
        assert [each.succeeded for each in run_statistics.totals(connection)] == [1]

    def test_are_forgotten_after_thirty_days_without_a_run(self, connection: Connection) -> None:
        add(connection, [self.of("north"), self.of("south")])
        run_statistics.fold(connection, tenants=9)
        connection.execute(
            "UPDATE pgqueue_tenant_total SET counted_at = counted_at - %s WHERE tenant = 'north'",
            [31 * DAY],
        )

        run_statistics.forget(connection)

        assert self.told(connection) == {"south": 1}


class TestABucket:
    @pytest.mark.parametrize(
        ("seconds", "bucket"),
        [(-1, 0), (0, 0), (0.0009, 0), (0.0011, 1), (0.003, 2), (1.5, 11), (10**9, BUCKETS - 1)],
    )
    def test_has_what_its_bound_allows(self, seconds: float, bucket: int) -> None:
        assert run_statistics.bucket(seconds) == bucket
        if bucket < len(BOUNDS):
            assert seconds <= BOUNDS[bucket]
        if bucket:
            assert seconds > BOUNDS[bucket - 1]

    def test_is_where_a_quantile_is_found(self) -> None:
        histogram = [0, 90, 0, 10, *([0] * (BUCKETS - 4))]

        assert run_statistics.quantile([0] * BUCKETS, 0.5) is None
        assert run_statistics.quantile(histogram, 0.45) == pytest.approx(0.0015)
        assert BOUNDS[2] < (run_statistics.quantile(histogram, 0.95) or 0) <= BOUNDS[3]


class TestABatch:
    """What a worker sends again, since it got no answer."""

    def test_is_stored_once_also_after_it_was_added_up(self, connection: Connection) -> None:
        source = uuid4()

        for _ in range(2):
            run_statistics.add(connection, [counted(succeeded=5)], source=source, batch=1)
        run_statistics.fold(connection)
        run_statistics.add(connection, [counted(succeeded=5)], source=source, batch=1)
        run_statistics.add(connection, [counted(succeeded=2)], source=source, batch=2)
        add(connection, [counted(succeeded=1)])

        assert [each.succeeded for each in run_statistics.totals(connection)] == [8]

    def test_waits_for_the_session_that_may_still_commit_it(
        self, connect: Callable[..., Connection], connection: Connection
    ) -> None:
        source, counts, other = uuid4(), [counted(succeeded=5)], connect()
        with ThreadPoolExecutor() as pool:
            with connection.transaction():
                run_statistics.add(connection, counts, source=source, batch=1)
                again = pool.submit(run_statistics.add, other, counts, source=source, batch=1)
                eventually(lambda: _waiting([other.info.backend_pid]) == 1)
            again.result(timeout=10)

        assert [each.succeeded for each in run_statistics.totals(connection)] == [5]

    def test_is_forgotten_with_its_source(self, connection: Connection) -> None:
        left, gone, old = uuid4(), uuid4(), uuid4()
        for source in (left, gone, old):
            run_statistics.add(connection, [counted(succeeded=1)], source=source, batch=1)
        connection.execute(
            "UPDATE pgqueue_tally_batch SET at = at - %s WHERE source = %s", [3 * DAY, old]
        )

        run_statistics.leave(connection, gone)
        removed = run_statistics.forget(connection)

        assert removed == 1
        assert list(TallyBatch.objects.values_list("source", flat=True)) == [left]


class TestRunsThatWereLost:
    def test_are_counted_by_who_takes_their_messages_away(
        self, connection: Connection, other: Connection
    ) -> None:
        over = timedelta(seconds=-1)
        run(other, 2, channel="mail", task="send", lease=over)
        [stopped] = run(other, channel="mail", task="stop", lease=over)
        connection.execute(
            "UPDATE pgqueue_message SET cancel_requested_at = statement_timestamp() WHERE id = %s",
            [stopped.id],
        )

        lease.rescue(connection, max_lost=3)
        run_statistics.fold(connection)

        found = {each.task: each for each in run_statistics.totals(connection)}
        assert (found["send"].lost, found["stop"].lost) == (2, 1)
        assert (found["send"].total, sum(found["send"].runs)) == (0, 0)

    def test_are_not_those_that_had_not_begun(
        self, connection: Connection, other: Connection
    ) -> None:
        over = timedelta(seconds=-1)
        run(other, channel="mail", task="send", lease=over)
        connection.execute("UPDATE pgqueue_message SET lost = 1, started_at = NULL")

        rescued = lease.rescue(connection, max_lost=3)

        assert [each.state for each in rescued] == ["ready"]
        assert run_statistics.totals(connection) == []


class TestFolding:
    def test_adds_up_by_minute_by_hour_and_for_ever(self, connection: Connection) -> None:
        for failed in (1, 2):
            add(connection, [counted(succeeded=5, failed=failed, waited=1.5, ran=2)])
        add(connection, [counted(task="other", dead=1)])

        assert run_statistics.fold(connection) == 3

        assert not Tally.objects.exists()
        periods = Statistic.objects.filter(task="send").values_list("period", "succeeded", "failed")
        assert sorted(periods) == [("hour", 10, 3), ("minute", 10, 3)]
        total = Total.objects.get(task="send")
        assert (total.succeeded, total.failed, total.waited, total.ran) == (10, 3, 3, 4)
        assert total.waits == [0, 0, 0, 10, *([0] * (BUCKETS - 4))]

    def test_changes_nothing_of_what_is_read(self, connection: Connection) -> None:
        add(connection, [counted(succeeded=5)])
        run_statistics.fold(connection)
        add(connection, [counted(succeeded=2), counted(task="other", failed=3)])
        before = (
            run_statistics.totals(connection),
            run_statistics.by_task(connection, period=MINUTE, span=DAY),
            run_statistics.over_time(connection, period=HOUR, span=DAY),
        )

        run_statistics.fold(connection)

        assert run_statistics.totals(connection) == before[0]
        assert run_statistics.by_task(connection, period=MINUTE, span=DAY) == before[1]
        assert run_statistics.over_time(connection, period=HOUR, span=DAY) == before[2]
        assert [(each.task, each.total) for each in before[1]] == [("send", 7), ("other", 3)]
        assert sum(each.total for each in before[2]) == 10

    def test_beside_another_counts_nothing_twice(
        self, connect: Callable[..., Connection], connection: Connection
    ) -> None:
        other = connect()
        add(connection, [counted(succeeded=5)])
        with connection.transaction():
            assert run_statistics.fold(connection) == 1
            # It sees the row, and what was not committed of the totals it does not.
            assert [each.succeeded for each in run_statistics.totals(other)] == [5]

        assert [each.succeeded for each in run_statistics.totals(other)] == [5]
        assert run_statistics.fold(other) == 0

    def test_at_the_same_time_as_another_waits_and_adds_nothing_again(
        self, connect: Callable[..., Connection], connection: Connection
    ) -> None:
        others = [connect(), connect()]
        pids = [each.info.backend_pid for each in others]
        add(connection, [counted(succeeded=5), counted(task="other", failed=2)])
        with ThreadPoolExecutor(len(others)) as pool:
            with connection.transaction():
                run_statistics.fold(connection)
                folding = [pool.submit(run_statistics.fold, each) for each in others]
                eventually(lambda: _waiting(pids) == len(others))
            folded = [each.result() for each in folding]

        assert folded == [0, 0]
        totals = {each.task: each.total for each in run_statistics.totals(connection)}
        assert totals == {"send": 5, "other": 2}

    def test_goes_in_steps(self, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_statistics, "LIMIT", 2)
        for _ in range(3):
            add(connection, [counted(succeeded=1)])

        assert [run_statistics.fold(connection) for _ in range(2)] == [2, 1]
        assert Total.objects.get().succeeded == 3


class TestForgetting:
    def test_is_of_minutes_after_days_and_of_all_after_a_month(
        self, connection: Connection
    ) -> None:
        for task, days in (("old", 31), ("recent", 3)):
            add(connection, [counted(task=task, succeeded=1)])
            age(connection, timedelta(days=days))
            run_statistics.fold(connection)
        add(connection, [counted(task="new", succeeded=1)])
        run_statistics.fold(connection)

        run_statistics.forget(connection)

        kept = Statistic.objects.values_list("task", "period")
        assert sorted(kept) == [("new", "hour"), ("new", "minute"), ("recent", "hour")]
        assert sorted(Total.objects.values_list("task", flat=True)) == ["new", "recent"]


class TestReading:
    def test_is_of_the_last_periods_and_of_one_channel(self, connection: Connection) -> None:
        add(connection, [counted(succeeded=1), counted("else", succeeded=7)])
        age(connection, timedelta(hours=2))
        add(connection, [counted(succeeded=2)])
        hour = timedelta(hours=1)

        recent = run_statistics.by_task(connection, period=MINUTE, span=hour)
        of_one = run_statistics.by_task(connection, period=MINUTE, span=DAY, channel="mail")
        most = run_statistics.by_task(connection, period=MINUTE, span=DAY, limit=1)

        assert [(each.channel, each.total) for each in recent] == [("mail", 2)]
        assert [(each.channel, each.total) for each in of_one] == [("mail", 3)]
        assert [(each.channel, each.total) for each in most] == [("else", 7)]
        ends = run_statistics.over_time(connection, period=MINUTE, span=DAY, channel="mail")
        assert [each.succeeded for each in ends] == [1, 2]
