"""Names and values in errors: what was meant by an unknown name, and a value in few words."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

LISTED = 20
"""Names in one list, at most."""
SHOWN = 200
"""Characters of a value in an error, at most."""


def hint(given: object, known: Collection[str]) -> str:
    """Return a sentence that names the nearest known name, or else all known names."""
    return suggestion(given, known) or f"There are {', '.join(known)}."


def suggestion(given: object, known: Collection[str]) -> str | None:
    """Return a sentence that names the nearest known name; None: none is near."""
    near = get_close_matches(str(given), known, n=1)
    return f"Did you mean {near[0]!r}?" if near else None


def shown(value: object) -> str:
    """Return a value's repr, cut to `SHOWN` characters; its type, if it has none."""
    try:
        text = repr(value)
    except Exception:  # nested too deeply, too many digits, or the class's own error
        return f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def listed(names: Collection[str]) -> str:
    """Return the first names, and how many there are beside these."""
    first = ", ".join(islice(names, LISTED))
    rest = len(names) - LISTED
    return f"{first} and {rest} more" if rest > 0 else first


def checked_option(
    check: Callable[[Any], T],
    name: str,
    value: Any,
    raised: type[Exception] = ValueError,
    *,
    caught: tuple[type[Exception], ...] = (TypeError, ValueError),
) -> T:
    """Return the value that a check returns. Its error names the option and the value.

    Args:
        check: raises an error where the value is invalid.
        name: of the option.
        raised: the class of the error.
        caught: the errors of the check.
    """
    try:
        return check(value)
    except caught as error:
        raise raised(f"{name}={shown(value)}: {error}") from error


def text_of(form: Callable[[], str]) -> str:
    """Return the text that a function forms; a note in its place, if the function raises."""
    try:
        return form()
    except BaseException as error:
        return f"(its text can't be had: {type(error).__name__})"
