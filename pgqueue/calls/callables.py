"""Whether a call of the project's function does the work, or only returns what would do it.

A call of a generator function or of a coroutine function runs none of its code. If its task went
unnoticed, each message would succeed, and nothing would be done.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import partial
from inspect import getattr_static
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from pgqueue.exceptions import InvalidResult

RUNS_IT = re.compile(r"run|sync|loop|wait", re.IGNORECASE)
"""Names in a wrapper by which it may run the coroutine itself: `asyncio.run`, `async_to_sync`."""


def fault_of(function: Any, *, by_name: bool = True) -> str | None:
    """Return why a call of this function would not do its work; None: it does, as far as is known.

    Args:
        by_name: whether another process must find the function by its import path.
    """
    if by_name and getattr(function, "__module__", None) == "__main__":
        return (
            "it is in __main__, the program that was started, which a worker can't import: put it "
            "in a module of an app"
        )
    *wrappers, inner = _chain(function)
    if _is_generator(function):
        return (
            "it is a generator function, and a call of it runs none of its code: collect what it "
            "yields in a function that returns"
        )
    if is_coroutine_function(function) or not is_coroutine_function(inner):
        return None
    if any(map(_may_run, wrappers)):
        return None
    return (
        "its wrapper is not async, and nobody awaits the coroutine of "
        f"{getattr(inner, '__qualname__', type(inner).__qualname__)}: make the wrapper an async "
        "function, or have it run the coroutine by async_to_sync"
    )


def _chain(function: Any) -> Iterator[Any]:
    """Yield a function, what it wraps, and so on, as `functools.wraps` notes it."""
    seen = []
    while function is not None and function not in seen:
        seen.append(function)
        yield function
        wrapped = getattr(function, "__wrapped__", None)
        function = function.func if isinstance(function, partial) else wrapped


def _is_generator(function: Any) -> bool:
    call = getattr_static(type(function), "__call__", None)
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_one(each) for is_one in kinds for each in (function, call))


def is_coroutine_function(function: Any) -> bool:
    """Return whether a call of this function, or of this object, returns a coroutine."""
    call = getattr_static(type(function), "__call__", None)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _may_run(wrapper: Any) -> bool:
    """Whether a wrapper may run the coroutine that it is returned."""
    if isinstance(wrapper, partial):
        return False
    if not inspect.isfunction(wrapper):
        return True  # such as an AsyncToSync
    code = wrapper.__code__
    return any(map(RUNS_IT.search, (*code.co_names, *code.co_freevars)))


def check_did_run(name: str, returned: Any) -> None:
    """Refuse what a function returned if that would still have to be run.

    Raises:
        InvalidResult: it is a coroutine, another awaitable or a generator.
    """
    if isinstance(returned, GeneratorType | AsyncGeneratorType):
        instead = "iterate over it in the function"
    elif hasattr(type(returned), "__await__"):
        instead = "await it in the function, which must be async"
    else:
        return
    if isinstance(returned, CoroutineType):
        returned.close()  # else Python warns of it, too
    kind = type(returned).__name__.replace("_", " ")
    raise InvalidResult(f"{name} returned a {kind}, whose code nobody runs: {instead}.")
