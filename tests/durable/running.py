"""Durable tasks in tests: declared in the test, run by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgqueue import task
from pgqueue.database.connections import borrow
from pgqueue.engine import dispatch, sequence
from pgqueue.exceptions import InvalidStep
from pgqueue.models import History, Message, Step
from pgqueue.testing import run_all

calls: list[Any] = []
"""What the functions of a test have done, in their order."""


def durable(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a durable task in a test, as if its function stood in the module."""

    def declare(function: Callable[..., Any]) -> Any:
        return declared(function, durable=True, **options)

    return declare if function is None else declare(function)


def declared(function: Callable[..., Any], **options: Any) -> Any:
    """Declare a task in a test, as if its function stood in the module."""
    function.__qualname__ = function.__name__
    return task(**options)(function)


def add(left: int, right: int) -> int:
    calls.append(("add", left, right))
    return left + right


def double(value: int) -> int:
    calls.append(("double", value))
    return 2 * value


class Oops(Exception):
    """Raised by steps."""


def run(result: Any) -> str:
    """Run everything that is ready; return the status of the message."""
    run_all()
    result.refresh()
    return str(result.status)


def returned(result: Any) -> Any:
    """Run everything that is ready; return the result of the message, which must have succeeded."""
    run_all()
    result.refresh()
    assert result.status == "succeeded", [each.traceback for each in result.errors]
    return result.return_value


def deliver() -> None:
    """Give positions to published events, and have the dispatch look at them."""
    with borrow("default") as connection:
        sequence.catch_up(connection)
        with connection.transaction():
            dispatch.step(connection)


def names(result: Any) -> list[str]:
    """Return the names of the steps that are stored of a live message, in their order."""
    steps = Step.objects.filter(message_id=int(result.id)).order_by("number")
    return list(steps.values_list("name", flat=True))


def attempts(result: Any) -> int:
    """Return how often a message was claimed."""
    found: list[int] = []
    for model in (Message, History):
        found += model.objects.filter(id=int(result.id)).values_list("attempt", flat=True)
    return max(found)


def kept(result: Any) -> dict[str, Any]:
    """Return what history keeps of the steps of a message."""
    found: dict[str, Any] = History.objects.get(id=int(result.id)).steps
    return found


def refused(function: Any, *, with_: type[BaseException] = InvalidStep) -> str:
    """Run a durable task that meets an error; return the error's text."""
    result = durable(function, max_attempts=1).enqueue()
    assert run(result) == "dead"
    [error] = result.errors
    assert error.exception_class_path.endswith(f".{with_.__name__}"), error
    return str(error.traceback)
