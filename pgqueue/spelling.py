"""Suggest what was meant by an unknown name."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def hint(given: object, known: Collection[str]) -> str:
    """Return a sentence that names the nearest known name, or else all known names."""
    near = get_close_matches(str(given), known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
