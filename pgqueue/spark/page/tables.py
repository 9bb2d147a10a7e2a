"""The tables of the page: the first rows, and the other rows on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pgqueue.spark.page import units
from pgqueue.spark.page.rows import Row

SHOWN = 15
"""The rows that are shown at first."""
MOST = 200
"""The most rows of a table in the page; the files of the report have all rows."""

LABELS: Mapping[str, str] = {
    "at": "time (UTC)",
    "hour": "hour (UTC)",
    "wait_p99_s_of_others": "others' wait p99",
    "error_class": "error",
    "per_s": "per second",
    "began_at": "from",
    "ended_at": "to",
    "first_at": "first",
    "last_at": "last",
    "retries_per_message": "a message",
    "usual_retries_per_message": "usually",
}
"""Headings that differ from the column's name."""


class Cell(NamedTuple):
    """A text and its class of CSS."""

    text: str
    look: str


class Table(NamedTuple):
    """A table for the template."""

    caption: str
    headings: Sequence[Cell]
    shown: Sequence[Sequence[Cell]]
    others: Sequence[Sequence[Cell]]
    left_out: int


def table(
    caption: str,
    rows: Sequence[Row],
    *,
    without: Sequence[str] = (),
    shown: int = SHOWN,
) -> Table:
    """Return a table of some rows, each column in its own unit.

    Args:
        without: the columns to leave out.
        shown: the number of rows that are shown at first.
    """
    names = [name for name in (rows[0] if rows else ()) if name not in without]
    headings = [Cell(_heading(name), _look(rows, name)) for name in names]
    looks = [each.look for each in headings]
    cells = [
        [Cell(_text(name, row[name]), look) for name, look in zip(names, looks, strict=True)]
        for row in rows[:MOST]
    ]
    return Table(caption, headings, cells[:shown], cells[shown:], len(rows) - len(cells))


def _text(name: str, value: Any) -> str:
    if value is None:
        return units.MISSING
    return value if isinstance(value, str) else _format_of(name)(value)


def _look(rows: Sequence[Row], name: str) -> str:
    return "text" if any(isinstance(row[name], str) for row in rows) else "number"


def _heading(name: str) -> str:
    return LABELS.get(name) or name.removesuffix("_s").replace("_", " ")


def _format_of(name: str) -> Callable[[Any], str]:
    if name == "hour" or name == "at" or name.endswith("_at"):
        return _time
    if name == "per_s":
        return units.number
    if name.endswith("_s") or name == "wait_p99_s_of_others":
        return units.seconds
    if name in SHARES or name.endswith(("_rate", "share")):
        return units.share
    return units.times if name in FACTORS else units.number


SHARES = {"attained", "target", "budget_left", "utilisation"}
FACTORS = {"ratio", "burn", "worst_burn"}


def _time(value: Any) -> str:
    """Return a time, or an hour of the day that is a number."""
    return units.when(value) if hasattr(value, "astimezone") else f"{int(value):02}:00"
