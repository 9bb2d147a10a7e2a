"""The functions that make bodies of webhooks. A webhook stores the name of its function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from pgqueue.exceptions import InvalidWebhook
from pgqueue.values.discovery import import_declaring
from pgqueue.values.error_words import shown

Serializer: TypeAlias = "Callable[[list[Any]], tuple[bytes | str, str]]"
F = TypeVar("F", bound="Callable[..., tuple[bytes | str, str]]")

_declared: dict[str, Serializer] = {}


def serializer(function: F) -> F:
    """Declare a function that makes the bodies of webhooks.

        @webhooks.serializer
        def as_csv(events):
            return "".join(f"{each.position},{each.topic}\\n" for each in events), "text/csv"

    It takes a list of events; without batch, the list has one event. It returns the body, as bytes
    or text, and its content type. A webhook stores its name, and workers call only declared
    functions.

    Raises:
        InvalidWebhook: it is no function at the top of a module.
    """
    name = getattr(function, "__qualname__", "")
    if not name.isidentifier() or isinstance(function, type):
        raise InvalidWebhook(f"{shown(function)} must be a function at the top of a module.")
    _declared[f"{function.__module__}.{name}"] = function
    return function


def find_serializer(name: str) -> Serializer:
    """Return the declared function of this name, importing its module of the project.

    Raises:
        InvalidWebhook: no such function is declared.
    """
    if name not in _declared:
        import_declaring(name)
    if name not in _declared:
        raise InvalidWebhook(
            f"serializer: no function named {shown(name)} is declared by @webhooks.serializer here."
        )
    return _declared[name]


def name_of(given: Serializer | str | None) -> str:
    """Return the name of a declared serializer; "": none is given.

    Raises:
        InvalidWebhook: the serializer is not declared.
    """
    if given is None or given == "":
        return ""
    if isinstance(given, str):
        find_serializer(given)
        return given
    for name, declared in _declared.items():
        if declared is given:
            return name
    raise InvalidWebhook(f"serializer={shown(given)}: declare it by @webhooks.serializer.")
