"""Work that a durable run leaves behind."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from pgqueue.exceptions import Defer, FlowDoesNotExist
from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.definition import task
from pgqueue.tasks.flows import get_flow

AGAIN = timedelta(seconds=5)


@task(takes_context=True)
def cancel_calls(context: TaskContext, flow_id: str) -> None:
    """Cancel the messages that a durable run has waited for: it has ended without them.

    Raises:
        Defer: another transaction has locked one of them, which is cancelled later.
    """
    with suppress(FlowDoesNotExist):
        if get_flow(flow_id, database=context.database).cancel().busy:
            raise Defer(AGAIN)
