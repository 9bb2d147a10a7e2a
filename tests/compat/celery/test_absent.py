"""What Celery has and is not taken over: importing it says what to do instead."""

from __future__ import annotations

import json
import subprocess
from importlib import import_module
from typing import Any

import pytest

from pgqueue.compat.celery import Task, exceptions
from pgqueue.compat.celery.absent import MODULES, NAMES
from tests import programs

OURS = "pgqueue.compat.celery"


def imported(module: str, name: str) -> Any:
    """Do what `from module import name` does, behind our package."""
    found: dict[str, Any] = {}
    exec(f"from {OURS}{module and '.' + module} import {name}", found)  # noqa: S102
    return found[name]


@pytest.mark.parametrize(("statement", "instead"), [
    (f"from {OURS} import bootsteps", "use signals"),
    (f"from {OURS} import bugreport", "manage.py check"),
    (f"import {OURS}.contrib.abortable", "AsyncResult.revoke"),
    (f"from {OURS}.worker.consumer import Consumer", "on_failure"),
    (f"from {OURS}.backends.redis import RedisBackend", "rows of PGQUEUE"),
    (f"from {OURS}.utils.time import ffwd", "use Python's or Django's"),
    (f"from {OURS}.app.control import Inspect", "import Celery, Task"),
    (f"from {OURS}.exceptions import WorkerLostError", "is run again"),
    (f"from {OURS}.exceptions import InvalidTaskError", "InvalidTask"),
    (f"from {OURS}.canvas import StampingVisitor", "headers="),
    (f"from {OURS}.beat import ScheduleEntry", "there is no beat"),
])  # fmt: skip
def test_an_import_of_what_is_not_taken_over_says_what_to_do(statement: str, instead: str) -> None:
    with pytest.raises(exceptions.Unsupported, match="is not taken over: ") as raised:
        exec(statement)  # noqa: S102

    assert instead in str(raised.value)
    assert isinstance(raised.value, ImportError)


@pytest.mark.parametrize("module", [name for name in MODULES if not name.endswith(".*")])
def test_each_module_that_is_absent_says_so(module: str) -> None:
    with pytest.raises(exceptions.Unsupported, match=f"celery.{module} is not taken over"):
        import_module(f"{OURS}.{module}")


@pytest.mark.parametrize(("module", "name"), [
    (module, name) for module, names in NAMES.items() for name in names
])  # fmt: skip
def test_each_name_that_is_absent_says_so(module: str, name: str) -> None:
    with pytest.raises(exceptions.Unsupported, match=f"celery.{module}.{name} is not taken over"):
        imported(module, name)


def test_what_celery_has_not_either_is_a_plain_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        import_module(f"{OURS}.nothing")
    for module in ("", *(set(NAMES) - {"app", "utils"})):
        with pytest.raises(ImportError, match="cannot import name 'nothing'"):
            imported(module, "nothing")


def test_the_class_of_tasks_has_its_name_of_celery_s_modules() -> None:
    assert imported("app.task", "Task") is Task


OF_THE_PACKAGE = ("SERIES", "VERSION", "VERSION_BANNER", "version_info", "version_info_t")
NAMES_OF_CELERY = """
import importlib, json, pkgutil
import celery

modules = [each.name[7:] for each in pkgutil.walk_packages(celery.__path__, "celery.",
           onerror=lambda name: None)]
names = {}
for name in ("", "app", "app.task", "beat", "canvas", "exceptions", "result", "schedules",
             "signals", "states", "utils", "utils.log"):
    names[name] = importlib.import_module(f"celery.{name}" if name else "celery").__all__
print(json.dumps({"modules": modules, "names": {key: sorted(each) for key, each in names.items()}}))
"""


@pytest.mark.celery
def test_each_module_and_each_name_of_celery_s_is_here_or_says_why_not() -> None:
    python = programs.python_of("CELERY_PYTHON", target="test-celery")
    done = subprocess.run([python, "-c", NAMES_OF_CELERY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)

    missing = []
    for module in set(theirs["modules"]) - {"__main__"}:
        try:
            import_module(f"{OURS}.{module}")
        except exceptions.Unsupported:
            continue
        except ImportError as error:
            missing.append(str(error))
    for module, names in theirs["names"].items():
        for name in names:
            if name.startswith(("_", "maybe_patch")) or name in OF_THE_PACKAGE:
                continue
            try:
                imported(module, name)
            except exceptions.Unsupported:
                continue
            except ImportError as error:
                missing.append(str(error))
    assert len(theirs["modules"]) > 100
    assert not missing, "\n".join(missing)
