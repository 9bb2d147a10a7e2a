"""Pass a failure on to the later steps of a chain, and to the body of a chord."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import connections

from pgqueue.compat.celery.async_result import REVOKED
from pgqueue.compat.celery.exceptions import ChordError, Ignore, TaskRevokedError
from pgqueue.compat.celery.raised_errors import as_raised
from pgqueue.compat.celery.request import OURS, CeleryContext
from pgqueue.database.sql_files import load
from pgqueue.exceptions import Cancel, Defer, ParentFailed
from pgqueue.states import Outcome, State
from pgqueue.tasks import TaskContext, TaskError, flow_results

SQL = load(__name__)

AFTER = "after"
"""The metadata key for the kind of parent, if the arguments do not show it."""
ONE, GROUP, BETWEEN = "one", "group", "between"
"""Kinds of parents: a message, a group, or a group inside of another group."""
AGAIN = timedelta(seconds=1)
"""The delay before a run checks a replayed parent again."""
FAILED = (State.DEAD, *Outcome)


class FirstFailure(NamedTuple):
    """The first failed parent of a message.

    Attributes:
        parent: the outcome and the error of the parent.
        task_id: the parent's task_id, or its number.
        is_before: other parents of the message come after this parent.
    """

    parent: ParentFailed
    task_id: str
    is_before: bool


def check_parents(context: CeleryContext, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Check the parents of a run, and raise an error if a parent has failed.

    Raises:
        ChordError: the parents are a group, and one of them has failed.
        Exception: the parent failed with this error.
        Cancel: the parent was cancelled or discarded, or has expired.
        Defer: a parent was replayed, and has not ended yet.
    """
    if context.claim.flow_id is None:
        return
    follows = _follows(context, args, kwargs)
    if follows is None:
        return
    failure = first_failure(context)
    if failure is not None:
        context.untold = True
        _pass_on(failure, follows)
    if _failed(args) or _failed(kwargs.values()):
        context.untold = True
        raise Defer(AGAIN)


def has_failed_before(context: CeleryContext) -> bool:
    """Say whether a run only passes on the failure of a parent."""
    return context.claim.flow_id is not None and first_failure(context) is not None


def first_failure(context: TaskContext) -> FirstFailure | None:
    """Return the first failed parent of a message; None: no parent has failed."""
    claim = context.claim
    with connections[context.database].cursor() as cursor:
        cursor.execute(SQL["failed"], {"id": claim.id, "flow_id": claim.flow_id})
        row = cursor.fetchone()
    if row is None:
        return None
    id, task_id, is_before = row
    error = flow_results.results(context.database, [id], since=claim.created_at)[id].error
    if not isinstance(error, ParentFailed) or error.outcome not in FAILED:
        return None
    return FirstFailure(error, task_id or str(id), is_before)


def error_of(failed: ParentFailed) -> TaskError:
    """Return the last error of a message that failed."""
    known = failed.error or {"class": "pgqueue.exceptions.ParentFailed", "message": str(failed)}
    return TaskError(0, known["class"], known["message"], known.get("traceback", ""))


def _pass_on(failure: FirstFailure, follows: str) -> None:
    parent = failure.parent
    raised: BaseException = as_raised(error_of(parent))
    if parent.outcome in REVOKED:
        raised = TaskRevokedError(REVOKED[parent.outcome])
    elif parent.outcome == Outcome.DISCARDED:
        raised = Ignore(error_of(parent).message)
    if follows == GROUP and not failure.is_before:
        raise ChordError(f"Dependency {failure.task_id} raised {raised!r}") from parent
    if parent.outcome != State.DEAD:
        raise Cancel(f"Its parent, message {parent.message_id}, was {parent.outcome}.")
    raise raised from parent


def _follows(context: CeleryContext, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Return ONE, GROUP or BETWEEN, if a parent may have failed; None: no parent has failed."""
    own = context.metadata.get(OURS)
    if isinstance(own, dict) and (unseen := own.get(AFTER)):
        return str(unseen)
    for each in (*args, *kwargs.values()):
        if isinstance(each, ParentFailed):
            return ONE
        if type(each) is list and _failed(each):
            return GROUP
    return None


def _failed(given: Any) -> ParentFailed | None:
    """Return the first failed parent among the results, also in nested lists."""
    for each in given:
        found = _failed(each) if type(each) is list else each
        if isinstance(found, ParentFailed):
            return found
    return None
