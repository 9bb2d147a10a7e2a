"""The record of an option, from which checks, forms, rows, lists and docs follow.

A room that offers options has a TypedDict of them, for signatures with `Unpack`, beside a dict of
records. A test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, TypeAlias, TypeVar

from pgqueue.exceptions import PGQueueError
from pgqueue.values.error_words import checked_option, hint

Check: TypeAlias = "Callable[[Any], Any]"
"""Returns a value in its stored form. Raises TypeError, ValueError or a PGQueueError."""
F = TypeVar("F", bound="Callable[..., Any]")

HERE = re.compile(r"^( *)\{options\}\n", re.MULTILINE)
"""The line of a docstring in whose place `documents` writes the options.

Python 3.13 and later remove the indentation that all lines have.
"""
WIDTH = 100


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option that users declare, and that a row stores.

    Attributes:
        about: the meaning and the unit, in Markdown, for the reference and the guide.
        check: the check of a value that code gives.
        row_check: the check of a stored value, if its form differs from the one that code gives.
        default: the value that is checked if none is given.
        default_words: the default, in Markdown, for the guide.
        help: the help text in the admin, which can be translated.
        section: the part of the admin's form that has its field.
        is_column: whether the row has a column of this name.
        is_json: whether this column is JSON.
        is_matched: whether columns of the statement that matches follow from this column.
        is_secret: whether errors must not have the value.
        names_itself: whether the errors of its check name the option already.
    """

    about: str
    check: Check
    row_check: Check | None = None
    default: Any = None
    default_words: str = ""
    help: Any = ""
    section: str
    is_column: bool = True
    is_json: bool = False
    is_matched: bool = False
    is_secret: bool = False
    names_itself: bool = False


Record: TypeAlias = "Mapping[str, Option]"


def checked(
    record: Record, given: Mapping[str, Any], *, noun: str, raised: type[Exception]
) -> dict[str, Any]:
    """Return the value of each option of a record in its stored form.

    Args:
        given: options by name. The defaults stand in for the others.
        noun: the thing that has the options, with its article.
        raised: the class of the error.

    Raises:
        raised: an option is unknown, or its value is invalid.
    """
    for name in given:
        if name not in record:
            raise raised(f"{noun} has no option {name!r}. {hint(name, record)}")
    return {
        name: _checked(name, option, given.get(name, option.default), raised)
        for name, option in record.items()
    }


def _checked(name: str, option: Option, value: Any, raised: type[Exception]) -> Any:
    if option.names_itself:
        return option.check(value)
    if not option.is_secret:
        caught = (TypeError, ValueError, PGQueueError)
        return checked_option(option.check, name, value, raised, caught=caught)
    try:
        return option.check(value)
    except (TypeError, ValueError) as error:
        raise raised(f"{name}: {error}") from error


def optional(check: Check, none: Callable[[], Any] = lambda: None) -> Check:
    """Return a check that also takes None, and returns `none()` for it."""
    return lambda value: none() if value is None else check(value)


def in_section(record: Record, *sections: str) -> tuple[str, ...]:
    """Return the names of the options whose fields stand in these sections of a form."""
    return tuple(
        name for section in sections for name, each in record.items() if each.section == section
    )


def documents(record: Record) -> Callable[[F], F]:
    """Return a decorator that writes a record's options into a function's docstring."""

    def documented(function: F) -> F:
        # `python -OO` leaves docstrings out.
        if function.__doc__:
            function.__doc__ = HERE.sub(
                lambda found: "".join(
                    _argument(name, each.about, found[1]) for name, each in record.items()
                ),
                function.__doc__,
            )
        return function

    return documented


def _argument(name: str, about: str, indent: str) -> str:
    lines = wrap(
        f"{name}: {about}",
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) + "\n"
