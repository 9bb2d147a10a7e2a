"""Reads, tails, groups, subscriptions, predicates, streams and Python find the same events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgqueue.codec.encoding import ANYTHING
from pgqueue.engine import dispatch, predicates
from pgqueue.events import consumers, reading, tailing
from pgqueue.events.consuming import GroupReader
from pgqueue.models import Message, Subscription
from pgqueue.options.filters import Filter, as_filter
from pgqueue.sse import matching
from tests.events import handlers
from tests.factories import Connection

pytestmark = pytest.mark.slow

# --- Python's own evaluation, which the others are held against

NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]{1,4})?")


def parsed(text: str) -> Any:
    """Return JSON whose numbers are exact."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def alternatives(value: Any) -> Iterator[Any]:
    """Yield what a value stands for: itself, and the value of a tagged one."""
    yield value
    if isinstance(value, dict) and {"@", "value"} <= value.keys():
        yield from alternatives(value["value"])


def items(value: Any) -> Iterator[Any]:
    """Yield a value, or the items of a list, and what each stands for."""
    for one in alternatives(value):
        for item in one if isinstance(one, list) else [one]:
            yield from alternatives(item) if item is not value else [item]


def found(value: Any, path: Sequence[str]) -> Iterator[Any]:
    if not path:
        yield value
        return
    for item in items(value):
        if isinstance(item, dict) and path[0] in item:
            yield from found(item[path[0]], path[1:])


def compares(how: str, left: Any, right: Any) -> bool:
    if isinstance(right, Decimal) and isinstance(left, str) and NUMBER.fullmatch(left):
        left = Decimal(left) if len(left) <= 1000 else left
    if how == "startswith":
        return isinstance(left, str) and left.startswith(right)
    if left is None or right is None:
        are_equal = left is right
        return not are_equal if how == "ne" else are_equal and how in ("exact", "gte", "lte")
    if type(left) is not type(right) or isinstance(left, list | dict):
        return False
    outcomes = {"exact": left == right, "ne": left != right, "gt": left > right,
                "gte": left >= right, "lt": left < right, "lte": left <= right}  # fmt: skip
    return outcomes[how]


def meets(payload: Any, where: Mapping[str, Any]) -> bool:
    return all(_meets(payload, *lookup.rsplit("__", 1), value) for lookup, value in where.items())


def _meets(payload: Any, path: str, how: str, value: Any) -> bool:
    places = list(found(payload, path.split("__")))
    if how == "exists":
        return bool(places) is value
    values = parsed(json.dumps(value if how == "in" else [value], default=float))
    how = "exact" if how in ("in", "contains") else how
    return any(
        compares(how, item, each) for place in places for item in items(place) for each in values
    )


# --- Payloads and filters

NUMBERS: list[Any] = [
    *(0, 1, 120, -120, 0.5, 1e22, 1e-7, 2**53, 2**53 + 1, 10**30, 1.5e300, 5e-324, 0.1 + 0.2),
    *map(Decimal, ("120", "1.2E+2", "120.00", "1E+22", "1E-7", "0.30000000000000004", "-0", "NaN")),
    *map(Decimal, ("9007199254740993", "120.0000000000000000001", "0.5", "1E+5000", "Infinity")),
]
TEXTS = ["", "a", "ab", "120", "1e5", "1.2E+2", "0120", " 120", "0x78", "1.2.3", "-120.", "1e99999",
         "9007199254740992", "123456789012345678 x", "-123456789012345", "é\U0001f600",
         "2026-11-24", "2026-11-24T10:00:00+00:00", "1" * 1001]  # fmt: skip
TYPED = [
    *(True, False, None, date(2026, 11, 24), datetime(2026, 11, 24, 10, tzinfo=UTC)),
    *(UUID(int=7), b"ab", {1, 120}, {Decimal("120")}, ("a", Decimal("1E+2"))),
]
NAMES = st.sampled_from(["a", "b", "@", "value"])
SCALARS = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(TEXTS), st.sampled_from(TYPED))
VALUES = st.recursive(
    # A Decimal of a typed event is its text.
    SCALARS | st.sampled_from(NUMBERS).map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=6,
)
PAYLOADS = st.dictionaries(NAMES, VALUES, max_size=3) | VALUES
IN_CONDITIONS = st.one_of(
    st.sampled_from([0, 1, 120, 100, 100_000, 0.5, 1e22, 1e-7, 2**53, 2**53 + 1, 10**30, 5e-324]),
    st.sampled_from([True, False, None, Decimal("1.2E+2"), Decimal("0.5"), 1.5e300, 0.1 + 0.2]),
    st.sampled_from(TEXTS),
)
COMPARING = ["exact", "exact", "ne", "gt", "gte", "lt", "lte", "contains"]
PATHS = st.lists(NAMES, min_size=1, max_size=2).map("__".join)
CONDITIONS = st.one_of(
    st.tuples(PATHS, st.sampled_from(COMPARING), IN_CONDITIONS),
    st.tuples(PATHS, st.just("in"), st.lists(IN_CONDITIONS, min_size=1, max_size=3)),
    st.tuples(PATHS, st.just("startswith"), st.sampled_from(["a", "2026-11", "1"])),
    st.tuples(PATHS, st.just("exists"), st.booleans()),
)
WHERE = st.lists(CONDITIONS, min_size=1, max_size=2).map(
    lambda each: {f"{path}__{how}": value for path, how, value in each}
)


# --- The ways to evaluate filters


@dataclass
class Log:
    """A log of these payloads, at the positions from 1 on."""

    connection: Connection
    texts: list[str]

    def store(self) -> None:
        self.connection.execute(
            "DELETE FROM pgqueue_event; DELETE FROM pgqueue_message; DELETE FROM pgqueue_cursor; "
            "DELETE FROM pgqueue_subscription"
        )
        self.connection.execute(
            "INSERT INTO pgqueue_event (position, topic, key, payload, metadata, created_at) "
            "SELECT n, 'a', '', payload, '{}', statement_timestamp() "
            "FROM unnest(%s::jsonb[]) WITH ORDINALITY AS given (payload, n)",
            [self.texts],
        )

    def by_python(self, where: Mapping[str, Any]) -> list[int]:
        payloads = map(parsed, self.texts)
        return [number for number, each in enumerate(payloads, 1) if meets(each, where)]

    def by_read(self, where: Mapping[str, Any]) -> list[int]:
        return [each.position for each in reading.read(where=where)]

    def by_group(self, where: Mapping[str, Any]) -> list[int]:
        consumers._consumers.pop("g", None)
        seen: list[int] = []
        own = consumers.consumer("g", where=where, start="beginning")(
            lambda event: seen.append(event.position)
        )
        self.connection.execute(
            """DELETE FROM pgqueue_cursor WHERE "group" = 'g'; DELETE FROM pgqueue_group"""
        )
        reader = GroupReader(own)
        try:
            while not reader.tick():
                pass
        finally:
            reader.stop()
            reader.finish()
        return seen

    def by_subscriptions(self, filters: Sequence[Mapping[str, Any]]) -> list[list[int]]:
        return self._dispatched(filters, predicate="")

    def by_predicates(self, filters: Sequence[Mapping[str, Any]]) -> list[list[int]]:
        return self._dispatched(filters, predicate="true")

    def _dispatched(self, filters: Sequence[Mapping[str, Any]], predicate: str) -> list[list[int]]:
        Message.objects.all().delete()
        Subscription.objects.all().delete()
        self.connection.execute("""DELETE FROM pgqueue_cursor WHERE "group" = ''""")
        rows = [
            Subscription(
                name=str(number),
                task=handlers.plain.name,
                where=as_filter(None, where).where,
                predicate=predicate,
                position=0,
            )
            for number, where in enumerate(filters)
        ]
        for row in rows:
            row.compile()
        Subscription.objects.bulk_create(rows)
        is_last = False
        while not is_last:
            with self.connection.transaction():
                is_last = dispatch.step(self.connection).is_last
        assert not Subscription.objects.exclude(error="").exists()
        made: list[list[int]] = [[] for _ in filters]
        for metadata in Message.objects.order_by("id").values_list("metadata", flat=True):
            made[int(metadata["subscription"])].append(metadata["position"])
        return made

    def by_streams(self, filters: Sequence[Mapping[str, Any]]) -> list[list[int]]:
        wanted = [as_filter(None, where) for where in filters]
        events = reading.read(limit=1000)
        matched = matching.matched_by(self.connection, wanted, events)
        return [[each.position for each in matched[each_wanted]] for each_wanted in wanted]


BOUNDED = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@BOUNDED
@given(
    payloads=st.lists(PAYLOADS, min_size=4, max_size=12),
    filters=st.lists(WHERE, min_size=3, max_size=8),
)
@pytest.mark.polled
def test_everything_that_evaluates_filters_finds_the_same(
    connection: Connection, payloads: list[Any], filters: list[dict[str, Any]]
) -> None:
    stored = Log(connection, [ANYTHING.dump(each) for each in payloads])
    stored.store()

    expected = [stored.by_python(where) for where in filters]

    assert [stored.by_read(where) for where in filters] == expected
    assert [stored.by_group(where) for where in filters[:1]] == expected[:1]
    assert stored.by_streams(filters) == expected
    assert stored.by_subscriptions(filters) == expected
    if predicates.is_on(connection):
        assert stored.by_predicates(filters) == expected


SAME = [120, Decimal("120"), Decimal("120").normalize(), "1.2E+2", "120.00", "120", (Decimal(120),)]
OTHERS = [121, "x", Decimal("120.0000000000000000001").normalize(), " 120", "0x78", True, None, {}]


@pytest.mark.polled
@pytest.mark.parametrize("value", [120, 120.0, Decimal("120.00")])
@pytest.mark.parametrize("how", ["exact", "in", "contains"])
def test_a_number_is_found_however_it_is_stored(
    connection: Connection, how: str, value: Any
) -> None:
    where = {f"total__{how}": [value] if how == "in" else value}
    events = Log(connection, [ANYTHING.dump({"total": each}) for each in [*SAME, *OTHERS]])
    events.store()
    expected = list(range(1, len(SAME) + 1))

    assert events.by_read(where) == expected
    assert events.by_group(where) == expected
    assert events.by_streams([where]) == [expected]
    assert events.by_subscriptions([where]) == [expected]
    with tailing.tail(after=0, where=where) as tail:
        assert [each.position for each in islice(tail, len(SAME))] == expected


@pytest.mark.polled
def test_numbers_have_one_order(connection: Connection) -> None:
    small, large = [Decimal("1E-7"), 1e-7, "0.0000001"], [10**22, 1e22, "1e22", Decimal("1E+22")]
    events = Log(connection, [ANYTHING.dump({"total": each}) for each in [*small, *large]])
    events.store()

    for where, expected in (
        ({"total__gt": 1e-7}, [4, 5, 6, 7]),
        ({"total__gte": 1e22}, [4, 5, 6, 7]),
        ({"total__lt": 1e22}, [1, 2, 3]),
        ({"total__lte": 1e-7}, [1, 2, 3]),
        ({"total__ne": 1e22}, [1, 2, 3]),
    ):
        assert events.by_read(where) == events.by_subscriptions([where])[0] == expected


def test_conditions_that_python_takes_for_equal_are_different_filters() -> None:
    one, true = Filter(where={"a__in": [1]}), Filter(where={"a__in": [True]})

    assert one != true
    assert len({one, true}) == 2


def test_a_filter_keeps_its_conditions_as_json_has_them() -> None:
    wanted = Filter(where={"a": Decimal("9.5"), "b__in": {"y", "x", 1}, "c": {"in": (1, 2)}})

    assert json.loads(json.dumps(wanted.where)) == wanted.where
    assert wanted.where == {"a": 9.5, "b__in": ["x", "y", 1], "c": {"in": [1, 2]}}
