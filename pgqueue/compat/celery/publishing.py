"""Store a message between the signals before_task_publish and after_task_publish."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.calling import options_of
from pgqueue.compat.celery.request import OURS, given_id, running_task
from pgqueue.compat.celery.signals import after_task_publish, before_task_publish
from pgqueue.compat.celery.utils import uuid
from pgqueue.compat.celery.utils.nodenames import anon_nodename
from pgqueue.redaction import MASK
from pgqueue.tasks import TaskResult
from pgqueue.values.error_words import shown
from pgqueue.values.instants import aware


def publish(task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> AsyncResult:
    """Store a message with these options of `own.using()`."""
    options = before(task, args, kwargs, options)
    own_task = task.own.using(**options) if options else task.own
    stored = own_task.enqueue(*args, **kwargs)
    after(task, stored, options.get("metadata", {}))
    return AsyncResult(given_id(own_task.metadata) or stored.id, stored=stored)


def before(task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Send before_task_publish; return the options with the headers that the receivers added.

    A message without a task_id gets a new one, because receivers note it and the message has no
    number yet.
    """
    if not before_task_publish.receivers:
        return options
    metadata = options.get("metadata", {})
    if given_id(metadata) is None:
        named = options_of(task, {"task_id": uuid()})
        metadata = {**metadata, OURS: {**metadata.get(OURS, {}), **named["metadata"][OURS]}}
        options = {**options, **named, "metadata": metadata}
    headers = _headers(task, task.own.using(**options), args, kwargs, given_id(metadata))
    standard = set(headers) - metadata.keys()
    headers |= {name: value for name, value in metadata.items() if name != OURS}
    _send(before_task_publish, task, args, kwargs, headers, options.get("channel"))
    added = {name: value for name, value in headers.items() if name not in standard}
    return {**options, "metadata": {**added, OURS: metadata[OURS]}}


def after(task: Any, stored: TaskResult[Any], metadata: Mapping[str, Any]) -> None:
    """Send after_task_publish."""
    if not after_task_publish.receivers:
        return
    args, kwargs = stored.args, stored.kwargs
    headers = _headers(task, stored.task, args, kwargs, given_id(metadata) or stored.id)
    headers |= {name: value for name, value in metadata.items() if name != OURS}
    _send(after_task_publish, task, args, kwargs, headers, stored.task.queue_name)


def _headers(task: Any, own: Any, args: Any, kwargs: Any, task_id: str | None) -> dict[str, Any]:
    """Return the headers that every message of Celery's has."""
    parent = running_task()
    request = parent.request if parent is not None else None
    soft, hard = own.soft_timeout, own.timeout
    expires = own.expires_at or own.ttl
    return {
        "lang": "py",
        "task": task.name,
        "id": task_id,
        "root_id": request.root_id if request else task_id,
        "parent_id": request.id if request else None,
        "group": None,
        "shadow": None,
        "retries": 0,
        "eta": _moment(own.run_after),
        "expires": _moment(expires),
        "timelimit": [each.total_seconds() if each else None for each in (hard, soft)],
        "argsrepr": MASK if task.redact else shown(args),
        "kwargsrepr": MASK if task.redact else shown(kwargs),
        "origin": anon_nodename(),
        "ignore_result": own.ignore_result,
    }


def _moment(given: datetime | timedelta | None) -> str | None:
    if given is None:
        return None
    return (datetime.now(UTC) + given if isinstance(given, timedelta) else aware(given)).isoformat()


def _send(
    signal: Any, task: Any, args: Any, kwargs: Any, headers: dict[str, Any], channel: str | None
) -> None:
    signal.send(
        task.name,
        body=(args, kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}),
        exchange="",
        routing_key=channel or task.own.queue_name,
        headers=headers,
        properties={"correlation_id": headers["id"]},
        declare=[],
        retry_policy={},
    )
