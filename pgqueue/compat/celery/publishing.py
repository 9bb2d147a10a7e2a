"""Store a message, between before_task_publish and after_task_publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.request import OURS, given_id
from pgqueue.compat.celery.signals import after_task_publish, before_task_publish
from pgqueue.tasks import TaskResult

STANDARD = ("task", "id", "lang", "argsrepr", "kwargsrepr")
"""Headers that are columns of the message."""


def publish(task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> AsyncResult:
    """Store a message with these options of `own.using()`."""
    options = before(task, args, kwargs, options)
    own_task = task.own.using(**options) if options else task.own
    stored = own_task.enqueue(*args, **kwargs)
    after(task, stored, options.get("metadata", {}))
    return AsyncResult(given_id(own_task.metadata) or stored.id, stored=stored)


def before(task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Send before_task_publish; return the options with the headers that receivers have added."""
    if not before_task_publish.receivers:
        return options
    metadata = options.get("metadata", {})
    headers = _sent(before_task_publish, task, args, kwargs, metadata, None, options.get("channel"))
    added = {name: value for name, value in headers.items() if name not in STANDARD}
    own = {OURS: metadata[OURS]} if OURS in metadata else {}
    return {**options, "metadata": {**added, **own}}


def after(task: Any, stored: TaskResult[Any], metadata: Mapping[str, Any]) -> None:
    """Send after_task_publish."""
    if after_task_publish.receivers:
        channel = stored.task.queue_name
        _sent(after_task_publish, task, stored.args, stored.kwargs, metadata, stored.id, channel)


def _sent(
    signal: Any,
    task: Any,
    args: Any,
    kwargs: Any,
    metadata: Mapping[str, Any],
    number: str | None,
    channel: str | None,
) -> dict[str, Any]:
    """Send a signal; return the headers, as receivers left them."""
    headers = {name: value for name, value in metadata.items() if name != OURS}
    task_id = given_id(metadata) or number
    headers |= {"task": task.name, "id": task_id}
    signal.send(
        task.name,
        body=(args, kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}),
        exchange="",
        routing_key=channel or task.own.queue_name,
        headers=headers,
        properties={"correlation_id": task_id},
        declare=[],
        retry_policy={},
    )
    return headers
