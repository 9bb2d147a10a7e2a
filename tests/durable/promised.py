"""Durable tasks that show the promises of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group

from pgqueue import DurableContext, task

done: list[str] = []
code: dict[str, Callable[[DurableContext], Any]] = {}
"""The code of `changing`, by the name "now"."""


@task(durable=True, max_attempts=3, backoff=[0])
def changing(run: DurableContext) -> Any:
    return code["now"](run)


def first() -> str:
    done.append("first")
    return "1"


def second() -> str:
    done.append("second")
    return "2"


def third() -> str:
    done.append("third")
    return "3"


def write(name: str) -> str:
    Group.objects.create(name=name)
    done.append(name)
    return name


def write_and_fail(name: str) -> str:
    write(name)
    raise ValueError("too late")
