"""Have a task fail whose messages before it have failed, as a chord's body does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections

from pgqueue.compat.celery.async_result import as_raised
from pgqueue.compat.celery.exceptions import ChordError
from pgqueue.compat.celery.request import OURS, CeleryContext
from pgqueue.exceptions import ParentFailed
from pgqueue.statements import load
from pgqueue.tasks import TaskError, parents

SQL = load(__name__)


def check_parents(context: CeleryContext, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Look at the results that a run was given.

    Raises:
        ChordError: one of them is an error.
    """
    if context.claim.flow_id is None:
        return
    failed = _failed(args) or _failed(kwargs.values())
    own = context.metadata.get(OURS)
    if failed is None and isinstance(own, dict) and own.get("joins"):
        failed = _failed_unseen(context)
    if failed is not None:
        context.untold = True
        raised = as_raised(error_of(failed)) if failed.error else failed.outcome
        raise ChordError(f"Dependency {failed.message_id} raised {raised!r}")


def error_of(failed: ParentFailed) -> TaskError:
    """Return the last error of a message that failed."""
    known = failed.error or {"class": "pgqueue.exceptions.ParentFailed", "message": str(failed)}
    return TaskError(0, known["class"], known["message"], known.get("traceback", ""))


def _failed(given: Any) -> ParentFailed | None:
    """Return the first error in the place of a result, also in lists."""
    for each in given:
        found = _failed(each) if type(each) is list else each
        if isinstance(found, ParentFailed):
            return found
    return None


def _failed_unseen(context: CeleryContext) -> ParentFailed | None:
    """Return how a message failed that this one waited for without taking its result."""
    with connections[context.database].cursor() as cursor:
        cursor.execute(SQL["failed"], {"id": context.claim.id, "flow_id": context.claim.flow_id})
        row = cursor.fetchone()
    if row is None:
        return None
    found = parents.results(context.database, [row[0]], since=context.claim.created_at)
    error = found[row[0]].error
    return error if isinstance(error, ParentFailed) else None
