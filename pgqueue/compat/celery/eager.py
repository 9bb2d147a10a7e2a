"""Run a task in the place of its call, with its retries, as `apply()` and task_always_eager do."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

from pgqueue.calls.callables import check_did_run
from pgqueue.compat.celery import announcing, linking, signals, states
from pgqueue.compat.celery.eager_result import EagerResult
from pgqueue.compat.celery.exceptions import MaxRetriesExceededError, Retry
from pgqueue.compat.celery.request import EagerRequest, requesting
from pgqueue.compat.celery.signatures import as_signatures
from pgqueue.compat.celery.utils import uuid
from pgqueue.exceptions import Cancel, Defer, Discard, InvalidResult

MOST = 100
"""The maximum of requeues in one call, and of retries if the task has no maximum. A worker has
none."""


class _Failures(NamedTuple):
    """The failures so far: the argument of a backoff."""

    failures: int


def apply(
    task: Any, args: Any, kwargs: Any, *, throws: bool, options: Mapping[str, Any]
) -> EagerResult:
    """Run a task until it succeeds or fails for good.

    Raises:
        Exception: the task's error, if `throws` is true.
    """
    id = options.get("task_id") or uuid()
    retries, requeued = options.get("retries", 0), 0
    while True:
        request = EagerRequest(
            task, id, args, kwargs, retries=retries, headers=options.get("headers")
        )
        with requesting(task, request):
            signals.task_prerun.send(task, task_id=id, task=task, args=args, kwargs=kwargs)
            try:
                value, state = _call(task, args, kwargs, options), states.SUCCESS
                error: BaseException | None = None
            except (Discard, Cancel) as asked:
                ignored = isinstance(asked, Discard)
                value, state, error = None, states.IGNORED if ignored else states.REVOKED, None
            except Defer:
                requeued += 1
                if requeued > MOST:
                    raise
                continue
            except Exception as raised:
                value, error = raised, raised
                state = _state(task, raised, retries)
                if state == states.FAILURE and isinstance(raised, Retry):
                    # The task has no maximum: it asked for a retry beyond ours.
                    most = MaxRetriesExceededError(f"Can't retry {task.name}.")
                    value = error = raised.exc or most
            announcing.tell(task, request, state, value)
        if state != states.RETRY:
            break
        retries += 1
    text = "".join(traceback.format_exception(error)) if error else None
    _follow(state, value, request, text, options)
    if throws and error is not None:
        raise error
    return EagerResult(id, value, state, traceback=text)


def _follow(
    state: str, value: Any, request: EagerRequest, text: str | None, options: Mapping[str, Any]
) -> None:
    """Run the links of a task that has succeeded, or the errbacks of one that has failed."""
    if state == states.SUCCESS:
        for link in as_signatures(options.get("link")):
            link.apply((value,))
    elif state == states.FAILURE:
        for errback in as_signatures(options.get("link_error")):
            linking.call(errback, request, value, text)


def _call(task: Any, args: Any, kwargs: Any, options: Mapping[str, Any]) -> Any:
    """Call a task; return its return value.

    Raises:
        InvalidResult: a worker could not store the return value.
    """
    first = [task] if task.is_bound else []
    returned = task.own.run_here(*first, *args, **kwargs)
    check_did_run(task.name, returned)
    ignores = options.get("ignore_result")
    if not (task.own.ignore_result if ignores is None else ignores):
        task.codec.encode_result(returned)
    return returned


def _state(task: Any, error: BaseException, retries: int) -> str:
    if isinstance(error, InvalidResult):  # as in a worker: a retry would return the same value
        return states.FAILURE
    if task.own.backoff.max_retries is None and retries >= MOST:
        return states.FAILURE
    delay = task.own.backoff(error, _Failures(retries + 1))
    return states.FAILURE if delay is None else states.RETRY
