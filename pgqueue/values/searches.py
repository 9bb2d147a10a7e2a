"""A search of messages by their content, in the words of lists and commands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pgqueue.values.error_words import hint
from pgqueue.values.names import as_text

KINDS = ("args", "meta", "tag", "error")
MOST_BYTES = 1000
MOST_NAMES = 20
FORMS = "args.order_id=7, args.order.id=7, meta.tenant=a, tag=import or error=no such order"

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True)
class ContentSearch:
    """A condition on the arguments, the metadata or the last error of a message.

    Args:
        kind: "args", "meta" or "error".
        path: the names that lead to the value; a number first: the place of an argument.
        value: the value as text. In JSON it equals a text, a number, true, false or null.
    """

    kind: str
    path: tuple[str, ...]
    value: str

    def json_path(self, position: int | None = None) -> str:
        """Return the condition on a payload or on metadata as a jsonpath predicate.

        Args:
            position: the place at which the first name of the path is a positional argument.
        """
        first, *rest = self.path
        below = "".join(f".{json.dumps(name)}" for name in rest)
        if self.kind == "meta":
            places = [f".{json.dumps(first)}{below}"]
        else:
            places = [f".kwargs.{json.dumps(first)}{below}"]
            if position is not None:
                places.append(f".args[{position}]{below}")
        values = [json.dumps(self.value)]
        if self.is_number or self.value in ("true", "false", "null"):
            values.append(self.value)
        return " || ".join(f"${place} == {value}" for place in places for value in values)

    def is_in(self, document: Any, position: int | None = None) -> bool:
        """Return whether a parsed payload, or parsed metadata, has the value at the place.

        Args:
            position: see `json_path`.
        """
        if self.kind == "meta":
            return self._is_below(document, self.path)
        if self._is_below(document.get("kwargs"), self.path):
            return True
        args = _each(document.get("args", []))
        if position is None or position >= len(args):
            return False
        return self._is_below(args[position], self.path[1:])

    @property
    def is_number(self) -> bool:
        """Whether the value can be a number of JSON."""
        return _NUMBER.fullmatch(self.value) is not None

    def _is_below(self, value: Any, path: tuple[str, ...]) -> bool:
        """Compare as jsonpath does: a list stands for its items, and an inner list for itself."""
        found = _each(value)
        for name in path:
            below = [each[name] for each in found if isinstance(each, dict) and name in each]
            found = [item for each in below for item in _each(each)]
        return any(map(self._equals, found))

    def _equals(self, value: Any) -> bool:
        if isinstance(value, Decimal):
            return self.is_number and value == Decimal(self.value)
        if value is None or isinstance(value, bool):
            return self.value == json.dumps(value)
        return isinstance(value, str) and self.value == value


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def parsed(text: str) -> ContentSearch:
    """Return the search that a text says: see `FORMS`.

    Raises:
        TypeError: it is no text.
        ValueError: it begins with no kind of a search, names no place, or has no value.
    """
    where, equals, value = as_text(text, MOST_BYTES).partition("=")
    kind, dot, place = where.strip().partition(".")
    path = tuple(place.split(".")) if dot else ()
    if kind not in KINDS or not equals:
        raise ValueError(f"{text!r:.99} is no search: {FORMS}. {hint(kind, KINDS)}".rstrip())
    if not value.strip():
        raise ValueError(f"{text!r:.99} has no value behind its equals sign.")
    if kind in ("tag", "error"):
        if dot:
            raise ValueError(f"{text!r:.99}: {kind} has no names: {kind}=import.")
        path = ("tags",) if kind == "tag" else ()
        return ContentSearch("meta" if kind == "tag" else kind, path, value.strip())
    if not path or not all(path) or len(path) > MOST_NAMES:
        raise ValueError(
            f"{text!r:.99}: 1 to {MOST_NAMES} names must lead to the value: {kind}.order.id=7."
        )
    return ContentSearch(kind, path, value.strip())


def as_search(text: str) -> str:
    """Return a text if it says a search of messages.

    Raises:
        TypeError, ValueError: as `parsed`.
    """
    parsed(text)
    return text


def is_search(text: str) -> bool:
    """Return whether a term of a search box is meant as a search of contents."""
    return re.match(rf"({'|'.join(KINDS)})[.=]", text) is not None and "=" in text
