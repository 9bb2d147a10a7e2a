"""Events are matched with the filters of many clients by few statements."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue.engine import log
from pgqueue.events import reading
from pgqueue.events.publishing import publish_many
from pgqueue.events.recorded import RecordedEvent
from pgqueue.options.filters import Filter
from pgqueue.options.sql_conditions import as_sql_condition
from pgqueue.sse import matching
from tests.factories import Connection


@pytest.fixture
def events() -> list[RecordedEvent]:
    """Six events of the keys 0, 1 and 2, of which three have an even n."""
    publish_many([("a.b", {"n": n}, str(n % 3)) for n in range(6)])
    return reading.read(limit=100)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of pairs or events of each statement."""
    counts: list[int] = []
    meeting, in_sql = log.meeting, reading.meeting

    def counted(connection: Any, conditions: Any, pairs: Any) -> Any:
        counts.append(len(pairs))
        return meeting(connection, conditions, pairs)

    def counted_in_sql(connection: Any, condition: Any, given: Any) -> Any:
        counts.append(len(given))
        return in_sql(connection, condition, given)

    monkeypatch.setattr(log, "meeting", counted)
    monkeypatch.setattr("pgqueue.sse.matching.meeting", counted_in_sql)
    return counts


def numbers(
    connection: Connection, filters: list[Filter], events: list[RecordedEvent]
) -> list[list[int]]:
    matched = matching.matched_by(connection, filters, events)
    return [[each.payload["n"] for each in matched[wanted]] for wanted in filters]


def test_filters_with_the_same_conditions_share_them(
    connection: Connection, events: list[RecordedEvent], asked: list[int]
) -> None:
    own = {"n__gte": 2}
    filters = [Filter(where=own, key=key) for key in ("0", "1", "9")]
    filters += [Filter(("a.*",), own), Filter(("b",), own)]

    found = numbers(connection, filters, events)

    assert found == [[3], [4], [], [2, 3, 4, 5], []]
    assert asked == [6]


def test_filters_with_the_same_condition_in_sql_share_it(
    connection: Connection, events: list[RecordedEvent], asked: list[int]
) -> None:
    even = as_sql_condition("(e.payload ->> 'n')::int % 2 = 0", None)
    filters = [Filter(key=key, condition=even) for key in ("0", "1", "9")]

    assert numbers(connection, filters, events) == [[0], [4], []]
    assert asked == [4]


def test_a_statement_has_a_bounded_number_of_pairs(
    connection: Connection,
    events: list[RecordedEvent],
    asked: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "MOST_PAIRS", 5, raising=False)
    filters = [Filter(where={"n": n}) for n in range(3)]

    assert numbers(connection, filters, events) == [[0], [1], [2]]
    assert asked == [5, 5, 5, 3]
