"""Programs that some tests need, and that neither Python's packages nor this project bring."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec

import django
import pytest

ALL_ARE_REQUIRED = "PGQUEUE_REQUIRE_PROGRAMS"
"""The environment variable that `.ci/run` sets: there a missing program is a failure."""

MISSING = "{program} is missing (Debian: apt-get install {package})"


def find(program: str, *, package: str) -> str:
    """Return the path of a program, or skip the test that needs it.

    Args:
        package: the name of Debian's package that has it.
    """
    # Debian's /usr/sbin is not on everybody's PATH.
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    return path or skip(program, package=package)


def have(*modules: str) -> bool:
    """Return whether modules are installed that only the environment of Django 5.2 must have.

    Raises:
        ModuleNotFoundError: that environment lacks one, and all programs are required.
    """
    missing = [each for each in modules if find_spec(each) is None]
    if missing and os.environ.get(ALL_ARE_REQUIRED) and django.VERSION < (6, 0):
        raise ModuleNotFoundError(f"{', '.join(missing)}: `make .venv/installed-all` installs them")
    return not missing


def python_of(variable: str, *, target: str) -> str:
    """Return the Python that a variable names, or skip the test that needs its packages.

    Args:
        target: the target of make that sets the variable.
    """
    return os.environ.get(variable) or leave_out(f"{variable} is not set: make {target} sets it")


def skip(program: str, *, package: str) -> str:
    """Skip a test because a program is missing; fail it where all are required."""
    return leave_out(MISSING.format(program=program, package=package))


def leave_out(reason: str) -> str:
    """Skip a test for want of something of the machine; fail it where all programs are required."""
    if os.environ.get(ALL_ARE_REQUIRED):
        return pytest.fail(reason)
    return pytest.skip(reason)


def summary(reasons: Iterable[str]) -> str:
    """Return a line about the tests that were skipped because of missing programs, or ''."""
    said = (reason.removeprefix("Skipped: ") for reason in reasons)
    found = Counter(each for each in said if re.fullmatch(r".+ is missing \(Debian: .+\)", each))
    return "; ".join(f"{number} tests were skipped: {what}" for what, number in found.items())
