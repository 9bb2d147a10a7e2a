"""A section of the page: what was found, how to read it, and what shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgqueue.spark.page import units
from pgqueue.spark.page.plots import Grid, Plot, Rows
from pgqueue.spark.page.tables import Table

NO_NAME = "(none)"


@dataclass(frozen=True)
class Section:
    """What the template shows of one subject."""

    key: str
    label: str
    """In the table of contents."""
    title: str
    """The finding, a sentence without its full stop."""
    how: str = ""
    """How to read it."""
    figures: Sequence[Plot | Rows | Grid] = ()
    tables: Sequence[Table] = ()
    needs_attention: bool = False
    is_empty: bool = False
    """Then `how` says why."""


def empty(key: str, label: str, title: str, why: str) -> Section:
    """Return a section that has nothing to show.

    Args:
        why: a sentence.
    """
    return Section(key, label, title, why, is_empty=True)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names with commas and an "and", and how many others there are."""
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
