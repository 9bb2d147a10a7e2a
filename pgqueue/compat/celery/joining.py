"""Have a task fail whose messages before it have failed: the rest of a chain, or a chord's body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import connections

from pgqueue.compat.celery.async_result import REVOKED, as_raised
from pgqueue.compat.celery.exceptions import ChordError, Ignore, TaskRevokedError
from pgqueue.compat.celery.request import OURS, CeleryContext
from pgqueue.database.sql_files import load
from pgqueue.exceptions import Cancel, Defer, ParentFailed
from pgqueue.states import Outcome, State
from pgqueue.tasks import TaskContext, TaskError, flow_results

SQL = load(__name__)

AFTER = "after"
"""The key in a message's own metadata that says what it follows, if its arguments can't tell."""
ONE, GROUP, BETWEEN = "one", "group", "between"
"""Another message, a group, or a group while it is itself part of one."""
AGAIN = timedelta(seconds=1)
"""Until the next look at a message before this one that was replayed meanwhile."""
FAILED = (State.DEAD, *Outcome)


class FirstFailure(NamedTuple):
    """The first message that failed of those that one waited for.

    Attributes:
        parent: how it failed.
        task_id: its task_id, or its number.
        is_before: others of those that the message waited for come after it.
    """

    parent: ParentFailed
    task_id: str
    is_before: bool


def check_parents(context: CeleryContext, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Look at the results that a run was given.

    Raises:
        ChordError: the run follows a group, one of which has failed.
        Exception: the run follows a message that failed with this error.
        Cancel: the run follows a message that was cancelled or discarded, or has expired.
        Defer: a message before this one was replayed, and goes on.
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
    """Say whether a run only passes on the failure of a message before it."""
    return context.claim.flow_id is not None and first_failure(context) is not None


def first_failure(context: TaskContext) -> FirstFailure | None:
    """Return how the first message failed that this one waited for; None: none has failed."""
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
        raise Cancel(f"Message {parent.message_id}, which it follows, was {parent.outcome}.")
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
    """Return the first error in the place of a result, also in lists."""
    for each in given:
        found = _failed(each) if type(each) is list else each
        if isinstance(found, ParentFailed):
            return found
    return None
