"""Functions that would not do their work when they are called: refused where they are declared."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from pgqueue import PGQueueError, consumer, subscribe, task
from pgqueue.backend import api
from pgqueue.backend import task as django_task
from pgqueue.calls.callables import check_did_run, fault_of
from pgqueue.compat.celery import shared_task
from pgqueue.events import consumers
from pgqueue.exceptions import InvalidGroup, InvalidResult, InvalidSubscription, InvalidTask


def generator(event: Any = None) -> Iterator[int]:
    yield 1


async def async_generator(event: Any = None) -> AsyncIterator[int]:
    yield 1


async def coroutine(event: Any = None) -> int:
    return 1


def plain(event: Any = None) -> int:
    return 1


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        began = time.monotonic()
        try:
            return function(*args)
        finally:
            print(time.monotonic() - began)

    return wrapper


def running(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return asyncio.run(function(*args))

    return wrapper


def awaiting(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any) -> Any:
        return await function(*args)

    return wrapper


def of_main(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it is in the program that was started."""
    its: Any = function
    copied = FunctionType(its.__code__, its.__globals__, its.__name__, its.__defaults__)
    copied.__module__ = "__main__"
    return copied


WRONG = {
    "generator function": generator,
    "generator function, ": async_generator,
    "wrapper is not async": timed(coroutine),
    "its wrapper is not async": timed(timed(coroutine)),
    "__main__": of_main(plain),
}
RIGHT = [plain, coroutine, timed(plain), running(coroutine), awaiting(coroutine), timed(generator)]


@pytest.mark.parametrize(("reason", "function"), WRONG.items())
@pytest.mark.parametrize(
    ("declare", "error"),
    [
        (task, InvalidTask),
        (subscribe("a"), InvalidSubscription),
        (consumer("of callables"), InvalidGroup),
        (shared_task, InvalidTask),
        (django_task, api.InvalidTask),
    ],
    ids=["task", "subscribe", "consumer", "shared_task", "django task"],
)
def test_what_would_not_run_is_refused_with_the_reason(
    declare: Callable[[Any], Any], error: type[Exception], function: Any, reason: str
) -> None:
    with pytest.raises(Exception, match=reason.strip(" ,")) as raised:
        declare(function)

    assert isinstance(raised.value, error)


@pytest.mark.parametrize("function", RIGHT)
def test_what_runs_is_not(function: Any) -> None:
    assert fault_of(function) is None


def test_an_async_object_is_refused_by_a_group() -> None:
    class Handler:
        async def __call__(self, event: Any) -> None: ...

    with pytest.raises(InvalidGroup, match="async"):
        consumer("of callables")(Handler())
    assert fault_of(async_to_sync(coroutine)) is None


def test_an_object_whose_call_is_a_generator_is_refused() -> None:
    class Handler:
        def __call__(self, event: Any) -> Iterator[int]:
            yield 1

    with pytest.raises(InvalidGroup, match="generator function"):
        consumer("of callables")(Handler())


def test_a_coroutine_in_a_partial_is_found() -> None:
    found = functools.partial(coroutine)

    assert fault_of(timed(found)) is not None
    assert fault_of(functools.partial(timed(coroutine))) is not None


def test_a_handler_that_returns_what_nobody_runs_fails() -> None:
    made = consumer("of callables")(lambda event: coroutine(event))
    try:
        with pytest.raises(InvalidResult, match="returned a coroutine"):
            made.handle([object()])  # type: ignore[list-item]
    finally:
        del consumers._consumers["of callables"]


def test_an_async_object_under_a_wrapper_is_found() -> None:
    class Handler:
        async def __call__(self, event: Any) -> None: ...

    assert "Handler" in (fault_of(timed(Handler())) or "")


class Awaitable:
    def __await__(self) -> Iterator[Any]:
        yield


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (generator(), "returned a generator.*iterate over it"),
        (async_generator(), "returned a async generator.*iterate over it"),
        (Awaitable(), "returned a Awaitable.*await it"),
    ],
)
def test_a_result_that_nobody_runs_is_refused(returned: Any, said: str) -> None:
    with pytest.raises(InvalidResult, match=said):
        check_did_run("task", returned)


def test_any_other_value_is_a_result() -> None:
    for value in (1, "text", [], range(3), iter([1]), coroutine, Exception()):
        check_did_run("task", value)


def test_a_coroutine_is_closed() -> None:
    made = coroutine()

    with pytest.raises(PGQueueError):
        check_did_run("task", made)

    with pytest.raises(RuntimeError, match="reuse"):
        made.send(None)
