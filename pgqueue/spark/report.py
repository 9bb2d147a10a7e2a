"""A report on what ran: facts, and small tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd


class Report(NamedTuple):
    """What a report says."""

    facts: Mapping[str, object]
    """What is not a table: title, since, until, source and so on."""
    tables: Mapping[str, pd.DataFrame]
    """Small tables by name. Times are aware, in UTC; durations, named …_s, are in seconds."""
