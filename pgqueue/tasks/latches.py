"""Messages that wait for another flow.

A message that waits for a flow waits in fact for a latch. A latch is a message of the waiting flow;
it waits for the handler of the other flow, which is that flow's last message. A flow without a
handler gets one. So a flow may grow while others wait for it: its handler waits for each new
message.

The latch looks at the other flow when it runs. It succeeds if all messages of that flow have
succeeded. If some are dead, the latch is dead, too: after a retry of that flow, a retry of its own
flow replays it. If some are gone for good, it is cancelled. `on_failure` of the messages behind the
latch then decides about these.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

from pgqueue.conf import settings
from pgqueue.engine import flows as engine
from pgqueue.exceptions import (
    Cancel,
    Defer,
    FlowFailed,
)
from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.definition import task

BATCH = 10_000
LOOK_AGAIN, LOOK_AGAIN_AT_MOST = 1.0, 60.0
"""Seconds until a latch looks again at a flow that goes on; doubled each time."""


def patience(error: BaseException, result: Any) -> Any:
    """Return the wait of a latch after an error; None: another attempt would fail, too."""
    return None if isinstance(error, FlowFailed) else settings().backoff(error, result)


@task(takes_context=True, backoff=patience)
def wait_for_flow(context: TaskContext, flow_id: int) -> None:
    """Succeed if all messages of another flow have succeeded.

    Raises:
        FlowFailed: messages of that flow are dead.
        Cancel: messages of that flow are gone for good.
        Defer: that flow goes on. It was retried after its handler had run, or it grew while its
            handler was stored.
    """
    connection = connections[context.database]
    found = engine.came_to(connection, flow_id)
    if found is None:
        raise FlowFailed(
            f"The flow #{flow_id} is not kept any more: its outcome is unknown. Cancel this flow, "
            "or enqueue its messages again.",
            flow_id=flow_id,
        )
    is_stopped = found.dead and engine.moving(connection, flow_id) is None
    if found.goes_on and not is_stopped:
        delay = min(float(context.progress or LOOK_AGAIN), LOOK_AGAIN_AT_MOST)
        raise Defer(delay, progress=2 * delay)
    if found.gone:
        raise Cancel(
            f"The flow {found.name!r} #{flow_id} has failed: {found.gone} of its messages were "
            "cancelled or discarded, or have expired. No retry brings them back."
        )
    if found.dead:
        raise FlowFailed(
            f"The flow {found.name!r} #{flow_id} has failed: {found.dead} of its messages are "
            f"dead. Retry it, get_flow({flow_id}).retry(), and this flow after it has ended.",
            flow_id=flow_id,
            failed=found.dead,
        )


@task
def end_of_flow() -> None:
    """Do nothing. This runs when all other messages of its flow have ended or are dead."""
