"""A module of the project that declares no task and no backoff: no stored name may import it."""

from __future__ import annotations

from functools import cached_property


def function(*args: object) -> float:
    raise AssertionError("A stored name has called what was not declared.")


class Class:
    @cached_property
    def method(self) -> None:
        raise AssertionError("A stored name has called what was not declared.")


def outer() -> None:
    @cached_property
    def inner(self: object) -> None:
        raise AssertionError("A stored name has called what was not declared.")
