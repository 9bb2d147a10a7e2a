"""What channels have, and at which price that is known."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection as django_connection
from django.db import transaction
from psycopg.sql import SQL, Identifier

from pgqueue.engine import (
    cancel,
    channels,
    dead,
    expire,
    live_counts,
    settle,
)
from pgqueue.engine.live_counts import Stats
from pgqueue.models import Channel, History, Lane, Policy
from pgqueue.models.fields import StatementTimestamp
from pgqueue.states import State
from tests.admin.measure_pages import analyze, fill
from tests.admin.test_plans import scans
from tests.factories import Connection, bury, done, enqueue, insert, run, schedule

RULED: dict[str, Any] = {"governed": True}
ORDERED: dict[str, Any] = {"governed": True, "ordered": True}
# So that all pages are in the sample, whatever earlier tests left in the table's file.
SMALL = "TRUNCATE pgqueue_message"


def of(connection: Connection, name: str = "default") -> Stats:
    return live_counts.measure(connection, [name])[name]


def put_back(connection: Connection, id: int, column: str, by: str) -> None:
    """Let something have happened earlier."""
    connection.execute(
        SQL("UPDATE pgqueue_message SET {0} = {0} - %s::interval WHERE id = %s").format(
            Identifier(column)
        ),
        [by, id],
    )


def seconds(age: timedelta | None) -> float:
    assert age is not None
    return age.total_seconds()


class TestCounts:
    def test_are_of_each_state(self, connection: Connection) -> None:
        enqueue(connection, 2)
        for columns in (RULED, ORDERED):
            insert(connection, **columns)
        schedule(connection, 3)
        insert(connection, state="scheduled", **ORDERED)
        insert(connection, state="held")
        run(connection, 2, channel="other")
        insert(connection, state="dead")
        insert(connection, state="dead", **ORDERED)

        found = live_counts.measure(connection, ["default", "other"])

        def counts(name: str) -> list[int]:
            return [getattr(found[name], state.value) for state in State]

        assert dict(zip(State, counts("default"), strict=True)) == {
            State.HELD: 1,
            State.SCHEDULED: 4,
            State.READY: 4,
            State.RUNNING: 0,
            State.DEAD: 2,
        }
        assert found["other"].running == 2
        assert found["default"].estimated == found["other"].estimated == frozenset()

    def test_are_nothing_of_a_channel_that_has_nothing(self, connection: Connection) -> None:
        assert of(connection, "nothing") == Stats()

    def test_are_nothing_of_what_has_ended(self, connection: Connection) -> None:
        settle.complete(connection, [done(each) for each in run(connection)])
        cancel.cancel(connection, enqueue(connection))
        dead.discard(connection, bury(connection))
        insert(connection, expires_at="2001-01-01T00:00Z")
        expire.expire(connection)

        found = of(connection)

        assert {state.value: getattr(found, state.value) for state in State} == dict.fromkeys(
            State, 0
        )
        assert History.objects.count() == 4

    @pytest.mark.parametrize("columns", [{}, RULED, ORDERED])
    def test_beyond_a_bound_are_estimates_and_say_so(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(live_counts, "BOUND", 5)
        monkeypatch.setattr(live_counts, "LEAST", 5)
        connection.execute(SMALL)
        for _ in range(30):
            insert(connection, **columns)
        for _ in range(5):
            insert(connection, state="dead")
            insert(connection, state="running")

        found = of(connection)

        assert (found.ready, found.dead, found.running) == (30, 5, 5)
        assert "ready" in found.estimated
        assert not found.estimated & {"dead", "running", "scheduled"}

    @pytest.mark.parametrize("state", ["scheduled", "held", "running", "dead"])
    def test_of_each_state_have_a_bound(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, state: str
    ) -> None:
        monkeypatch.setattr(live_counts, "BOUND", 5)
        monkeypatch.setattr(live_counts, "LEAST", 5)
        connection.execute(SMALL)
        for _ in range(9):
            insert(connection, state=state)

        found = of(connection)

        assert getattr(found, state) == 9
        assert state in found.estimated

    def test_are_never_estimated_below_what_was_counted(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live_counts, "BOUND", 5)
        monkeypatch.setattr(live_counts, "LEAST", 5)
        monkeypatch.setattr(live_counts, "PAGES", 0)
        enqueue(connection, 30)

        assert of(connection).ready == 6

    def test_are_bounded_the_sooner_the_more_channels_are_asked_for(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live_counts, "TOGETHER", 10)
        monkeypatch.setattr(live_counts, "LEAST", 2)
        enqueue(connection, 6)

        alone = live_counts.measure(connection, ["default"])
        together = live_counts.measure(connection, ["default", "a", "b", "c"])

        assert alone["default"].estimated == frozenset()
        assert "ready" in together["default"].estimated

    def test_leave_the_callers_transaction_as_it_was(self, connection: Connection) -> None:
        connection.execute("RESET enable_seqscan")  # as it is on connections of Django's

        with connection.transaction():
            enqueue(connection)
            of(connection)

            assert connection.execute("SHOW enable_seqscan").fetchone() == ("on",)
        assert of(connection).ready == 1


class TestTheOldest:
    @pytest.mark.parametrize("columns", [{}, RULED, ORDERED])
    def test_is_the_one_that_could_have_run_the_longest(
        self, connection: Connection, columns: dict[str, Any]
    ) -> None:
        enqueue(connection, 2)
        id = insert(connection, key="z", priority=-100, **columns)
        put_back(connection, id, "run_at", "1 hour")

        assert 3600 <= seconds(of(connection).oldest_ready_age) < 3660

    @pytest.mark.parametrize("columns", [{}, RULED])
    def test_is_found_behind_others_by_its_key_and_priority(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(live_counts, "BOUND", 5)
        monkeypatch.setattr(live_counts, "LEAST", 5)
        for key in ("", "a"):
            for priority in (1, 0):
                for _ in range(8):
                    insert(connection, key=key, priority=priority, **columns)
        id = insert(connection, key="a", priority=0, **columns)
        put_back(connection, id, "run_at", "1 hour")

        found = of(connection)

        assert 3600 <= seconds(found.oldest_ready_age) < 3660
        assert "oldest_ready_age" not in found.estimated

    def test_of_very_many_keys_is_at_least_so_old_and_says_so(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live_counts, "BOUND", 5)
        monkeypatch.setattr(live_counts, "LEAST", 5)
        monkeypatch.setattr(live_counts, "LANES", 8)
        monkeypatch.setattr(live_counts, "LEAST_LANES", 1)
        ids = [insert(connection, key=f"{n:02}") for n in range(20)]
        put_back(connection, ids[7], "run_at", "1 hour")
        put_back(connection, ids[8], "run_at", "2 hours")

        found = of(connection)

        assert 3600 <= seconds(found.oldest_ready_age) < 3660
        assert "oldest_ready_age" in found.estimated

    def test_is_none_where_nothing_is_ready(self, connection: Connection) -> None:
        schedule(connection)

        assert of(connection).oldest_ready_age is None


class TestRates:
    def test_are_of_the_last_minute(self, connection: Connection) -> None:
        enqueue(connection, 3)
        settle.complete(connection, [done(each) for each in run(connection, 6, channel="done")])
        (old,) = enqueue(connection, channel="old")
        put_back(connection, old, "created_at", "2 minutes")

        found = live_counts.measure(connection, ["default", "done", "old"])

        assert found["default"].enqueued_per_second == pytest.approx(3 / 60)
        assert found["done"].enqueued_per_second == pytest.approx(6 / 60)
        assert found["done"].finished_per_second == pytest.approx(6 / 60)
        assert (found["default"].finished_per_second, found["old"].enqueued_per_second) == (0, 0)

    def test_are_of_less_than_a_minute_where_much_happens(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live_counts, "REACH", 10)
        settle.complete(connection, [done(each) for each in run(connection, 30)])
        connection.execute(
            "UPDATE pgqueue_history SET created_at = created_at - interval '5 seconds', "
            "finished_at = finished_at - interval '5 seconds'"
        )

        found = of(connection)

        assert found.enqueued_per_second == pytest.approx(2, rel=0.2)
        assert found.finished_per_second == pytest.approx(2, rel=0.2)

    def test_of_few_among_ids_that_were_rolled_back_are_of_the_minute(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live_counts, "REACH", 10)
        with connection.transaction(force_rollback=True):
            enqueue(connection, 20)
        enqueue(connection, 3)

        assert of(connection).enqueued_per_second == pytest.approx(3 / 60)


class TestThePrice:
    @pytest.mark.parametrize("is_analyzed", [True, False])
    def test_no_statement_reads_more_than_its_share(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, is_analyzed: bool
    ) -> None:
        for bound in ("BOUND", "LEAST", "REACH"):
            monkeypatch.setattr(live_counts, bound, 300)
        monkeypatch.setattr(live_counts, "LANES", 100)
        monkeypatch.setattr(live_counts, "PAGES", 20)
        with transaction.atomic():
            fill(30_000, 30_000)
            if is_analyzed:
                analyze()
            raw = django_connection.connection
            with live_counts._by_indexes(raw):
                read = {
                    name: most_read(raw, text, "default")
                    for name, text in live_counts.SQL.items()
                    if name in ("counts", "first_of_each", "rates")
                }
            read["sample"] = most_read(raw, live_counts.SQL["sample"], "default")
            read["in_use"] = most_read(raw, channels.SQL["in_use"], "default")
            transaction.set_rollback(True)

        # A scan of history begins in each of two days; a page has a few dozen rows.
        assert max(read["counts"], read["first_of_each"], read["rates"]) <= 302
        assert read["sample"] < 3000
        assert read["in_use"] <= 10


def most_read(raw: Connection, text: str, channel: str) -> float:
    """Return how many rows the scan of a table that read the most has read."""
    ((plan,),) = raw.execute(
        f"EXPLAIN (ANALYZE, FORMAT json, TIMING off) {text}",
        {
            "channels": [channel],
            "channel": channel,
            "bound": live_counts.BOUND,
            "reach": live_counts.REACH,
            "pages": live_counts.PAGES,
            "limit": 1000,
        },
    ).fetchall()
    (top,) = json.loads(plan) if isinstance(plan, bytes | str) else plan
    return max(rows for _, rows in scans(top["Plan"]))


class TestChannelsInUse:
    def test_are_those_that_are_configured_or_have_a_message(self, connection: Connection) -> None:
        for state in State:
            insert(connection, channel=f"with {state} ones", state=state)
        insert(connection, channel="ruled", **RULED)
        insert(connection, channel="ordered", **ORDERED)
        Channel.objects.create(name="configured")
        Policy.objects.create(channel="limited", scope="each", max_running=1)

        assert channels.in_use(connection) == [
            "configured",
            "limited",
            "ordered",
            "ruled",
            *(f"with {state} ones" for state in sorted(State)),
        ]

    def test_are_the_first_of_very_many(self, connection: Connection) -> None:
        for name in "cab":
            insert(connection, channel=name)

        assert channels.in_use(connection, limit=2) == ["a", "b"]

    def test_are_none_of_what_has_ended(self, connection: Connection) -> None:
        settle.complete(connection, [done(each) for each in run(connection)])

        assert channels.in_use(connection) == []


class TestLanes:
    def test_are_listed_with_what_is_in_them(self, connection: Connection) -> None:
        now = StatementTimestamp()
        for key in ("b", "a"):
            Lane.objects.create(channel="default", key=key, state="runnable", turn_at=now, tat=now)
        Lane.objects.create(channel="other", key="a", state="idle", turn_at=now, tat=now)
        for columns in (RULED, ORDERED, {**ORDERED, "state": "scheduled"}, {"state": "running"}):
            insert(connection, key="a", **columns)

        seen = channels.lanes(connection, "default")

        assert [(lane.key, lane.state, lane.running, lane.ready) for lane in seen] == [
            ("a", "runnable", 1, 2),
            ("b", "runnable", 0, 0),
        ]
        assert len(channels.lanes(connection, "default", limit=1)) == 1

    def test_are_counted_up_to_a_bound(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(channels, "LANE_BOUND", 2)
        now = StatementTimestamp()
        Lane.objects.create(channel="default", key="a", state="idle", turn_at=now, tat=now)
        for _ in range(5):
            insert(connection, key="a", **RULED)

        assert channels.lanes(connection, "default")[0].ready == 2
