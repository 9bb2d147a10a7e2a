"""The options of `apply_async`: pgqueue's equivalent of each, or the reason of its refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from pgqueue.compat.celery import routes
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.request import OURS
from pgqueue.conf import settings
from pgqueue.exceptions import InvalidTask
from pgqueue.tasks.tenants import StoredKey
from pgqueue.values.error_words import checked_option, shown, suggestion
from pgqueue.values.number_checks import as_timedelta

CANVAS = "chain(), group() and chord() put signatures together"
LINKS = "it is for apply_async() and signatures: give it to the call"
CONNECTION = (
    "messages are stored on Django's connection; own.using(connection=…) takes one of psycopg's"
)
HIDDEN = "name the arguments to hide in the decorator: redact=[…]"
HIGHEST = 9
SCALE = 10
"""Celery's priorities 0 to 9 are pgqueue's 0 to 90."""

NEEDLESS = frozenset({
    "retry", "retry_policy", "shadow", "delivery_mode", "mandatory", "compression",
    "add_to_parent", "correlation_id", "root_id", "parent_id",
})  # fmt: skip
"""Options without effect: they concern a broker, or every message has the property already."""

REFUSED: Mapping[str, str] = {
    "producer": CONNECTION,
    "publisher": CONNECTION,
    "connection": CONNECTION,
    "exchange": "there are no exchanges: give queue=…",
    "routing_key": "there are no exchanges: give queue=…",
    "exchange_type": "there are no exchanges: give queue=…",
    "router": "give queue=…, or CELERY_TASK_ROUTES",
    "declare": "queues need no declaration",
    "reply_to": "results are rows of the database: use AsyncResult",
    "argsrepr": HIDDEN,
    "kwargsrepr": HIDDEN,
    "link": LINKS,
    "link_error": LINKS,
    "chain": CANVAS,
    "chord": CANVAS,
    "group_id": CANVAS,
    "replaced_task_nesting": CANVAS,
}
"""Refused options, each with the alternative."""


def options_of(task: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `apply_async` as options of `own.using()`.

    Raises:
        Unsupported: an option is not taken over.
        InvalidTask: the name of an option looks misspelled, or its value is invalid. Other
            unknown options become headers, as in Celery.
    """
    found: dict[str, Any] = {}
    # As in Celery, a countdown overrides an eta, unless the countdown is 0.
    left_out = "eta" if given.get("countdown") else "countdown"
    for name, value in given.items():
        if name in NEEDLESS or name == left_out or value is None:
            continue
        if name in REFUSED:
            raise Unsupported(f"{name}={shown(value)} of {task.name}: {REFUSED[name]}.")
        if name not in _TAKEN and (meant := suggestion(name, _TAKEN)):
            raise InvalidTask(f"{task.name}: apply_async has no option {name!r}. {meant}")
        option = _TAKEN[name](task, value) if name in _TAKEN else _headers(task, {name: value})
        if "metadata" in option:
            option["metadata"] = {**found.get("metadata", {}), **option["metadata"]}
        found |= option
    return found


def routed(task: Any, args: Any, kwargs: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, completed by the routing functions in task_routes."""
    rules = task.conf.task_routes
    if not rules or not routes.routers(rules) or given.get("queue") or task.queue:
        return dict(given)
    route = routes.routed(rules, task.name, args, kwargs, given, task)
    return {**route, **{name: each for name, each in given.items() if each is not None}}


def priority_of(value: Any) -> int:
    """Return a priority of Celery's on pgqueue's scale.

    Raises:
        InvalidTask: the value is no integer from 0 to 9.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= HIGHEST:
        raise InvalidTask(
            f"priority={shown(value)}: it must be from 0 to {HIGHEST}, higher first, as with "
            "RabbitMQ (with Redis, Celery has 0 first)."
        )
    return value * SCALE


def _queue(task: Any, value: Any) -> dict[str, Any]:
    name = getattr(value, "name", value)
    if task.rate_limit_now is not None and name != task.own.queue_name:
        raise Unsupported(
            f"queue={shown(name)} of {task.name}: its rate_limit is a policy of the channel "
            f"{task.own.queue_name!r}. Limit the other channel with pgqueue.Channel(…).policy(), "
            "or route the task there by CELERY_TASK_ROUTES."
        )
    return {"channel": name}


def _countdown(task: Any, value: Any) -> dict[str, Any]:
    return {"run_after": value}


def _eta(task: Any, value: Any) -> dict[str, Any]:
    return {"run_after": _moment("eta", value)}


def _expires(task: Any, value: Any) -> dict[str, Any]:
    """Return both options. The earlier limit applies, so a call removes the other of its task."""
    if isinstance(value, datetime | str):
        return {"expires_at": _moment("expires", value), "ttl": None}
    if checked_option(as_timedelta, "expires", value, InvalidTask) > timedelta():
        return {"expires_at": None, "ttl": value}
    # As in Celery, a message whose time is over already ends as expired.
    return {"expires_at": datetime.now(UTC), "ttl": None}


def _moment(name: str, value: Any) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidTask(f"{name}={shown(value)}: it must be a datetime.") from error
    if not isinstance(value, datetime):
        raise InvalidTask(f"{name}={shown(value)}: it must be a datetime.")
    # Celery takes a naive datetime as UTC.
    return value.replace(tzinfo=UTC) if timezone.is_naive(value) else value


def _task_id(task: Any, value: Any) -> dict[str, Any]:
    text = str(value)
    if text.isdecimal():
        raise InvalidTask(
            f"task_id={shown(value)}: a number is the id of another message. Put a word before it."
        )
    # By this dedupe key, AsyncResult finds the message in each tenant, and also after its end.
    remembered = task.conf.result_expires or max(settings().retention.values())
    own = {OURS: {"id": text}}
    return {"dedupe_key": StoredKey(text), "dedupe_for": remembered, "metadata": own}


def _headers(task: Any, value: Any) -> dict[str, Any]:
    return {"metadata": dict(value)}


def _serializer(task: Any, value: Any) -> dict[str, Any]:
    if value != "json":
        raise Unsupported(
            f"serializer={shown(value)} of {task.name}: arguments are JSON, with dates, Decimal, "
            "UUID, dataclasses and model instances by type hints."
        )
    return {}


_TAKEN: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "queue": _queue,
    "priority": lambda task, value: {"priority": priority_of(value)},
    "countdown": _countdown,
    "eta": _eta,
    "expires": _expires,
    "task_id": _task_id,
    "headers": _headers,
    "ignore_result": lambda task, value: {"ignore_result": bool(value)},
    "time_limit": lambda task, value: {"timeout": value},
    "soft_time_limit": lambda task, value: {"soft_timeout": value},
    "serializer": _serializer,
}

KNOWN = frozenset(_TAKEN)
"""The options that are taken over."""
