"""Tasks that the canvas needs, under Celery's names."""

from __future__ import annotations

from typing import Any

from pgqueue.calls.callables import check_did_run
from pgqueue.compat.celery import current
from pgqueue.compat.celery.declaring import declare
from pgqueue.compat.celery.linking import run_to_end
from pgqueue.compat.celery.signatures import Signature, signature


def call_each(task: dict[str, Any], it: list[Any]) -> list[Any]:
    """Call a task with each value."""
    call = signature(task)
    return [_value_of(call, value) for value in it]


def call_each_with_all(task: dict[str, Any], it: list[Any]) -> list[Any]:
    """Call a task with each tuple of arguments."""
    call = signature(task)
    return [_value_of(call, *args) for args in it]


def _value_of(call: Signature, *args: Any) -> Any:
    """Call a task here; return its return value.

    Raises:
        InvalidResult: the task returned a generator, whose code nobody runs.
    """
    returned = run_to_end(call(*args))
    check_did_run(call.name, returned)
    return returned


def return_all(results: list[Any]) -> list[Any]:
    """Return the results of a group: the return value of a task that a group replaced."""
    return results


declare(call_each, None, {"name": "celery.map"})
declare(call_each_with_all, None, {"name": "celery.starmap"})
accumulate = declare(return_all, None, {"name": "celery.accumulate"})

# An app with its own task class leaves these tasks unchanged.
current.shared.clear()
