"""Suggest what was meant by an unknown name."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice

LISTED = 20
"""Names in one list, at most."""


def hint(given: object, known: Collection[str]) -> str:
    """Return a sentence that names the nearest known name, or else all known names."""
    return suggestion(given, known) or f"There are {', '.join(known)}."


def suggestion(given: object, known: Collection[str]) -> str | None:
    """Return a sentence that names the nearest known name; None: none is near."""
    near = get_close_matches(str(given), known, n=1)
    return f"Did you mean {near[0]!r}?" if near else None


def listed(names: Collection[str]) -> str:
    """Return the first names, and how many there are beside these."""
    first = ", ".join(islice(names, LISTED))
    rest = len(names) - LISTED
    return f"{first} and {rest} more" if rest > 0 else first
