"""Import the code that a stored name means, and no other code.

Names of tasks and backoffs come from tables. A person who may insert rows there must not be able to
have a worker import any module on its path, or call what was not declared to be called.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

from django.apps import apps


def import_declaring(name: str) -> None:
    """Import the module that declares the function of this name, if the project has such a module.

    The module must be in the package of an installed app, or in the one that the project's settings
    are in. Its source must define, outside of functions and classes, a function of this name with a
    decorator, as `@task` and `@backoff` are. Its source is read before the module is imported.

    Raises:
        Exception: the module's own, as it is imported.
    """
    module, _, function = name.rpartition(".")
    if not all(part.isidentifier() for part in name.split(".")):
        return
    if module in sys.modules:
        # Another thread may be importing it now: this waits until its functions are declared.
        with suppress(ImportError):
            import_module(module)
        return
    source = _source(module)
    if source is not None and _declares(source, function):
        import_module(module)


def imported(name: str) -> Any:
    """Return the object of this name at the top of an imported module; None: there is none."""
    module, _, attribute = name.rpartition(".")
    # By vars(), since getattr() may run the module's own __getattr__, which may import others.
    return getattr(sys.modules.get(module), "__dict__", {}).get(attribute)


def _source(module: str) -> str | None:
    """Return the source of a module of the project without importing anything."""
    root = max((each for each in _roots() if module.startswith(f"{each}.")), key=len, default="")
    if root not in sys.modules:
        return None
    found, spec = root, None
    path = getattr(sys.modules[root], "__path__", None)
    for part in module.removeprefix(f"{root}.").split("."):
        found += f".{part}"
        if path is None or (spec := PathFinder.find_spec(found, path)) is None:
            return None
        path = spec.submodule_search_locations
    read = getattr(spec and spec.loader, "get_source", None)
    source: str | None = read(module) if read else None
    return source


def _roots() -> Iterator[str]:
    """Yield the packages whose modules belong to the project."""
    for app in apps.get_app_configs():
        yield app.name
    yield os.environ.get("DJANGO_SETTINGS_MODULE", "").partition(".")[0]


def _declares(source: str, function: str) -> bool:
    return any(
        each.name == function and each.decorator_list for each in _functions(ast.parse(source).body)
    )


def _functions(body: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions of a module, also those under an `if` or a `try`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif not isinstance(node, ast.ClassDef):
            yield from _functions(ast.iter_child_nodes(node))


def is_installed(part: str) -> bool:
    """Return whether a part of the package, such as `webhooks`, was not taken out of it."""
    return find_spec(f"pgqueue.{part}") is not None
