"""Filters: patterns of topics, and conditions on payloads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgqueue.engine import log
from pgqueue.exceptions import InvalidEvent, InvalidFilter
from pgqueue.options.filters import (
    SHORT_NUMBER,
    Filter,
    as_filter,
    as_pattern,
    as_regex,
    as_topic,
    covers,
)
from tests.factories import Connection

WORDS = st.sampled_from(["order", "line", "paid", "a", "b+c", "é", "x_1", "[z]", "(", "\U0001f600"])
TOPICS = st.lists(WORDS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.tuples(
    st.lists(st.one_of(WORDS, st.just("*")), max_size=3),
    st.one_of(WORDS, st.sampled_from(["*", "**"])),
).map(lambda parts: ".".join([*parts[0], parts[1]]))


def fits(pattern: str, topic: str) -> bool:
    """Return what a pattern promises, word by word."""
    *words, last = pattern.split(".")
    given = topic.split(".")
    if last == "**":
        return len(given) > len(words) and all(
            map(lambda own, its: own in ("*", its), words, given[: len(words)])
        )
    return len(given) == len(words) + 1 and all(
        own in ("*", its) for own, its in zip([*words, last], given, strict=True)
    )


class TestATopic:
    @pytest.mark.parametrize("topic", ["a", "order.paid", "é.\U0001f600", "x" * 200, "a-b.c_d"])
    def test_is_words_with_dots_between_them(self, topic: str) -> None:
        assert as_topic(topic) == topic

    @pytest.mark.parametrize(
        "topic",
        [
            *("", ".", "a.", ".a", "a..b", "a.*", "*", "a b", "a\n", "a\x00", "x" * 201, "\ud800"),
            *(5, None, b"a"),
        ],
    )
    def test_can_be_nothing_else(self, topic: Any) -> None:
        with pytest.raises(InvalidEvent, match="topic="):
            as_topic(topic)


class TestAPattern:
    @pytest.mark.parametrize("pattern", ["*", "**", "a", "a.*", "*.a", "a.*.b", "a.**", "*.**"])
    def test_has_words_or_asterisks(self, pattern: str) -> None:
        assert as_pattern(pattern) == pattern

    @pytest.mark.parametrize(
        "pattern",
        ["", "a.", "a*", "*a", "**.a", "a.**.b", "***", "a b", "a.\t", "x" * 201, "\x00", b"a", 1],
    )
    def test_can_be_nothing_else(self, pattern: Any) -> None:
        with pytest.raises(InvalidFilter, match=r"topics="):
            as_pattern(pattern)

    def test_with_one_asterisk_is_one_word(self) -> None:
        regex = re.compile(as_regex("order.*"))

        assert regex.search("order.paid")
        assert not regex.search("order")
        assert not regex.search("order.line.added")
        assert not regex.search("reorder.paid")

    def test_with_two_asterisks_is_all_words_that_follow(self) -> None:
        regex = re.compile(as_regex("order.**"))

        assert regex.search("order.paid")
        assert regex.search("order.line.added")
        assert not regex.search("order")

    @given(pattern=PATTERNS, topic=TOPICS)
    def test_means_the_same_as_its_regular_expression(self, pattern: str, topic: str) -> None:
        assert bool(re.search(as_regex(pattern), topic)) == fits(pattern, topic)


TAGGED = ' ? (exists(@."@"))."value"'


def compared(place: str, comparison: str) -> str:
    """The path that compares the value at a place, or its tagged value."""
    return f'({place} {comparison} || exists({place}."@") && ({place}{TAGGED} {comparison}))'


def number(place: str, operator: str) -> str:
    """The path that compares with a number: also the text of one."""

    def forms(value: str) -> str:
        comparison = f"{operator} $v0"
        return f"{value} {comparison} || {value} ? ({SHORT_NUMBER}).double() {comparison}"

    return f'({forms(place)} || exists({place}."@") && ({forms(place + TAGGED)}))'


class TestConditions:
    @pytest.mark.parametrize(
        ("where", "path", "variables"),
        [
            ({}, "", {}),
            ({"a": 1}, number('$."a"', "=="), {"v0": 1}),
            ({"a": None}, compared('$."a"', "== $v0"), {"v0": None}),
            ({"a__exact": 1}, number('$."a"', "=="), {"v0": 1}),
            ({"a__ne": "x"}, compared('$."a"', "!= $v0"), {"v0": "x"}),
            ({"a__gt": 1.5}, number('$."a"', ">"), {"v0": 1.5}),
            ({"a__gte": 1}, number('$."a"', ">="), {"v0": 1}),
            ({"a__lt": 1}, number('$."a"', "<"), {"v0": 1}),
            ({"a__lte": 1}, number('$."a"', "<="), {"v0": 1}),
            ({"a__in": ("a", "b")}, compared('$."a"', "== $v0[*]"), {"v0": ["a", "b"]}),
            ({"a__in": (1,)}, number('$."a"', "==").replace("$v0", "$v0[*]"), {"v0": [1]}),
            ({"a__contains": True}, compared('$."a"', "== $v0"), {"v0": True}),
            ({"a__startswith": "D"}, compared('$."a"', "starts with $v0"), {"v0": "D"}),
            ({"a__exists": True}, '(exists($."a"))', {}),
            ({"a__exists": False}, '(!(exists($."a")))', {}),
            ({"a__b__gt": 1}, number('$."a"."b"', ">"), {"v0": 1}),
            ({"a": {"b": {"gt": 1}}}, number('$."a"."b"', ">"), {"v0": 1}),
            ({"in": 1}, number('$."in"', "=="), {"v0": 1}),
            (
                {"a": "x", "b": "y"},
                compared('$."a"', "== $v0") + " && " + compared('$."b"', "== $v1"),
                {"v0": "x", "v1": "y"},
            ),
            ({'"': "x"}, compared('$."\\""', "== $v0"), {"v0": "x"}),
        ],
    )
    def test_become_a_path_and_its_variables(
        self, where: Mapping[str, Any], path: str, variables: Mapping[str, Any]
    ) -> None:
        wanted = Filter(where=where)

        assert (wanted.path, wanted.variables) == (path, variables)

    @pytest.mark.parametrize(
        ("where", "culprit"),
        [
            ({"": 1}, "where[''] = 1"),
            ({"a____b": 1}, "where['a____b'] = 1"),
            ({"__gt": 1}, "where['__gt'] = 1"),
            ({"a__": 1}, "where['a__'] = 1"),
            ({"a__gt": [1]}, "where['a__gt'] = [1]"),
            ({"a": object}, "where['a'] ="),
            ({"a": b"x"}, "where['a'] = b'x'"),
            ({"a": float("nan")}, "where['a'] = nan"),
            ({"a": float("inf")}, "where['a'] = inf"),
            ({"a": 10**5000}, "where['a'] ="),
            ({"a": Decimal("1E+5000")}, "where['a'] ="),
            ({"a": Decimal("NaN")}, "where['a'] ="),
            ({"a": Decimal("0.12345678901234567890")}, "more digits than a float"),
            ({"a": "\x00"}, "where['a'] ="),
            ({"a": "\ud800"}, "where['a'] ="),
            ({"a": "x" * 10_001}, "where['a'] ="),
            ({"a\x00": 1}, "where['a\\x00'] = 1"),
            ({"a__in": []}, "where['a__in'] = []"),
            ({"a__in": "ab"}, "where['a__in'] = 'ab'"),
            ({"a__in": [[1]]}, "where['a__in'] = [[1]]"),
            ({"a__contains": [1]}, "where['a__contains'] = [1]"),
            ({"a__startswith": 1}, "where['a__startswith'] = 1"),
            ({"a__exists": 1}, "where['a__exists'] = 1"),
            ({"a": {}}, "where['a'] = {}"),
            ({"a": {"b": {1: 2}}}, "where has the key 1,"),
            ({"a": {"b": b""}}, "where['a__b'] = b''"),
            ({1: 2}, "where has the key 1"),
            ([("a", 1)], "where=[('a', 1)]"),
            ("a", "where='a'"),
        ],
    )
    def test_that_can_not_be_are_named(self, where: Any, culprit: str) -> None:
        with pytest.raises(InvalidFilter, match=re.escape(culprit)):
            Filter(where=where)

    @pytest.mark.parametrize("topics", [5, b"a", {"a": 1}, object(), ["a", 5], ["a", "a."]])
    def test_topics_that_can_not_be_are_named(self, topics: Any) -> None:
        with pytest.raises(InvalidFilter, match="topics="):
            as_filter(topics, None)

    def test_topics_are_one_pattern_or_several(self) -> None:
        assert as_filter("a.*", None).topics == ("a.*",)
        assert as_filter(["a", "b", "a"], None).topics == ("a", "b")
        assert as_filter(None, None) == Filter()

    def test_equal_filters_are_one(self) -> None:
        def one() -> Filter:
            return as_filter(["a"], {"b": 1})

        assert one() == one()
        assert len({one(), one()}) == 1


# --- Against PostgreSQL

SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 0.5, 1.0, "", "a", "ab", "b"])
NAMES = st.sampled_from(["a", '"$ b'])
PAYLOADS = st.one_of(
    st.sampled_from([None, 1, "a"]),
    st.dictionaries(NAMES, SCALARS, min_size=1),
    st.dictionaries(
        NAMES,
        st.one_of(
            SCALARS,
            st.lists(SCALARS, max_size=3),
            st.dictionaries(NAMES, SCALARS, max_size=2),
        ),
        max_size=3,
    ),
)
PATHS = st.one_of(NAMES.map(lambda name: [name]), st.lists(NAMES, min_size=2, max_size=2))
COMPARISONS = st.tuples(
    PATHS, st.sampled_from(["exact", "ne", "gt", "gte", "lt", "lte", "contains"]), SCALARS
)
CONDITIONS = st.one_of(
    COMPARISONS,
    st.tuples(PATHS, st.just("in"), st.lists(SCALARS, min_size=1, max_size=3)),
    st.tuples(PATHS, st.just("startswith"), st.sampled_from(["a", "ab"])),
    st.tuples(PATHS, st.just("exists"), st.booleans()),
)
WHERE = st.lists(CONDITIONS, min_size=1, max_size=2)
Condition = tuple[Sequence[str], str, Any]


def found(payload: Any, path: Sequence[str]) -> Iterator[Any]:
    """Yield what is at a path; a step into a list is a step into each of its items."""
    if not path:
        yield payload
        return
    for each in payload if isinstance(payload, list) else [payload]:
        if isinstance(each, dict) and path[0] in each:
            yield from found(each[path[0]], path[1:])


def kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def compares(how: str, left: Any, right: Any) -> bool:
    """Compare as JSON does: only what is of one kind; null is equal to null only."""
    if how == "startswith":
        return isinstance(left, str) and left.startswith(right)
    if left is None or right is None:
        is_equal = left is None and right is None
        if how == "ne":
            return not is_equal
        return is_equal and how in ("exact", "gte", "lte")
    if kind(left) != kind(right) or isinstance(left, list | dict):
        return False
    return {
        "exact": left == right,
        "ne": left != right,
        "gt": left > right,
        "gte": left >= right,
        "lt": left < right,
        "lte": left <= right,
    }[how]


def meets(payload: Any, condition: Condition) -> bool:
    path, how, value = condition
    places = list(found(payload, path))
    if how == "exists":
        return bool(places) is value
    values = value if how == "in" else [value]
    how = "exact" if how in ("in", "contains") else how
    items = [item for place in places for item in (place if isinstance(place, list) else [place])]
    return any(compares(how, item, each) for item in items for each in values)


def nested(condition: Condition) -> dict[str, Any]:
    path, how, value = condition
    where: Any = {how: value}
    for name in reversed(path):
        where = {name: where}
    return dict(where)


def merged(conditions: Sequence[Condition]) -> dict[str, Any]:
    return {"__".join([*path, how]): value for path, how, value in conditions}


def matching(connection: Connection, wanted: Filter) -> list[int]:
    stretch = log.read(
        connection, after=0, limit=1000, condition=wanted.sql, parameters=wanted.parameters
    )
    return [each.position for each in stretch.events]


def store(connection: Connection, topics: Sequence[str], payloads: Sequence[Any]) -> None:
    connection.execute("DELETE FROM pgqueue_event")
    connection.execute(
        "INSERT INTO pgqueue_event (position, topic, key, payload, metadata, created_at) "
        "SELECT n, topic, '', payload, '{}', statement_timestamp() "
        "FROM unnest(%s::text[], %s::jsonb[]) WITH ORDINALITY AS given (topic, payload, n)",
        [list(topics), [json.dumps(each) for each in payloads]],
    )


AGAINST_POSTGRESQL = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class TestPostgreSQL:
    @AGAINST_POSTGRESQL
    @given(
        patterns=st.lists(PATTERNS, min_size=1, max_size=3),
        topics=st.lists(TOPICS, min_size=1, max_size=20),
    )
    def test_finds_the_topics_that_patterns_promise(
        self, connection: Connection, patterns: list[str], topics: list[str]
    ) -> None:
        store(connection, topics, [None] * len(topics))

        assert matching(connection, as_filter(patterns, None)) == [
            number
            for number, topic in enumerate(topics, 1)
            if any(fits(pattern, topic) for pattern in patterns)
        ]

    @AGAINST_POSTGRESQL
    @given(conditions=WHERE, payloads=st.lists(PAYLOADS, min_size=5, max_size=30))
    def test_finds_the_payloads_that_conditions_promise(
        self, connection: Connection, conditions: list[Condition], payloads: list[Any]
    ) -> None:
        store(connection, ["a"] * len(payloads), payloads)
        where = merged(conditions)
        known = {"__".join([*path, how]): (path, how, value) for path, how, value in conditions}

        assert matching(connection, as_filter(None, where)) == [
            number
            for number, payload in enumerate(payloads, 1)
            if all(meets(payload, each) for each in known.values())
        ]

    @AGAINST_POSTGRESQL
    @given(condition=CONDITIONS, payloads=st.lists(PAYLOADS, min_size=1, max_size=5))
    def test_finds_the_same_by_nested_conditions(
        self, connection: Connection, condition: Condition, payloads: list[Any]
    ) -> None:
        store(connection, ["a"] * len(payloads), payloads)

        flat, deep = (as_filter(None, each) for each in (merged([condition]), nested(condition)))

        assert matching(connection, flat) == matching(connection, deep)

    @pytest.mark.parametrize(
        ("lookup", "value", "numbers"),
        [
            ("n", 2, [2]),
            ("n__ne", 2, [1, 3]),
            ("n__gt", 2, [3]),
            ("n__gte", 2, [2, 3]),
            ("n__lt", 2, [1]),
            ("n__lte", 2, [1, 2]),
            ("n__in", [1, 3, "x"], [1, 3]),
            ("s__startswith", "a", [1, 2]),
            ("s__gt", "ab", [3]),
            ("list__contains", "x", [2]),
            ("list__0", "x", []),
            ("deep__is", True, [3]),
            ("deep__is__exists", False, [1, 2]),
            ("deep", None, [2]),
            ("n", "2", []),
            ("n", None, []),
        ],
    )
    def test_knows_each_lookup(
        self, connection: Connection, lookup: str, value: Any, numbers: list[int]
    ) -> None:
        payloads = [
            {"n": 1, "s": "a"},
            {"n": 2.0, "s": "ab", "list": ["w", "x"], "deep": None},
            {"n": 3, "s": "b", "list": ["y"], "deep": {"is": True}},
        ]
        store(connection, ["a"] * 3, payloads)

        assert matching(connection, as_filter(None, {lookup: value})) == numbers

    def test_finds_events_without_a_payload_where_nothing_is_to_be_there(
        self, connection: Connection
    ) -> None:
        store(connection, ["a", "a"], [None, {"b": 1}])
        connection.execute("UPDATE pgqueue_event SET payload = NULL WHERE position = 1")

        assert matching(connection, as_filter(None, {"b__exists": False})) == [1]
        assert matching(connection, as_filter(None, {"b__ne": 2})) == [2]

    def test_sees_no_sql_that_is_made_of_values(self, connection: Connection) -> None:
        store(connection, ["a"], [{"a": "') OR true --"}])
        hostile = "') OR true --"

        wanted = as_filter(None, {"a": hostile, f"{hostile}__exists": False})

        assert hostile not in wanted.sql
        assert matching(connection, wanted) == [1]

    @pytest.mark.parametrize("value", [10**999, -(10**999), 1e308, 5e-324, "x" * 10_000])
    def test_takes_whatever_a_condition_may_have(self, connection: Connection, value: Any) -> None:
        store(connection, ["a"], [{"a": value}])

        assert matching(connection, as_filter(None, {"a": value})) == [1]


class TestNarrowing:
    @given(PATTERNS, PATTERNS)
    def test_a_pattern_covers_another_if_it_stands_for_all_that_the_other_stands_for(
        self, pattern: str, other: str
    ) -> None:
        any_word = other.replace("**", "new.one").replace("*", "new")
        topics = [any_word.replace("new.one", "new"), any_word, f"{any_word}.two"]

        for_all = all(fits(pattern, each) for each in topics[: 3 if "**" in other else 1])
        assert covers(pattern, other) == for_all

    def test_takes_patterns_within_its_own_and_conditions_beside_its_own(self) -> None:
        offered = Filter(("order.*", "cart.**"), {"total__gte": 5})

        assert offered.narrowed(Filter()) == offered
        assert offered.narrowed(Filter(("cart.a.b", "order.*"), {"customer": {"id": 7}})) == Filter(
            ("cart.a.b", "order.*"), {"total__gte": 5, "customer__id": 7}
        )
        assert Filter().narrowed(Filter(("**",))) == Filter(("**",))
        assert Filter().narrowed(Filter(key="7")) == Filter(key="7")
        assert Filter(key="7").narrowed(Filter(("a",))) == Filter(("a",), key="7")
        assert Filter(key="7").narrowed(Filter(key="7")) == Filter(key="7") != Filter(key="8")
        with pytest.raises(InvalidFilter, match="key='8': another key is set"):
            Filter(key="7").narrowed(Filter(key="8"))

    @pytest.mark.parametrize(
        "asked",
        [
            Filter(("order.**",)),
            Filter(("order.paid", "mail.sent")),
            Filter(("**",)),
            Filter(where={"total__gte": 4}),
            Filter(where={"total": {"gte": 4}}),
        ],
    )
    def test_refuses_what_goes_beyond(self, asked: Filter) -> None:
        with pytest.raises(InvalidFilter, match="only|another value is set"):
            Filter(("order.*",), {"total__gte": 5}).narrowed(asked)
