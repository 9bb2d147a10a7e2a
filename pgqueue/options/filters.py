"""Filters of events: patterns of topics, and conditions on payloads.

A pattern is a topic with wildcards. `*` stands for one word; `**`, only as the last word, stands
for one or more words. "order.*" matches "order.paid" but not "order.line.added". "order.**" matches
both, and "**" matches all topics.

Conditions on payloads have the form of Django's lookups: `{"total__gte": 100, "customer__country":
"DE"}`. They become one jsonpath with variables for the values, so that no SQL is built from values.
A missing value, or a value of another type, meets no condition except `exists: False`. A list meets
a condition if one of its items does.

The codec stores some values as objects of a tag and a value, such as
`{"@": "date", "value": "2026-11-24"}`, and a Decimal of a typed event as text. So a tagged value is
compared as its value. A number in a condition is compared with numbers and with the text of
numbers, by their exact values.

A jsonpath can compare short texts of numbers, and tagged scalars. Longer texts, exponents and
tagged lists or dicts are rare: the database's function `pgqueue_comparable_v1` first writes these
out.
tests/events/test_one_meaning.py compares the results of reads, groups, subscriptions and streams.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from pgqueue.exceptions import InvalidEvent, InvalidFilter
from pgqueue.options.sql_conditions import SQLCondition
from pgqueue.values.error_words import checked_option, hint, shown
from pgqueue.values.names import KEY_LIMIT, as_key, as_text
from pgqueue.values.number_checks import as_flag

TOPIC_LIMIT = 200  # bytes
WORD = re.compile(r"[^.*\s]+")
ANY_WORD, ANY_WORDS = "*", "**"

COMPARED = {"ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
ALL = "true"
"""The SQL condition that each event meets."""
LOOKUPS = ("exact", *COMPARED, "in", "contains", "startswith", "exists")
SCALARS = (str, int, float, bool, type(None))
TOO_LARGE = 10**1000

SHORT_NUMBER = '@ like_regex "^-?[0-9]+([.][0-9]+)?$" && @ like_regex "^.{1,15}$"'
"""The test for the text of a number that `.double()` reads exactly, with its 15 digits.

Two simple expressions, since PostgreSQL 16 and later compile them whenever they parse a path.
"""
VALUE = ' ? (exists(@."@"))."value"'
"""The step from a tagged value to its value."""
LONG_NUMBER = 'like_regex "^-?[0-9.]{15}|^-?[0-9.]+[eE]"'
WRITTEN_OUT = (
    f'@ {LONG_NUMBER} || exists(@."@") && '
    f'(@."value" {LONG_NUMBER} || @."value".type() == "object" || @."value".type() == "array")'
)
"""The test for values that `pgqueue_comparable_v1` must write out; it also matches a few others."""


def as_topic(value: Any) -> str:
    """Return `value` if it is a valid topic: words with dots between them.

    Raises:
        InvalidEvent: it is invalid.
    """
    try:
        # For a subclass of str, use its text: it may define its own equality.
        return _checked_topic(
            value if type(value) is str else str.__str__(as_text(value, TOPIC_LIMIT))
        )
    except (TypeError, ValueError) as error:
        raise InvalidEvent(f"topic={shown(value)}: {error}") from error


@lru_cache(1024)
def _checked_topic(value: str) -> str:
    topic = as_text(value, TOPIC_LIMIT)
    if not all(WORD.fullmatch(word) for word in topic.split(".")):
        raise ValueError("it must be words with dots between them, such as 'order.paid'.")
    return topic


def as_pattern(value: Any) -> str:
    """Return `value` if it is a valid pattern of topics.

    Raises:
        InvalidFilter: it is invalid.
    """
    try:
        *words, last = as_text(value, TOPIC_LIMIT).split(".")
        known = [*words, "a" if last == ANY_WORDS else last]
        if not all(word == ANY_WORD or WORD.fullmatch(word) for word in known):
            raise ValueError(
                "it must be words with dots between them; '*' stands for one word, and '**' at "
                "the end for one or more."
            )
    except (TypeError, ValueError) as error:
        raise InvalidFilter(f"topics={shown(value)}: {error}") from error
    return str(value)


def as_regex(pattern: str) -> str:
    """Return a pattern of topics as a regular expression for PostgreSQL and Python."""
    words = {ANY_WORD: "[^.]+", ANY_WORDS: ".+"}
    return "^" + r"\.".join(words.get(each, _quoted(each)) for each in pattern.split(".")) + "$"


def _quoted(word: str) -> str:
    return re.sub(r"([^\w])", r"\\\1", word)


def covers(pattern: str, other: str) -> bool:
    """Return whether a pattern matches all topics that another pattern matches."""
    words, others = pattern.split("."), other.split(".")
    if words[-1] == ANY_WORDS:
        *words, _ = words
        if len(others) <= len(words):
            return False
        others = others[: len(words)]
    return len(words) == len(others) and all(
        its != ANY_WORDS and own in (ANY_WORD, its) for own, its in zip(words, others, strict=True)
    )


@dataclass(frozen=True)
class Filter:
    """A filter that matches events by their topics, payloads and key.

    Args:
        topics: patterns; none: all topics.
        where: conditions on the payload. An event must meet all of them.
        key: the key of the events; "": events without a key. None: any key.
        condition: a condition in SQL, which readers evaluate after `sql`. None: there is none.

    Raises:
        InvalidFilter: a pattern, a condition or the key is invalid.
    """

    topics: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    condition: SQLCondition | None = None

    def __post_init__(self) -> None:
        given: Any = self.topics
        patterns = (given,) if isinstance(given, str) else tuple(given)
        object.__setattr__(self, "topics", tuple(dict.fromkeys(map(as_pattern, patterns))))
        if not isinstance(self.where, Mapping):
            raise InvalidFilter(f"where={shown(self.where)}: it must be a dict of conditions.")
        object.__setattr__(self, "where", _plain(self.where))
        _ = self.path  # checks the names in the conditions
        if self.key is not None:
            checked_option(as_key, "key", self.key, InvalidFilter)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        # As JSON: in Python, 1 equals True.
        return self.topics, json.dumps(self.where, sort_keys=True), self.key, self.condition

    @cached_property
    def path(self) -> str:
        """The conditions as a jsonpath predicate; "": there are none."""
        return " && ".join(f"({path})" for path, _ in self._conditions)

    @cached_property
    def unusual(self) -> str:
        """A jsonpath predicate: a value on the path to a compared one must be written out."""
        ways = {
            _place(path[:length])
            for path, _ in (_split(lookup) for lookup, _ in _flat(self.where))
            for length in range(len(path) + 1)
        }
        return " || ".join(f"exists({each} ? ({WRITTEN_OUT}))" for each in sorted(ways))

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The values in `path`."""
        return {name: value for _, own in self._conditions for name, value in own.items()}

    @cached_property
    def _conditions(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            _condition(f"v{number}", lookup, value)
            for number, (lookup, value) in enumerate(_flat(self.where))
        ]

    @property
    def sql(self) -> str:
        """The SQL condition over an event `e`, for the parameters below."""
        parts = []
        if self._plain and not self._patterns:
            parts.append("e.topic = ANY (%(filter_topics)s::text[])")
        elif self.topics:
            parts.append(
                "(e.topic = ANY (%(filter_topics)s::text[]) OR e.topic ~ %(filter_regex)s)"
            )
        if self.key is not None:
            # The indexes of `IndexKeys` have the events with a key.
            parts.append("e.key = %(filter_key)s" + (" AND e.key <> ''" if self.key else ""))
        if self.path:
            # To write a payload out takes long, and only few payloads need it.
            parts.append(
                "jsonb_path_match(CASE WHEN "
                "jsonb_path_match(e.payload, %(filter_unusual)s::jsonpath, '{}', true) "
                "THEN pgqueue_comparable_v1(e.payload) ELSE coalesce(e.payload, 'null') END, "
                "%(filter_path)s::jsonpath, %(filter_vars)s::jsonb, true)"
            )
        return " AND ".join(parts) or ALL

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `sql`."""
        return {
            "filter_topics": self._plain,
            "filter_regex": self.regex,
            "filter_path": self.path,
            "filter_unusual": self.unusual,
            "filter_vars": json.dumps(self.variables),
            "filter_key": self.key,
        }

    @cached_property
    def equality(self) -> tuple[str, Any]:
        """A jsonpath and the value that one of its items must equal; ("", None): there is none.

        One look-up by this value finds all matching filters that differ only in the value.
        """
        for lookup, value in _flat(self.where):
            path, how = _split(lookup)
            if how in ("exact", "contains") and value is not None:
                return _place(path) + "[*]", value
        return "", None

    @cached_property
    def exact_topics(self) -> list[str]:
        """The patterns without wildcards."""
        return self._plain

    @cached_property
    def regex(self) -> str:
        """A regular expression of the patterns with wildcards; "": there are none."""
        return "|".join(map(as_regex, self._patterns))

    def narrowed(self, asked: Filter) -> Filter:
        """Return a filter that matches the events which both filters match.

        Raises:
            InvalidFilter: a pattern of `asked` is not covered by a pattern of this filter, or both
                have the same lookup with different values, or different keys.
        """
        for pattern in asked.topics if not self.wants_all_topics else ():
            if not any(covers(own, pattern) for own in self.topics):
                raise InvalidFilter(
                    f"topics={shown(pattern)}: only {' and '.join(self.topics)} can be asked for."
                )
        where = dict(_flat(self.where))
        for lookup, value in _flat(asked.where):
            if json.dumps(where.setdefault(lookup, value)) != json.dumps(value):
                raise InvalidFilter(f"where[{lookup!r}] = {shown(value)}: another value is set.")
        if self.key is not None and asked.key not in (None, self.key):
            raise InvalidFilter(f"key={shown(asked.key)}: another key is set.")
        if self.condition is not None and asked.condition not in (None, self.condition):
            raise InvalidFilter("predicate: another condition in SQL is set.")
        key = self.key if asked.key is None else asked.key
        return Filter(asked.topics or self.topics, where, key, self.condition or asked.condition)

    @property
    def wants_all_topics(self) -> bool:
        """Whether the filter matches all topics."""
        return not self.topics or ANY_WORDS in self.topics

    @cached_property
    def _plain(self) -> list[str]:
        return [each for each in self.topics if ANY_WORD not in each]

    @cached_property
    def _patterns(self) -> list[str]:
        return [each for each in self.topics if ANY_WORD in each]


def as_filter(
    topics: str | Iterable[str] | None, where: Mapping[str, Any] | None, key: str | None = None
) -> Filter:
    """Return the filter for the options `topics`, `where` and `key`.

    Raises:
        InvalidFilter: an option is invalid.
    """
    if topics is not None and not isinstance(topics, str | list | tuple | set | frozenset):
        raise InvalidFilter(f"topics={shown(topics)}: it must be a pattern, or a list of them.")
    return Filter(() if topics is None else topics, {} if where is None else where, key)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Place:
    """A value of an event, such as "{payload.customer.id}", or one text for all events.

    Attributes:
        text: the text of the option.
        path: "": the text itself; "key" or "topic": the event's; else a jsonpath of its payload.
    """

    text: str
    path: str


def as_place(value: Any, limit: int) -> Place:
    """Return the place for a text, "{key}", "{topic}" or "{payload.NAME.NAME}".

    Raises:
        InvalidFilter: the value is invalid.
    """
    try:
        text = as_text(value, limit)
        if not (text.startswith("{") and text.endswith("}")):
            return Place(text, "")
        first, *rest = text[1:-1].split(".")
        if first in ("key", "topic") and not rest:
            return Place(text, first)
        if first != "payload" or not rest or not all(rest):
            raise ValueError("braces may contain only {key}, {topic} or {payload.NAME}.")
        return Place(text, "$" + "".join(f".{json.dumps(each)}" for each in rest))
    except (TypeError, ValueError) as error:
        raise InvalidFilter(f"{shown(value)}: {error}") from error


def compiled(wanted: Filter, *, key: str, split_by: str) -> dict[str, Any]:
    """Return the columns of a subscription that the matching statement reads.

    Raises:
        InvalidFilter: a place is invalid.
    """
    is_any = wanted.wants_all_topics
    eq_path, eq_value = wanted.equality
    return {
        "exact": [] if is_any else wanted.exact_topics,
        "regex": "" if is_any else wanted.regex,
        "eq_path": eq_path,
        "eq_value": eq_value,
        "path": wanted.path,
        "vars": wanted.variables,
        "key_path": as_place(key, KEY_LIMIT).path,
        "split_path": as_place(split_by, KEY_LIMIT).path,
    }


def _flat(where: Mapping[str, Any], within: str = "") -> list[tuple[str, Any]]:
    """Return conditions without nesting: {"a": {"b": 1}} becomes {"a__b": 1}."""
    flat: list[tuple[str, Any]] = []
    for name, value in where.items():
        if not isinstance(name, str):
            raise InvalidFilter(f"where has the key {shown(name)}, which is no text.")
        lookup = within + name
        if isinstance(value, Mapping):
            if not value:
                raise InvalidFilter(f"where[{lookup!r}] = {{}}: it must have a condition.")
            flat += _flat(value, f"{lookup}__")
        else:
            flat.append((lookup, value))
    return flat


def _plain(where: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Return conditions in their stored form: JSON values in a stable order."""
    plain: dict[str, Any] = {}
    for name, value in where.items():
        if not isinstance(name, str):
            raise InvalidFilter(f"where has the key {shown(name)}, which is no text.")
        lookup = within + name
        try:
            if isinstance(value, Mapping):
                plain[name] = _plain(value, f"{lookup}__")
                continue
            path, how = _split(lookup)
            _place(path)
            plain[name] = _operand(how, value)
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidFilter):
                raise
            raise InvalidFilter(f"where[{lookup!r}] = {shown(value)}: {error}") from error
    return plain


def _condition(name: str, lookup: str, value: Any) -> tuple[str, dict[str, Any]]:
    """Return a jsonpath predicate and its variables, for a condition in its stored form."""
    path, how = _split(lookup)
    return _predicate(name, _place(path), how, value)


def _split(lookup: str) -> tuple[list[str], str]:
    """Return the names in a lookup, and its comparison."""
    *path, last = lookup.split("__")
    how = "exact"
    if path and last in LOOKUPS:
        how = last
    else:
        path.append(last)
    if not all(path):
        raise ValueError(f"it must be names with '__' between them. {hint(last, LOOKUPS)}")
    return path, how


def _place(path: Iterable[str]) -> str:
    return "$" + "".join(f".{json.dumps(as_text(each, 1000))}" for each in path)


def _operand(how: str, value: Any) -> Any:
    """Return the operand of a lookup as a JSON value.

    Raises:
        TypeError, ValueError: the operand is invalid for the lookup.
    """
    if how == "exists":
        return as_flag(value)
    if how == "startswith":
        if not isinstance(value, str):
            raise TypeError("it must be text.")
        return as_text(value, 10_000)
    if how == "in":
        if not isinstance(value, list | tuple | set | frozenset) or not value:
            raise TypeError("it must be a list of values.")
        values = [_scalar(each) for each in value]
        # The order of a set differs between processes.
        return sorted(values, key=json.dumps) if isinstance(value, set | frozenset) else values
    return _scalar(value)


def _predicate(name: str, place: str, how: str, value: Any) -> tuple[str, dict[str, Any]]:
    if how == "exists":
        return f"exists({place})" if value else f"!(exists({place}))", {}
    if how == "startswith":
        return _compared(place, f"starts with ${name}"), {name: value}
    if how == "in":
        has_number = any(map(_is_number, value))
        return _compared(place, f"== ${name}[*]", with_texts=has_number), {name: value}
    comparison = f"{COMPARED.get(how, '==')} ${name}"
    return _compared(place, comparison, with_texts=_is_number(value)), {name: value}


def _compared(place: str, comparison: str, *, with_texts: bool = False) -> str:
    """Return the predicate that compares the value at a place, or its tagged value.

    Args:
        with_texts: whether the text of a number is compared as a number, too.
    """

    def forms(value: str) -> str:
        form = f"{value} {comparison}"
        return f"{form} || {value} ? ({SHORT_NUMBER}).double() {comparison}" if with_texts else form

    return f'{forms(place)} || exists({place}."@") && ({forms(place + VALUE)})'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalar(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = _of_decimal(value)
    if not isinstance(value, SCALARS):
        raise TypeError("it must be text, a number, True, False or None.")
    if isinstance(value, str):
        return as_text(value, 10_000)
    if isinstance(value, float) and value - value != 0:
        raise ValueError("it must be a number that JSON has.")
    if isinstance(value, int) and abs(value) >= TOO_LARGE:
        raise ValueError("it must have 1000 digits at most.")
    return value


def _of_decimal(value: Decimal) -> int | float:
    """Return a JSON number of exactly the same value.

    Raises:
        ValueError: there is no such number.
    """
    if not value.is_finite() or value.adjusted() > 1000:
        raise ValueError("it must be a number that JSON has, of 1000 digits at most.")
    if value == value.to_integral_value():
        return int(value)
    if Decimal(repr(float(value))) != value:
        raise ValueError(
            "it has more digits than a float. Give its bounds instead: with gte, and with lte."
        )
    return float(value)
