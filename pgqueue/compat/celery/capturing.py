"""Find the options with which a class's own apply_async would store a message."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, NamedTuple

from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.utils import uuid


class Captured(NamedTuple):
    """The arguments that a class's apply_async passes to `Task.apply_async`."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: dict[str, Any]


class _Capture:
    """One call of a class's own apply_async."""

    def __init__(self, task: Any, task_id: str) -> None:
        self.task = task
        self.task_id = task_id
        self.captured: Captured | None = None


_capture: ContextVar[_Capture | None] = ContextVar("capture", default=None)


def capture(task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> Captured:
    """Call the apply_async of a task's class; return the arguments without storing a message.

    A message without a task_id gets a new one: the class may note the id of the result.

    Raises:
        Unsupported: the class does not store exactly one message of the task.
    """
    if not task.has_own_apply_async:
        return Captured(tuple(args), dict(kwargs), options)
    given = {**options, "task_id": options.get("task_id") or uuid()}
    call = _Capture(task, given["task_id"])
    token = _capture.set(call)
    try:
        task.apply_async(args, kwargs, **given)
    finally:
        _capture.reset(token)
    if call.captured is None:
        raise Unsupported(
            f"{task.name}: the apply_async() of its class stores no message, but a canvas, a "
            "link or a schedule needs one: call the task from another task."
        )
    return call.captured


def captured(task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> AsyncResult | None:
    """Note the message for `capture()`, and return its result; None: the message must be stored.

    Raises:
        Unsupported: the class has passed on another message of the task before.
    """
    call = _capture.get()
    if call is None or call.task is not task:
        return None
    if call.captured is not None:
        raise Unsupported(
            f"{task.name}: the apply_async() of its class stores several messages, but a canvas, a "
            "link or a schedule needs one: call the task from another task."
        )
    call.captured = Captured(tuple(args or ()), dict(kwargs or {}), dict(options))
    return AsyncResult(options.get("task_id") or call.task_id)
