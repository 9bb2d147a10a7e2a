"""Messages as results of `django.tasks`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import django.db
import psycopg

from pgqueue.backend import api
from pgqueue.calls.outcomes import (
    Cancelled,
    Died,
    Discarded,
    Succeeded,
)
from pgqueue.codec.arguments import Codec
from pgqueue.engine.errors import entries
from pgqueue.engine.lookup import Found
from pgqueue.exceptions import DecryptionFailed, MissingEncryptionKey
from pgqueue.states import Outcome, State
from pgqueue.tasks import TaskResult
from pgqueue.values.discovery import imported
from pgqueue.values.instants import of_project

READY, RUNNING = api.TaskResultStatus.READY, api.TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = api.TaskResultStatus.FAILED, api.TaskResultStatus.SUCCESSFUL

DATABASE_ERRORS = (django.db.Error, psycopg.Error)
"""Errors of a query for a model instance. After one, an open transaction must be rolled back."""

UNREADABLE = (*DATABASE_ERRORS, DecryptionFailed, MissingEncryptionKey)
"""Errors after which the stored JSON is no substitute for the value."""

FINAL = (Succeeded, Died, Discarded, Cancelled)
"""The outcomes that Django calls finished."""

STATUSES: dict[str, Any] = {
    State.HELD: READY,
    State.SCHEDULED: READY,
    State.READY: READY,
    State.RUNNING: RUNNING,
    State.DEAD: FAILED,
    Outcome.SUCCEEDED: SUCCESSFUL,
    Outcome.CANCELLED: FAILED,
    Outcome.DISCARDED: FAILED,
    Outcome.EXPIRED: FAILED,
}


@dataclass(frozen=True, kw_only=True)
class PostgresTaskError(api.TaskError):  # type: ignore[misc]
    """One attempt that failed."""

    @property
    def exception_class(self) -> type[BaseException]:
        """The class of the exception.

        Raises:
            ImportError: this process has not imported its module. A name in a table never causes
                an import.
            ValueError: the object of this name is no exception.
        """
        found = imported(self.exception_class_path)
        if found is None:
            raise ImportError(f"{self.exception_class_path} is not imported here.")
        if not isinstance(found, type) or not issubclass(found, BaseException):
            raise ValueError(f"{self.exception_class_path!r} does not reference a valid exception.")
        return found


@dataclass(frozen=True, kw_only=True)
class PostgresTaskResult(api.TaskResult):  # type: ignore[misc, type-arg]
    """A result whose arguments may have more types than JSON, as in pgqueue."""

    def __post_init__(self) -> None:
        # Django's own __post_init__ would accept only JSON. A class without slots doesn't
        # inherit this default from a class with slots.
        _change(self, _return_value=None)


UNKNOWN_WORKERS = 10_000
"""The maximum of attempts without a stored error that get an entry: a counter may be wrong."""


def enqueued(task: Any, stored: TaskResult[Any], backend: str) -> PostgresTaskResult:
    """Return the result of a message that was just stored."""
    return PostgresTaskResult(
        task=task,
        id=stored.id,
        status=READY,
        enqueued_at=stored.enqueued_at,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(stored.args),
        kwargs=dict(stored.kwargs),
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def found(task: Any, message: Found, codec: Codec) -> PostgresTaskResult:
    """Return the result of a live or ended message."""
    status = STATUSES[message.state]
    args, kwargs = _arguments(message, codec)
    errors = entries(message.errors) if message.errors != "[]" else []
    ended_at = message.finished_at or (_last(errors) if status is FAILED else None)
    result = PostgresTaskResult(
        task=task,
        id=str(message.id),
        status=status,
        enqueued_at=of_project(message.created_at),
        started_at=of_project(message.started_at or message.claimed_at),
        finished_at=of_project(ended_at),
        last_attempted_at=of_project(message.claimed_at),
        args=as_json(args),
        kwargs=as_json(kwargs),
        backend=task.backend,
        errors=[_error(entry) for entry in errors],
        worker_ids=_workers(message, errors, status),
    )
    if status is SUCCESSFUL:
        _change(result, _return_value=_value(message.result, codec))
    return result


def finish(
    result: PostgresTaskResult,
    outcome: Succeeded | Died | Discarded | Cancelled,
    codec: Codec,
    *,
    at: datetime,
) -> None:
    """Note the end of a run in its result."""
    if isinstance(outcome, Succeeded):
        value = _value(outcome.result, codec)
        _change(result, status=SUCCESSFUL, finished_at=at, _return_value=value)
    else:
        said = [_error(json.loads(outcome.entry))] if outcome.entry else []
        errors = [*result.errors, *said]
        _change(result, status=FAILED, finished_at=at, errors=errors)


def as_json(value: Any) -> Any:
    """Return `value` as Django's JSON; a value that Django refuses stays unchanged."""
    try:
        return _with_text_keys(api.normalize_json(value))
    except (TypeError, ValueError):
        return value


def _change(result: PostgresTaskResult, **changes: Any) -> None:
    for name, value in changes.items():
        object.__setattr__(result, name, value)


def _error(entry: Mapping[str, Any]) -> api.TaskError:
    return PostgresTaskError(exception_class_path=entry["class"], traceback=entry["traceback"])


def _with_text_keys(plain: Any) -> Any:
    """Return a value with the keys of its dicts as text, as `json` writes them: 1 is "1"."""
    if isinstance(plain, list):
        return [_with_text_keys(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    return {
        key if isinstance(key, str) else json.dumps(key): _with_text_keys(value)
        for key, value in plain.items()
    }


def _value(result: str | None, codec: Codec) -> Any:
    if result is None:
        return None
    try:
        return as_json(codec.decode_result(result))
    except UNREADABLE:
        raise
    except Exception:
        return json.loads(result)  # the row of a model instance may be deleted


def _arguments(message: Found, codec: Codec) -> tuple[list[Any], dict[str, Any]]:
    try:
        return codec.decode(message.payload)
    except UNREADABLE:
        raise
    except Exception:
        # The row of a model instance, or a parameter of the function, may be gone.
        plain = json.loads(message.payload)
        if not isinstance(plain, dict):
            return [], {}
        return list(plain.get("args", [])), dict(plain.get("kwargs", {}))


def _workers(message: Found, errors: Sequence[Mapping[str, Any]], status: Any) -> list[str]:
    """Return the worker of each attempt; "": its error is not kept."""
    workers = [entry["worker"] for entry in errors]
    # Of many errors, the database keeps only the first and the last ones.
    missing = message.failures + message.lost - len(workers)
    workers[1:1] = [""] * min(max(missing, 0), UNKNOWN_WORKERS)
    if status in (RUNNING, SUCCESSFUL):
        workers.append(str(message.worker_id))
    return workers


def _last(errors: Sequence[Mapping[str, Any]]) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(errors[-1].get("at", "")) if errors else None
    return None
