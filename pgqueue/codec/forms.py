"""The forms of collections and enums, from the writers of their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import chain, repeat
from operator import attrgetter, call
from typing import Any, Protocol

from pgqueue.codec.scalars import Form, Unknown, Unstorable, write_key


class Writer(Protocol):
    """Writes and reads the values of one type hint, as `encoding.Hint` does."""

    def write(self, value: Any) -> Any:
        """Return `value` as JSON."""

    def read(self, plain: Any) -> Any:
        """Return the value that was written."""


def full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")


def items_form(of: type, *firsts: Writer, rest: Writer) -> Form:
    """Return the form of a collection: the hints of its first items, and of the rest."""

    def hints() -> Iterator[Writer]:
        return chain(firsts, repeat(rest))

    def write(items: Any) -> list[Any]:
        pairs = zip(items, hints(), strict=False)
        return [write_at("[{}]", index, *pair) for index, pair in enumerate(pairs)]

    def read(plain: Any) -> Any:
        # Without a frame for each level: what can be written can be read.
        return of(map(call, map(attrgetter("read"), hints()), expect(list, plain)))

    return Form(of, of.__name__, (list,), write, read)


def dict_form(hint: Writer) -> Form:
    """Return the form of a dict whose values have this hint."""

    def write(items: Any) -> dict[str, Any]:
        return {
            write_key(key): write_at("[{!r:.99}]", key, item, hint) for key, item in items.items()
        }

    def read(plain: Any) -> dict[str, Any]:
        return dict(zip(expect(dict, plain), map(hint.read, plain.values()), strict=True))

    return Form(dict, "dict", (dict,), write, read)


def write_at(step: str, key: Any, value: Any, hint: Writer) -> Any:
    """Return `value` as JSON; where it has none, say at which step it was met.

    This also makes writing recurse deeper than reading: what can be stored can be read.
    """
    try:
        return hint.write(value)
    except Unstorable as error:
        error.path = step.format(key) + error.path
        raise


def enum_form(cls: type[Enum], anything: Writer) -> Form:
    """Return the form of an enum: the member's value if all are str or int, else its name."""

    def reading(find: Callable[[Any], Enum]) -> Callable[[Any], Enum]:
        def read(plain: Any) -> Enum:
            try:
                return find(plain)
            except (KeyError, ValueError) as error:
                raise Unknown(f"{full_name(cls)} has no member {plain!r:.200}") from error

        return read

    if all(type(member.value) in (str, int) for member in cls):
        kinds = tuple({type(member.value) for member in cls})
        return Form(
            cls, full_name(cls), kinds, lambda each: anything.write(each.value), reading(cls)
        )
    return Form(cls, full_name(cls), (str,), attrgetter("name"), reading(cls.__getitem__))


def expect(kind: type, plain: Any) -> Any:
    if type(plain) is not kind:
        raise TypeError(f"{plain!r:.200} is no {kind.__name__}")
    return plain
