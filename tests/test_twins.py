"""An async twin forwards each argument to its sync function."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

import pgqueue

USUAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
ONLY_SYNC = {"connection"}
"""Parameters that only the sync one has: a psycopg connection of a thread."""
ELSEWHERE = ("migrations", "compat", "spark", "commands", "cluster")
"""Parts without public functions of both kinds, some of which need other packages."""
BY_ITSELF = {"pgqueue.durable.context.DurableContext.step"}
"""Its async twin awaits a coroutine function: it forwards nothing. tests/durable tries it."""


def twins() -> Iterator[tuple[Any, str]]:
    """Yield the module or class, and the name, of each function that has an async twin."""
    for found in pkgutil.walk_packages(pgqueue.__path__, "pgqueue."):
        if any(part in found.name for part in ELSEWHERE):
            continue
        module = importlib.import_module(found.name)
        for owner in [module, *vars(module).values()]:
            own = inspect.ismodule(owner) or (
                inspect.isclass(owner) and owner.__module__ == module.__name__
            )
            for name, value in list(vars(owner).items()) if own else []:
                if value_is_twin(owner, module, name, value):
                    yield owner, name[1:]


def value_is_twin(owner: Any, module: Any, name: str, value: Any) -> bool:
    sync = vars(owner).get(name[1:])
    return (
        name.startswith("a")
        and inspect.iscoroutinefunction(value)
        and inspect.isfunction(sync)
        and value.__module__ == module.__name__
    )


TWINS = {
    f"{owner.__module__}.{owner.__qualname__}.{name}"
    if inspect.isclass(owner)
    else f"{owner.__name__}.{name}": (owner, name)
    for owner, name in twins()
}


def test_there_are_twins() -> None:
    assert {"pgqueue.tasks.sending.send", "pgqueue.events.publishing.publish"} <= TWINS.keys()


@pytest.mark.parametrize("twin", sorted(TWINS.keys() - BY_ITSELF))
def test_an_async_twin_forwards_every_argument(twin: str) -> None:
    owner, name = TWINS[twin]
    sync, twofold = getattr(owner, name), getattr(owner, f"a{name}")
    own, its = inspect.signature(sync).parameters, inspect.signature(twofold).parameters

    assert own.keys() - its.keys() <= ONLY_SYNC
    assert not its.keys() - own.keys()
    assert {n: p.default for n, p in its.items()} == {
        n: p.default for n, p in own.items() if n in its
    }

    given = {n: object() for n, p in its.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    positional = [n for n, p in its.items() if p.kind is p.POSITIONAL_ONLY or n == "self"]
    rest = [object() for p in its.values() if p.kind is p.VAR_POSITIONAL]
    named = {"some_option": object()} if any(p.kind is p.VAR_KEYWORD for p in its.values()) else {}
    seen: list[dict[str, Any]] = []

    def note(*args: Any, **kwargs: Any) -> str:
        seen.append(inspect.signature(sync).bind(*args, **kwargs).arguments)
        return "returned"

    if inspect.isclass(owner):
        given["self"] = object.__new__(owner)
    leading = (*positional, *(n for n, p in its.items() if rest and p.kind is USUAL))
    first = [given[n] for n in its if n in leading]
    others = {n: v for n, v in given.items() if not any(v is each for each in first)}
    with patch.object(owner, name, note if not inspect.isclass(owner) else _as_method(note)):
        answer = asyncio.run(twofold(*first, *rest, **others, **named))

    expected = inspect.signature(twofold).bind(*first, *rest, **others, **named).arguments
    assert [{**each} for each in seen] == [expected]
    assert answer == "returned" or inspect.signature(twofold).return_annotation == "None"


def _as_method(function: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return method
