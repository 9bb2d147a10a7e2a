"""A section of the page: a finding, an explanation, and plots and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgqueue.spark.page import units
from pgqueue.spark.page.plots import Grid, Plot, Rows
from pgqueue.spark.page.tables import Table

NO_NAME = "(none)"


@dataclass(frozen=True)
class Section:
    """The part of the page about one subject."""

    key: str
    label: str
    """The entry in the table of contents."""
    title: str
    """The finding, a sentence without its full stop."""
    how: str = ""
    """The explanation of the plots."""
    figures: Sequence[Plot | Rows | Grid] = ()
    tables: Sequence[Table] = ()
    needs_attention: bool = False
    is_empty: bool = False
    """Whether the section is empty; then `how` gives the reason."""


def empty(key: str, label: str, title: str, why: str) -> Section:
    """Return a section without plots.

    Args:
        why: the reason, a sentence.
    """
    return Section(key, label, title, why, is_empty=True)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names with commas and an "and", and the number of further names."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def shortened(text: str | None, most: int = 60) -> str:
    """Return a text that fits a title."""
    text = " ".join((text or NO_NAME).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def counted(count: float, one: str, many: str = "") -> str:
    """Return '1 message', or '12.3 k messages'."""
    return f"{units.number(count)} {one if count == 1 else many or f'{one}s'}"
