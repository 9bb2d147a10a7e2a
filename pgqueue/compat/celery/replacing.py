"""End a run with a signature in its place: `Task.replace`."""

from __future__ import annotations

from typing import Any

from django.db import connections

from pgqueue.compat.celery.exceptions import Replaced, Unsupported
from pgqueue.compat.celery.placing import Placing
from pgqueue.compat.celery.request import CeleryContext, context_of
from pgqueue.compat.celery.signatures import signature
from pgqueue.engine import flows
from pgqueue.engine.values import Cursors
from pgqueue.exceptions import InvalidTask
from pgqueue.tasks.flow_growth import Growth


class NewFlow(Growth):
    """A new flow in the place of a message that is in no flow.

    Args:
        name: the name of the flow.
    """

    def __init__(self, name: str, database: str, *, flow_id: int, message_id: int) -> None:
        super().__init__(database, flow_id=flow_id, message_id=message_id)
        self._name = name

    def grow(self, connection: Cursors) -> None:
        """Store the flow, in the transaction that settles the run."""
        self.forget_rolled_back()
        self.store(connection, self._flow_id)
        flows.begin(connection, self._flow_id, self._name)


def replace(task: Any, sig: Any) -> Any:
    """End the run of a task with a signature in its place.

    Raises:
        Replaced: always, except in `apply()`.
        InvalidTask: the signature is an empty chain.
        Unsupported: no worker runs the task.
    """
    if task.request.is_eager:
        return sig.apply().get()
    context = context_of(task)
    if context is None:
        raise Unsupported(f"{task.name}.replace(): only a run in a worker can be replaced.")
    growth = _growth(context)
    into = Placing(growth, prefix=f"{context.id}-")
    member = _whole(sig).place(into, None, taken=True, group=None)
    growth.have_awaited(member)
    growth.reserve(connections[context.database])
    into.tell_stored()
    context.untold = True
    raise Replaced(member.message_id)


def _whole(sig: Any) -> Any:
    """Return a signature that ends with one message, which collects the results of a last group."""
    last = sig
    while last.kind in ("chain", "chord"):
        last = last.parts()[1] if last.kind == "chord" else _last_of(last)
    return sig | signature("celery.accumulate") if last.kind in ("group", "chunks") else sig


def _last_of(sig: Any) -> Any:
    steps = sig.steps()
    if not steps:
        raise InvalidTask("An empty chain is invalid in the place of a task.")
    return steps[-1]


def _growth(context: CeleryContext) -> Growth:
    if context.claim.flow_id is not None:
        return context.flow
    flow_id = flows.reserve(connections[context.database])
    made = NewFlow(
        context.task.name, context.database, flow_id=flow_id, message_id=context.claim.id
    )
    context.growth = made
    return made
