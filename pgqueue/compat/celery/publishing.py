"""Store a message, between before_task_publish and after_task_publish."""

from __future__ import annotations

from typing import Any

from pgqueue.compat.celery.request import OURS, given_id
from pgqueue.compat.celery.result import AsyncResult
from pgqueue.compat.celery.signals import after_task_publish, before_task_publish

STANDARD = ("task", "id", "lang", "argsrepr", "kwargsrepr")
"""Headers that are columns of the message."""


def publish(task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> AsyncResult:
    """Store a message with these options of `own.using()`."""
    metadata = options.get("metadata", {})
    task_id = given_id(metadata)
    if before_task_publish.receivers:
        headers = _sent(before_task_publish, task, args, kwargs, metadata, task_id, options)
        # What receivers have added goes with the message.
        added = {name: value for name, value in headers.items() if name not in STANDARD}
        own = {OURS: metadata[OURS]} if OURS in metadata else {}
        options = {**options, "metadata": {**added, **own}}
    own_task = task.own.using(**options) if options else task.own
    stored = own_task.enqueue(*args, **kwargs)
    result = AsyncResult(task_id or stored.id, stored=stored)
    if after_task_publish.receivers:
        _sent(after_task_publish, task, args, kwargs, metadata, result.id, options)
    return result


def _sent(
    signal: Any,
    task: Any,
    args: Any,
    kwargs: Any,
    metadata: dict[str, Any],
    task_id: str | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Send a signal; return the headers, as receivers left them."""
    headers = {name: value for name, value in metadata.items() if name != OURS}
    headers |= {"task": task.name, "id": task_id}
    signal.send(
        task.name,
        body=(args, kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}),
        exchange="",
        routing_key=options.get("channel") or task.own.queue_name,
        headers=headers,
        properties={"correlation_id": task_id},
        declare=[],
        retry_policy={},
    )
    return headers
