"""Types of a project that are arguments: `register`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pgqueue.codec import encoding
from pgqueue.codec.coded_forms import coded_form
from pgqueue.codec.forms import full_name
from pgqueue.exceptions import InvalidType

T = TypeVar("T")

_functions: dict[type, tuple[Any, Any]] = {}


def register(cls: type[T], /, *, encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
    """Register a type of arguments, results, progress and payloads, and of their parts.

        register(Money, encode=str, decode=Money.parse)

    Call it in a module that each process imports which enqueues or runs: beside the class, or in
    `AppConfig.ready()`. A value needs no type hint. With the type as its hint, it is stored as
    `encode` returns it, and SQL may send the same. Otherwise, it has a tag with the import path of
    its type. A process in which no type has this path hands the message back.

    The type is registered without its subclasses: an instance of a subclass is refused. Where no
    hint names the type, an instance of a subclass of str, int or Decimal is stored as its base
    class. Register each by itself.

    Args:
        cls: the type. It may be a dataclass, an enum or a model, which then has this form.
        encode: returns JSON values for an instance: None, bool, int, float, str, and lists and
            dicts of them. Its errors raise InvalidArgument or InvalidResult, which names the
            argument and the task.
        decode: returns the instance for these values. ValueError, TypeError, LookupError and
            ArithmeticError mean that the values are invalid (UnreadablePayload). Another error is
            the run's own; a note in it names the argument and the task.

    Raises:
        InvalidType: it is no class, has a form of its own (str, datetime, list), or is
            registered with other functions.
    """
    if not isinstance(cls, type):
        raise InvalidType(f"register({cls!r:.99}): it must be a class.")
    name = full_name(cls)
    if cls in encoding.KNOWN or cls is object:
        raise InvalidType(f"register({name}): the form of this type is fixed; register a subclass.")
    for given, function in (("encode", encode), ("decode", decode)):
        if not callable(function):
            raise InvalidType(f"register({name}): {given}={function!r:.99} must be a function.")
    if _functions.setdefault(cls, (encode, decode)) != (encode, decode):
        raise InvalidType(
            f"register({name}): it is registered with other functions already. Register it once."
        )
    if cls not in encoding.own_forms:
        encoding.add_own_form(coded_form(cls, encode, decode, encoding.ANYTHING))
