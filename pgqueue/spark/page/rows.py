"""The report's tables as rows of plain Python values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from pgqueue.spark.report import Report

Row = Mapping[str, Any]
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""The characters that HTML must not contain."""


class Data:
    """The rows and facts of a report."""

    def __init__(self, report: Report) -> None:
        self.facts: Row = {name: plain(value) for name, value in report.facts.items()}
        self._tables = {name: _rows(frame) for name, frame in report.tables.items()}

    def rows(self, name: str) -> Sequence[Row]:
        """Return the rows of a table; none if the report has no such table."""
        return self._tables.get(name, [])

    @property
    def summary(self) -> Row:
        """The row of totals; without one, a row with 0 messages."""
        return next(iter(self.rows("summary")), {"messages": 0})


def _rows(frame: pd.DataFrame) -> list[Row]:
    return [
        {str(name): plain(value) for name, value in row.items()}
        for row in frame.to_dict(orient="records")
    ]


def plain(value: Any) -> Any:
    """Return a value of pandas or numpy as a plain Python value, and a missing one as None.

    Times without a zone are in UTC. An infinite number becomes None, since no plot can show it.
    Control characters are replaced.
    """
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime(warn=False)
    elif hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, str):
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    if value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def total(rows: Sequence[Row], column: str) -> float:
    """Return the sum of a column; a missing value counts as 0."""
    return float(sum(row[column] or 0 for row in rows))


def highest(rows: Sequence[Row], column: str) -> Row | None:
    """Return the row with the highest value of a column; None: no row has a value."""
    known = [row for row in rows if row[column] is not None]
    return max(known, key=lambda row: row[column], default=None)
