"""Conditions in SQL of readers: tails, groups and streams to browsers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgqueue.exceptions import InvalidFilter
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.json_checks import as_object
from pgqueue.values.names import as_text

PREDICATE_BYTES = 40_000
"""The limit of a predicate's bytes. The engine limits its characters."""


@dataclass(frozen=True)
class SQLCondition:
    """A condition in SQL over an event `e` and its reader `s`.

    Attributes:
        predicate: the SQL.
        reader: JSON: the row `s`, with the reader's name and the params of the predicate.
    """

    predicate: str
    reader: str


def as_sql_condition(
    predicate: Any, params: Mapping[str, Any] | None, *, name: str = ""
) -> SQLCondition | None:
    """Return the condition for the options `predicate` and `params`; None: there is none.

    Args:
        name: the name of the reader: `s.name`.

    Raises:
        InvalidFilter: an option is invalid. The database checks the predicate later.
    """
    text = checked_option(as_predicate, "predicate", predicate, InvalidFilter)
    given = {} if params is None else checked_option(as_object, "params", params, InvalidFilter)
    if not text:
        if given:
            raise InvalidFilter(f"params={shown(params)}: give predicate=, too.")
        return None
    return SQLCondition(text, json.dumps({"name": name, "params": given}, sort_keys=True))


def as_predicate(value: Any) -> str:
    """Return `value` if it can be a predicate; "" is none.

    Raises:
        TypeError, ValueError: it is no text, or too long.
    """
    return as_text(value, PREDICATE_BYTES)
