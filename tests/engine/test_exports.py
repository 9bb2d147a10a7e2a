"""Retention may wait for exports: what one of them lacks is not removed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pgqueue.duties.partitions import Partitions
from pgqueue.duties.purge import Purge
from pgqueue.engine import exports, partitioning, partitions, retention
from pgqueue.engine.exports import NOTHING
from pgqueue.engine.values import Position
from pgqueue.models import History
from pgqueue.options.retention import Retention
from pgqueue.states import Outcome
from tests.factories import Connection, ended, exported, logged, past
from tests.spark import log

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MONTH: Retention = dict.fromkeys(Outcome.values, 30 * DAY)
BRIEF: Retention = {**MONTH, "succeeded": HOUR}


def day(ago: int) -> Any:
    return datetime.now(UTC).date() - ago * DAY


@pytest.fixture
def old(connection: Connection) -> Iterator[list[str]]:
    """Two days whose retention is over, with a message each, the older one first."""
    names = [past(connection, 50), past(connection, 40)]
    yield names
    for name in names:
        connection.execute(f"DROP TABLE IF EXISTS {name}")


def rows(connection: Connection) -> list[Position]:
    """Return where each row of history is."""
    found = connection.execute("SELECT txid, id FROM pgqueue_history ORDER BY txid, id")
    return [Position(*row) for row in found]


@pytest.fixture(params=["by a session", "behind a pooler"])
def dropping(connection: Connection, request: pytest.FixtureRequest) -> Connection:
    if request.param == "behind a pooler":
        connection.prepare_threshold = None
    return connection


class TestADay:
    def test_is_dropped_after_all_targets_have_it(
        self, dropping: Connection, old: list[str]
    ) -> None:
        first, second = rows(dropping)

        dropped = [
            partitions.drop(dropping, MONTH, exported=exported)
            for exported in (NOTHING, first._replace(id=first.id - 1), first, second)
        ]

        assert dropped == [[], [], [day(50)], [day(40)]]

    def test_that_waits_is_named(self, connection: Connection, old: list[str]) -> None:
        first, second = rows(connection)

        assert partitions.waiting(connection, MONTH, NOTHING) == [day(50), day(40)]
        assert partitions.waiting(connection, MONTH, first) == [day(40)]
        assert partitions.waiting(connection, MONTH, second) == []

    def test_without_rows_waits_for_nothing(self, dropping: Connection, old: list[str]) -> None:
        dropping.execute(f"TRUNCATE {old[0]}")

        assert partitions.drop(dropping, MONTH, exported=NOTHING) == [day(50)]

    def test_whose_drop_had_begun_is_dropped(self, connection: Connection, old: list[str]) -> None:
        connection.execute(f"COMMENT ON TABLE {old[0]} IS '{partitioning.MARK}'")
        connection.execute(f"ALTER TABLE pgqueue_history DETACH PARTITION {old[0]}")

        assert partitions.drop(connection, MONTH, exported=NOTHING) == [day(50)]


class TestPurging:
    def purge(self, connection: Connection, exported: Position) -> list[retention.RetentionStep]:
        """Take steps until there is nothing left to do now."""
        steps = []
        while not steps or not steps[-1].is_last:
            (window,) = retention.windows(connection, BRIEF)
            steps.append(retention.purge(connection, window, BRIEF, exported=exported))
        return steps

    @pytest.mark.parametrize("small", [False, True])
    def test_removes_what_all_targets_have(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, small: bool
    ) -> None:
        if small:
            monkeypatch.setattr(retention, "BATCH", 2)
            monkeypatch.setattr(retention, "REACH", 3)
        for hours in (9, 8, 7, 6, 5):
            ended(connection, 2, ago=hours * HOUR)
        there = rows(connection)

        removed = []
        for position in (NOTHING, there[3], there[6], there[9]):
            before = History.objects.count()
            self.purge(connection, position)
            removed.append(before - History.objects.count())

        # Of two that ended at one moment, none goes before both are exported.
        assert removed == [0, 4, 2, 4]

    def test_leaves_what_was_written_late(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ended(connection, ago=5 * HOUR)
        [old] = rows(connection)
        ended(connection, ago=9 * HOUR)
        # As if it was committed after the look for it.
        monkeypatch.setattr(retention, "_first_after", lambda *_: None)

        self.purge(connection, old)

        [left] = rows(connection)
        assert left > old


class TestTheDuties:
    def test_wait_where_that_is_switched_on(self, connection: Connection, old: list[str]) -> None:
        ended(connection, ago=2 * HOUR)
        duties: list[Any] = [
            Partitions(retention=BRIEF, exports_first=True),
            Purge(retention=BRIEF, dead_retention=DAY, exports_first=True),
        ]

        did = []
        for position in (None, rows(connection)[0], rows(connection)[-1]):
            if position:
                exported(connection, position)
            for duty in duties:
                duty.run(connection)
            did.append((duties[0].did["dropped"], duties[1].did["removed"]))

        assert did == [(0, 0), (1, 0), (1, 1)]

    def test_do_not_wait_otherwise(self, connection: Connection, old: list[str]) -> None:
        duty = Partitions(retention=MONTH)

        duty.run(connection)

        assert duty.did["dropped"] == 2


class TestATarget:
    def test_that_is_furthest_behind_counts(self, connection: Connection) -> None:
        exported(connection, Position(3, 9), name="a")
        exported(connection, Position(3, 8), name="b")
        exported(connection, Position(4, 1), name="c")

        assert exports.passed(connection) == Position(3, 8)
        assert [each.name for each in exports.targets(connection)] == ["b", "a", "c"]

    def test_of_another_cluster_has_nothing(self, connection: Connection) -> None:
        exported(connection, Position(2**50, 9), name="restored")
        exported(connection, Position(3, 8))

        assert exports.passed(connection) < Position(1, 0)

    def test_of_another_database_has_nothing(self, connection: Connection) -> None:
        exported(connection, Position(3, 9), name="of a copy")
        connection.execute("UPDATE pgqueue_export SET database = 'another'")
        exported(connection, Position(3, 8))

        assert exports.passed(connection) < Position(1, 0)

    def test_is_behind_by_so_many_messages_for_so_long(self, connection: Connection) -> None:
        ended(connection, ago=3 * HOUR)
        ended(connection, ago=2 * HOUR)
        ended(connection, ago=1 * HOUR)
        first, _, last = rows(connection)

        behind = exports.behind(connection, first)

        assert behind.messages == 2
        assert 7200 <= behind.seconds < 7300
        assert exports.behind(connection, last) == (0, 0)

    def test_is_behind_by_the_positions_after_its_last_event(self, connection: Connection) -> None:
        for position in (1, 2, 3):
            logged(connection, position, ago=(4 - position) * HOUR)

        behind = exports.events_behind(connection, 1)

        assert behind.events == 2
        assert 7200 <= behind.seconds < 7300
        assert exports.events_behind(connection, 3) == (0, 0)
        log.raise_floor(connection, 2)
        assert exports.events_behind(connection, 0).events == 1
        log.publish(connection, at=datetime.now(UTC) - HOUR)
        assert 3600 <= exports.events_behind(connection, 3).seconds < 3700
