"""Attributes of our classes beside the attributes that the standard library keeps for itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest

import pgqueue

UNIMPORTABLE = ("pgqueue.migrations", "pgqueue.spark", "pgqueue.cluster")
"""Packages that need an extra, or that only Django loads."""
OPEN = ("abc", "builtins", "collections", "contextlib", "dataclasses", "enum", "typing")
"""Modules whose classes are made to be filled: a name of theirs is part of their interface."""


def modules() -> Iterator[str]:
    for found in pkgutil.walk_packages(pgqueue.__path__, "pgqueue."):
        if not found.name.startswith(UNIMPORTABLE):
            yield found.name


def classes() -> Iterator[type]:
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            continue
        yield from (
            each
            for each in vars(module).values()
            if inspect.isclass(each) and each.__module__ == name
        )


def foreign_bases(cls: type) -> list[type]:
    """Return the classes of the standard library that a class inherits from."""
    return [
        base
        for base in cls.__mro__
        if (top := base.__module__.partition(".")[0]) in sys.stdlib_module_names and top not in OPEN
    ]


def assigned(cls: type) -> set[str]:
    """Return the attributes that the methods of a class give to its instances."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # written in C
        return set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def clashes(cls: type) -> set[str]:
    """Return the names that a class and a base of the standard library use for different things."""
    own = {name for name in vars(cls) if not name.startswith("__")}
    found = set()
    for base in foreign_bases(cls):
        theirs = assigned(base)
        # An attribute of theirs hides a method of ours; a private name is not there to override.
        hidden = own & theirs - set(vars(base))
        found |= {name for name in hidden if inspect.isfunction(vars(cls)[name])}
        private = {name for name in {*vars(base), *theirs} - {"_abc_impl"} if is_private(name)}
        found |= private & (own | assigned(cls))
    return found


@pytest.mark.parametrize(
    "cls",
    [each for each in classes() if foreign_bases(each)],
    ids=lambda each: f"{each.__module__}.{each.__qualname__}",
)
def test_no_class_takes_a_name_that_the_standard_library_uses(cls: type) -> None:
    names = clashes(cls)

    assert not names, (
        f"{cls.__qualname__} defines {', '.join(sorted(names))}, which "
        f"{' or '.join(each.__qualname__ for each in foreign_bases(cls))} of Python "
        f"{sys.version.partition(' ')[0]} uses for itself: give it another name."
    )


def test_a_name_that_a_thread_uses_is_found() -> None:
    class Reader(threading.Thread):
        def _started(self) -> None: ...

        def _of_ours(self) -> None: ...

    assert clashes(Reader) == {"_started"}
