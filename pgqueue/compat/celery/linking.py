"""Call errbacks, which `link_error` and `on_error` link to a task.

An errback is a message of the flow: it waits for its task's message, and does nothing if the task
has succeeded. So it is called once, even if a worker dies, and its own failure is visible.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from asgiref.sync import async_to_sync

from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.joining import AGAIN, FAILED, error_of, first_failure
from pgqueue.compat.celery.raised_errors import as_raised
from pgqueue.compat.celery.request import Request
from pgqueue.compat.celery.signatures import signature
from pgqueue.exceptions import ParentFailed
from pgqueue.states import State
from pgqueue.tasks import Task, TaskContext, task


class FailedRequest(Request):
    """The request of a failed message, for its errback."""

    called_directly = False

    def __init__(self, result: AsyncResult) -> None:
        self.task = result.name
        self.id = self.root_id = result.given_id
        # As in Celery, a chord's body that was never called has no arguments.
        self.args = [each for each in result.args or () if not _has_failed(each)]
        self.kwargs = result.kwargs
        self.retries = result.retries or 0


@task(takes_context=True, max_attempts=1, redact=["errback.args", "errback.kwargs"])
def call_errback(context: TaskContext, errback: dict[str, Any], failed: Any) -> None:
    """Call the errback of a message, if the message has failed by itself.

    An errback with three parameters gets the request, the error and the traceback. Any other
    errback becomes a message with the id as its argument.
    """
    if isinstance(failed, ParentFailed) and failed.outcome not in FAILED:
        context.defer(AGAIN)  # the message was replayed meanwhile
    if not isinstance(failed, ParentFailed) or failed.outcome != State.DEAD:
        return
    first = first_failure(context)
    if first is not None and first.parent.message_id != failed.message_id:
        return  # the message only passed on the failure of a parent
    result = AsyncResult(failed.message_id)
    error = as_raised(error_of(failed))
    traceback = failed.error["traceback"] if failed.error else None
    call(signature(errback), FailedRequest(result), error, traceback)


def call(errback: Any, request: Request, error: Any, traceback: str | None) -> None:
    """Call an errback in this process, or store its message."""
    if not _takes_all(errback):
        errback.apply_async((request.id,))
        return
    run_to_end(errback(request, error, traceback))


def run_to_end(returned: Any) -> Any:
    """Return the value that a task has returned; of an async task, run the coroutine for it."""
    return async_to_sync(_awaited)(returned) if inspect.isawaitable(returned) else returned


async def _awaited(returned: Any) -> Any:
    return await returned


def _has_failed(given: Any) -> bool:
    several = given if type(given) is list else [given]
    return any(isinstance(each, ParentFailed) for each in several)


def _takes_all(errback: Any) -> bool:
    """Say whether an errback takes the request, the error and the traceback.

    Arguments of the signature itself are not counted.
    """
    task = errback.type
    if task.is_bound:
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    function = task.function
    if not errback.immutable:
        with suppress(TypeError, ValueError):
            inspect.signature(function).bind_partial(*errback.args, **errback.kwargs)
            function = partial(function, *errback.args, **errback.kwargs)
    parameters = inspect.signature(function).parameters.values()
    several = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    return several or sum(each.kind in kinds for each in parameters) > 1


def errback_task(errback: Any) -> Task[Any, Any]:
    """Return the task whose message calls an errback, in the channel of the errback's task.

    Raises:
        Unsupported: the errback is a chain, a group or a chord.
    """
    if errback.kind is not None:
        raise Unsupported(f"link_error of a {errback.kind}: link each of its tasks.")
    own = errback.type.own
    return _in_channel(errback.options.get("queue") or own.queue_name)


@lru_cache
def _in_channel(channel: str) -> Task[Any, Any]:
    return call_errback.using(channel=channel)
