"""Messages that wait for another flow.

A message that waits for a flow waits in fact for a latch: a message of its own flow that waits for
the handler of the other one, its last message. A flow that has no handler gets one. So a flow may
grow while it is waited for: its handler waits for each new message.

The latch looks at the other flow when it runs. It succeeds if all messages of that flow have. If
some are dead, it is dead, too: after a retry of that flow, a retry of its own flow replays it. If
some are gone for good, it is cancelled. So `on_failure` of the messages behind it decides.
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
    """Return how long a latch waits after an error; None: another attempt would fail, too."""
    return None if isinstance(error, FlowFailed) else settings().backoff(error, result)


@task(takes_context=True, backoff=patience)
def wait_for_flow(context: TaskContext, flow_id: int) -> None:
    """Succeed if all messages of another flow have succeeded.

    Raises:
        FlowFailed: messages of it are dead.
        Cancel: messages of it are gone for good.
        Defer: it goes on. It was retried after its handler had run, or it grew while its handler
            was stored.
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
    """Do nothing. It runs when all other messages of its flow have ended, or are dead."""
