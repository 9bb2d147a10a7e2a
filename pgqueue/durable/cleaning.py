"""Work that a durable run leaves behind."""

from __future__ import annotations

from contextlib import suppress

from pgqueue.exceptions import FlowDoesNotExist
from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.definition import task
from pgqueue.tasks.flows import get_flow


@task(takes_context=True)
def cancel_calls(context: TaskContext, flow_id: str) -> None:
    """Cancel the messages that a durable run has waited for: it has ended without them."""
    with suppress(FlowDoesNotExist):
        get_flow(flow_id, database=context.database).cancel()
