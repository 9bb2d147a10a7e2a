"""The rebuild of a group: its value, its name, and the mark of its calls.

A rebuild reads the log from the beginning beside the live group, as a second group with a name of
its own. So its position, leases and failures are stored as for any other group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pgqueue.calls.callables import fault_of, is_coroutine_function
from pgqueue.exceptions import InvalidGroup
from pgqueue.values.error_words import shown

SUFFIX = ":rebuild"

_rebuilding: ContextVar[str] = ContextVar("rebuilding", default="")
"""The live group whose rebuild calls the handler now; "": none."""


@dataclass(frozen=True, kw_only=True)
class Rebuild:
    """The functions that begin and end the rebuild of a group.

        @consumer("sales", topics="order.*", rebuild=Rebuild(begin=empty, hand_over=swap))
        def count(event):
            table = NextSales if count.is_rebuilding else Sales

    Both are called without arguments, in a transaction on the group's database.

    Args:
        begin: called by `groups.rebuild()`, in the transaction that starts the rebuild. It empties
            the second table.
        hand_over: called in the transaction that ends the rebuild. Then the second table has
            exactly the events that the live group has handled. It swaps the tables.

    Raises:
        InvalidGroup: a function is not callable, or is async.
    """

    begin: Callable[[], Any]
    hand_over: Callable[[], Any]

    def __post_init__(self) -> None:
        for name, function in (("begin", self.begin), ("hand_over", self.hand_over)):
            if not callable(function):
                raise InvalidGroup(f"{name}={shown(function)}: it can't be called.")
            if fault := fault_of(function, by_name=False):
                raise InvalidGroup(f"{name}={shown(function)}: {fault}.")
            if is_coroutine_function(function):
                raise InvalidGroup(
                    f"{name}={shown(function)}: it is async: wrap it in asgiref's async_to_sync."
                )


def rebuild_name(group: str) -> str:
    """Return the name of the group that rebuilds another one."""
    return group + SUFFIX


def is_rebuild(group: str) -> bool:
    """Return whether a name is the name of a rebuild."""
    return group.endswith(SUFFIX)


def checked_new(group: str) -> str:
    """Return the name of a new group if it is not reserved for a rebuild.

    Raises:
        ValueError: it is reserved.
    """
    if is_rebuild(group):
        raise ValueError(f"names with {SUFFIX!r} at their end are reserved for rebuilds.")
    return group


def rebuilt_now() -> str:
    """Return the group whose rebuild calls the handler now; "": none."""
    return _rebuilding.get()


@contextmanager
def rebuilding(group: str) -> Iterator[None]:
    """Mark the calls of a block as calls of a group's rebuild."""
    token = _rebuilding.set(group)
    try:
        yield
    finally:
        _rebuilding.reset(token)
