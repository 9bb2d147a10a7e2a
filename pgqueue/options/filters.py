"""Select events: by patterns of topics, and by conditions on their payloads.

`pgqueue_comparable_v1` and this module define the meaning of a filter for PostgreSQL, and
`tests/events/test_one_meaning.py` defines it again in Python. A new lookup goes into both.

A pattern is a topic in which `*` stands for one word, and `**`, as its last word, for one or more:
"order.*" is "order.paid" and not "order.line.added"; "order.**" is both, and "**" is all topics.

Conditions on payloads have the form of Django's lookups: `{"total__gte": 100, "customer__country":
"DE"}`. They become one jsonpath, whose values are its variables: PostgreSQL never sees SQL that was
made of values. A value that is missing, or of another type, meets no condition but `exists: False`;
a list meets one that an item of it does.

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
from pgqueue.values.error_words import hint, shown
from pgqueue.values.names import KEY_LIMIT, as_text
from pgqueue.values.number_checks import as_flag

TOPIC_LIMIT = 200  # bytes
WORD = re.compile(r"[^.*\s]+")
ANY_WORD, ANY_WORDS = "*", "**"

COMPARED = {"ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
ALL = "true"
"""The SQL condition that every event meets."""
LOOKUPS = ("exact", *COMPARED, "in", "contains", "startswith", "exists")
SCALARS = (str, int, float, bool, type(None))
TOO_LARGE = 10**1000

SHORT_NUMBER = '@ like_regex "^-?[0-9]+([.][0-9]+)?$" && @ like_regex "^.{1,15}$"'
"""The text of a number that `.double()` reads exactly: that keeps 15 digits.

Two simple expressions, since PostgreSQL 16 and later compile them whenever they parse a path.
"""
VALUE = ' ? (exists(@."@"))."value"'
"""The step from a tagged value to its value."""
LONG_NUMBER = 'like_regex "^-?[0-9.]{15}|^-?[0-9.]+[eE]"'
WRITTEN_OUT = (
    f'@ {LONG_NUMBER} || exists(@."@") && '
    f'(@."value" {LONG_NUMBER} || @."value".type() == "object" || @."value".type() == "array")'
)
"""The values that `pgqueue_comparable_v1` has to write out, and a few more."""


def as_topic(value: Any) -> str:
    """Return `value` if it can be a topic: words with dots between them.

    Raises:
        InvalidEvent: it can't.
    """
    try:
        # Of a subclass, its text: what it is equal to is its own matter.
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
    """Return `value` if it can be a pattern of topics.

    Raises:
        InvalidFilter: it can't.
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
    """Return a pattern of topics as a regular expression, PostgreSQL's and Python's alike."""
    words = {ANY_WORD: "[^.]+", ANY_WORDS: ".+"}
    return "^" + r"\.".join(words.get(each, _quoted(each)) for each in pattern.split(".")) + "$"


def _quoted(word: str) -> str:
    return re.sub(r"([^\w])", r"\\\1", word)


def covers(pattern: str, other: str) -> bool:
    """Return whether a pattern stands for all topics that another one stands for."""
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
    """Events of these topics, with payloads that meet these conditions.

    Args:
        topics: patterns; none: all topics.
        where: conditions, all of which must hold.

    Raises:
        InvalidFilter: one can't be.
    """

    topics: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given: Any = self.topics
        patterns = (given,) if isinstance(given, str) else tuple(given)
        object.__setattr__(self, "topics", tuple(dict.fromkeys(map(as_pattern, patterns))))
        if not isinstance(self.where, Mapping):
            raise InvalidFilter(f"where={shown(self.where)}: it must be a dict of conditions.")
        object.__setattr__(self, "where", _plain(self.where))
        _ = self.path  # checks the names in the conditions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @cached_property
    def _identity(self) -> tuple[tuple[str, ...], str]:
        # As JSON: to Python, 1 and True are equal.
        return self.topics, json.dumps(self.where, sort_keys=True)

    @cached_property
    def path(self) -> str:
        """The conditions as a jsonpath predicate; "": there are none."""
        return " && ".join(f"({path})" for path, _ in self._conditions)

    @cached_property
    def unusual(self) -> str:
        """A jsonpath predicate: a value on the way to a compared one has to be written out."""
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
        if self.path:
            # Only few payloads need to be written out, which takes long.
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
        }

    @cached_property
    def equality(self) -> tuple[str, Any]:
        """A jsonpath and the value that one of its items must equal; ("", None): there is none.

        Many filters that differ in this value alone are looked up by it at once.
        """
        for lookup, value in _flat(self.where):
            path, how = _split(lookup)
            if how in ("exact", "contains") and value is not None:
                return _place(path) + "[*]", value
        return "", None

    @cached_property
    def exact_topics(self) -> list[str]:
        """The patterns that are topics."""
        return self._plain

    @cached_property
    def regex(self) -> str:
        """A regular expression of the other patterns; "": there are none."""
        return "|".join(map(as_regex, self._patterns))

    def narrowed(self, asked: Filter) -> Filter:
        """Return what `asked` wants of what this one wants.

        Raises:
            InvalidFilter: a pattern of `asked` is not within one of this one's, or both compare one
                value with two others in the same way.
        """
        for pattern in asked.topics if not self.wants_all_topics else ():
            if not any(covers(own, pattern) for own in self.topics):
                raise InvalidFilter(
                    f"topics={shown(pattern)}: there is {' and '.join(self.topics)} only."
                )
        where = dict(_flat(self.where))
        for lookup, value in _flat(asked.where):
            if json.dumps(where.setdefault(lookup, value)) != json.dumps(value):
                raise InvalidFilter(f"where[{lookup!r}] = {shown(value)}: another is given here.")
        return Filter(asked.topics or self.topics, where)

    @property
    def wants_all_topics(self) -> bool:
        """Whether it says nothing of topics."""
        return not self.topics or ANY_WORDS in self.topics

    @cached_property
    def _plain(self) -> list[str]:
        return [each for each in self.topics if ANY_WORD not in each]

    @cached_property
    def _patterns(self) -> list[str]:
        return [each for each in self.topics if ANY_WORD in each]


def as_filter(topics: str | Iterable[str] | None, where: Mapping[str, Any] | None) -> Filter:
    """Return the filter of these options.

    Raises:
        InvalidFilter: one can't be.
    """
    if topics is not None and not isinstance(topics, str | list | tuple | set | frozenset):
        raise InvalidFilter(f"topics={shown(topics)}: it must be a pattern, or a list of them.")
    return Filter(() if topics is None else topics, {} if where is None else where)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Place:
    """What of an event a text such as "{payload.customer.id}" means, or a text for all events.

    Attributes:
        text: as it was given.
        path: "": the text itself; "key" or "topic": the event's; else a jsonpath of its payload.
    """

    text: str
    path: str


def as_place(value: Any, limit: int) -> Place:
    """Return what `value` means: text, "{key}", "{topic}" or "{payload.NAME.NAME}".

    Raises:
        InvalidFilter: it can't be.
    """
    try:
        text = as_text(value, limit)
        if not (text.startswith("{") and text.endswith("}")):
            return Place(text, "")
        first, *rest = text[1:-1].split(".")
        if first in ("key", "topic") and not rest:
            return Place(text, first)
        if first != "payload" or not rest or not all(rest):
            raise ValueError("in braces there may be {key}, {topic} or {payload.NAME}.")
        return Place(text, "$" + "".join(f".{json.dumps(each)}" for each in rest))
    except (TypeError, ValueError) as error:
        raise InvalidFilter(f"{shown(value)}: {error}") from error


def compiled(wanted: Filter, *, key: str, split_by: str) -> dict[str, Any]:
    """Return what the statement that matches needs of a subscription, by its columns.

    Raises:
        InvalidFilter: a place can't be.
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
    """Return conditions without nesting: {"a": {"b": 1}} is {"a__b": 1}."""
    flat: list[tuple[str, Any]] = []
    for name, value in where.items():
        if not isinstance(name, str):
            raise InvalidFilter(f"where has the key {shown(name)}, which is no text.")
        lookup = within + name
        if isinstance(value, Mapping):
            if not value:
                raise InvalidFilter(f"where[{lookup!r}] = {{}}: it says nothing.")
            flat += _flat(value, f"{lookup}__")
        else:
            flat.append((lookup, value))
    return flat


def _plain(where: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Return conditions as they are stored: of what JSON has, and in the same order each time."""
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
    """Return a jsonpath predicate, and its variables; of conditions that are plain."""
    path, how = _split(lookup)
    return _predicate(name, _place(path), how, value)


def _split(lookup: str) -> tuple[list[str], str]:
    """Return the names in a lookup, and how it compares."""
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
    """Return the operand of a lookup, as JSON has it.

    Raises:
        TypeError, ValueError: the lookup has no such operand.
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
        # A set has another order in each process.
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
        with_texts: compare the text of a number as that number, too.
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
    """Return a number that JSON has, of exactly the same value.

    Raises:
        ValueError: there is none.
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
