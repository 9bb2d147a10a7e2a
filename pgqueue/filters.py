"""Which events: by patterns of topics, and by what their payloads contain.

A pattern is a topic in which `*` stands for one word, and `**`, as its last word, for one or more:
"order.*" is "order.paid" and not "order.line.added"; "order.**" is both, and "**" is all topics.

Conditions on payloads have the form of Django's lookups: `{"total__gte": 100, "customer__country":
"DE"}`. They become one jsonpath, whose values are its variables: PostgreSQL never sees SQL that was
made of values. A value that is missing, or of another type, meets no condition but `exists: False`;
a list meets one that an item of it does. A number is also compared with the text of one, which is
how Decimals are stored.
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
from pgqueue.names import KEY_LIMIT, as_text
from pgqueue.quantities import as_flag
from pgqueue.spelling import hint, shown

TOPIC_LIMIT = 200  # bytes
WORD = re.compile(r"[^.*\s]+")
ANY_WORD, ANY_WORDS = "*", "**"

COMPARED = {"ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
ALL = "true"
"""The SQL condition that every event meets."""
LOOKUPS = ("exact", *COMPARED, "in", "contains", "startswith", "exists")
SCALARS = (str, int, float, bool, type(None))
TOO_LARGE = 10**1000


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
        object.__setattr__(self, "where", dict(self.where))
        _ = self.path  # checks the conditions

    def __hash__(self) -> int:
        return hash((self.topics, self.path))

    @cached_property
    def path(self) -> str:
        """The conditions as a jsonpath predicate; "": there are none."""
        return " && ".join(f"({path})" for path, _ in self._conditions)

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
            parts.append(
                "jsonb_path_match(coalesce(e.payload, 'null'), %(filter_path)s::jsonpath, "
                "%(filter_vars)s::jsonb, true)"
            )
        return " AND ".join(parts) or ALL

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `sql`."""
        return {
            "filter_topics": self._plain,
            "filter_regex": self.regex,
            "filter_path": self.path,
            "filter_vars": json.dumps(self.variables),
        }

    @cached_property
    def equality(self) -> tuple[str, Any]:
        """A jsonpath and the value that one of its items must equal; ("", None): there is none.

        Many filters that differ in this value alone are looked up by it at once.
        """
        for lookup, value in _flat(self.where):
            path, how = _split(lookup)
            if how == "exact" and value is not None:
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
            if where.setdefault(lookup, value) != value:
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


def _condition(name: str, lookup: str, value: Any) -> tuple[str, dict[str, Any]]:
    """Return a jsonpath predicate, and its variables."""
    try:
        path, how = _split(lookup)
        return _predicate(name, _place(path), how, value)
    except (TypeError, ValueError) as error:
        raise InvalidFilter(f"where[{lookup!r}] = {shown(value)}: {error}") from error


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


def _predicate(name: str, place: str, how: str, value: Any) -> tuple[str, dict[str, Any]]:
    if how == "exists":
        return (f"exists({place})" if as_flag(value) else f"!(exists({place}))"), {}
    if how == "startswith":
        if not isinstance(value, str):
            raise TypeError("it must be text.")
        return f"{place} starts with ${name}", {name: as_text(value, 10_000)}
    if how == "in":
        if not isinstance(value, list | tuple | set | frozenset) or not value:
            raise TypeError("it must be a list of values.")
        return f"{place} == ${name}[*]", {name: [_scalar(each) for each in value]}
    if how == "contains":
        return f"{place}[*] == ${name}", {name: _scalar(value)}
    compared = _scalar(value)
    operator = COMPARED.get(how, "==")
    if isinstance(compared, int | float) and not isinstance(compared, bool):
        # A Decimal is text in typed events, and tagged in others.
        forms = (place, f"{place}.double()", f'{place}."value".double()')
        return " || ".join(f"{form} {operator} ${name}" for form in forms), {name: compared}
    return f"{place} {operator} ${name}", {name: compared}


def _scalar(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if not isinstance(value, SCALARS):
        raise TypeError("it must be text, a number, True, False or None.")
    if isinstance(value, str):
        return as_text(value, 10_000)
    if isinstance(value, float) and value - value != 0:
        raise ValueError("it must be a number that JSON has.")
    if isinstance(value, int) and abs(value) >= TOO_LARGE:
        raise ValueError("it must have 1000 digits at most.")
    return value
