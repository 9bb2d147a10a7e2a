"""The messages of results: found by a number or a task_id, with their arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import connections

from pgqueue.codec.encoding import ResultOf
from pgqueue.codec.references import referred
from pgqueue.compat.celery.request import call_of
from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.database.sql_files import load
from pgqueue.engine import lookup
from pgqueue.exceptions import UnknownTask, UnreadablePayload
from pgqueue.states import Outcome
from pgqueue.tasks import TaskResult, flow_results, registry
from pgqueue.tasks.options import checked_dedupe_key

SQL = load(__name__)


def message_of(id: str) -> TaskResult[Any] | None:
    """Return the message with this number or this task_id; None: there is none."""
    alias = settings().database
    number = lookup.id_of(id) if id.isdecimal() else _number(id, alias)
    if number is None:
        return None
    with needing_tables(alias):
        found = lookup.find(connections[alias], number)
    if found is None:
        return None
    task = registry.find(found.task)
    if task is None:
        raise UnknownTask(f"Message {number}: no task is named {found.task} here.")
    return TaskResult.of(task, found)


def arguments_of(found: TaskResult[Any]) -> tuple[Any, Any]:
    """Return the arguments of a message, with results in the place of references to them."""
    args, kwargs = call_of(found)
    if ResultOf not in {type(each) for each in _flat([args, kwargs])}:
        return args, kwargs
    stored = lookup.find(connections[found.task.alias], int(found.id))
    if stored is None:
        return args, kwargs
    results = partial(flow_results.results, found.task.alias, since=stored.created_at)
    with suppress(UnreadablePayload, ObjectDoesNotExist):
        return found.task.codec.decode(stored.payload, results)
    return args, kwargs


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _flat(each)
    else:
        yield value


def replacing(found: TaskResult[Any] | None) -> str | None:
    """Return the number of the message that replaced this ended message."""
    if found is None or found.status is not Outcome.SUCCEEDED:
        return None
    of = None
    # As plain JSON: the row of a model instance may be deleted.
    with suppress(UnreadablePayload):
        of = referred(found.task.codec.plain_result(found._stored.result or "null"))
    return None if of is None else str(of)


def _number(task_id: str, alias: str) -> int | None:
    """Return the number of the message with this task_id; None: there is none."""
    try:
        checked_dedupe_key(task_id)
    except ValueError:
        return None
    with needing_tables(alias), connections[alias].cursor() as cursor:
        cursor.execute(SQL["number"], {"task_id": task_id})
        found = cursor.fetchone()
    return int(found[0]) if found else None
