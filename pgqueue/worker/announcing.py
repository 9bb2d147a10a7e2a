"""Tell receivers and the log what becomes of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.dispatch import Signal

from pgqueue import signals
from pgqueue.calls import tracing
from pgqueue.calls.outcomes import Ending
from pgqueue.conf import settings
from pgqueue.tasks import Task, TaskContext, redacting, tenants
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

OWN_SIGNALS = (Task.send_started, Task.send_finished)
"""The methods that send pgqueue's signals alone. Tasks of other kinds send more."""


def announce(task: Task[Any, Any], context: TaskContext, ending: Ending) -> None:
    """Announce the ending of a run; for an atomic run, after the commit.

    A failure is announced in the context variables that the function has left: its trace, its log
    fields, its Sentry scope.
    """
    raised_in, context.raised_in = context.raised_in, None
    if raised_in is None:
        _announce(task, context, ending)
    else:
        raised_in.run(_announce, task, context, ending)


def _announce(task: Task[Any, Any], context: TaskContext, ending: Ending) -> None:
    # Each is asked first whether it listens: this is done after every run, however small.
    if tracing.tracer is not None:
        tell(tracing.tracer.finished, context, ending)
    if ending.error is not None or signals.logger.isEnabledFor(logging.DEBUG):
        tell(signals.log_finished, task, context, ending, redacting.hiding_run)
    if ending.error is None:
        tell_receivers(task.send_finished, signals.task_finished, context, ending)
        return
    try:
        raise ending.error
    except BaseException:
        # In the handler: receivers may look at sys.exc_info(), as Django's do.
        tell_receivers(task.send_finished, signals.task_finished, context, ending)


def tell_receivers(
    send: Callable[..., None], signal: Signal, context: TaskContext, *arguments: object
) -> None:
    """Call the receivers of a signal in the message's tenant; do nothing if there are none."""
    if not signal.receivers and getattr(send, "__func__", None) in OWN_SIGNALS:
        return
    if settings().tenant is None:
        tell(send, context, *arguments)
    else:
        tell(tenants.call_inside, context.claim, send, context, *arguments)


def tell(send: Callable[..., None], *arguments: object) -> None:
    """Call a receiver, and log its error: not even SystemExit or EndOfRun ends the thread."""
    try:
        send(*arguments)
    except BaseException:
        complain("A receiver of a signal failed")


def complain(message: str, *arguments: object) -> None:
    """Log the current exception, if possible."""
    with suppress(BaseException):
        logger.exception(message, *arguments)
