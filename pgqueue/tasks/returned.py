"""The type of a return value: of an async task, the type that its coroutine returns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any, Protocol, TypeVar, cast, overload

from pgqueue.tasks.declaration import Declaration

T = TypeVar("T")


class OfTask(Protocol[T]):
    """A `TaskResult`, as far as its type is concerned."""

    @property
    def task(self) -> Declaration[Any, T]:
        """Its task."""


class ReturnValue(Protocol):
    """A property whose type is the type of a task's return value."""

    @overload
    def __get__(self, instance: None, owner: type) -> ReturnValue: ...
    @overload
    def __get__(self, instance: OfTask[Coroutine[Any, Any, T]], owner: type) -> T: ...
    @overload
    def __get__(self, instance: OfTask[CoroutineType[Any, Any, T]], owner: type) -> T: ...
    @overload
    def __get__(self, instance: OfTask[T], owner: type) -> T: ...


def returned(function: Callable[[Any], Any]) -> ReturnValue:
    """Make a property of a method that returns a task's return value, or a stand-in for it."""
    return cast("ReturnValue", property(function))
