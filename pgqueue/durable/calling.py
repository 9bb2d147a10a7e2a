"""Other messages that a durable run stores and waits for."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from django.db import connections

from pgqueue.codec.arguments import PAYLOAD_LIMIT
from pgqueue.codec.encoding import Returned
from pgqueue.codec.json_text import with_decimals
from pgqueue.durable.trying import StepRun
from pgqueue.engine import flows, steps
from pgqueue.engine.flows import Waits
from pgqueue.engine.steps import StoredStep
from pgqueue.exceptions import ChannelFull, InvalidFlow, InvalidResult, InvalidStep, ParentFailed
from pgqueue.tasks import flow_results, registry
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.flow_storing import StoredDraft
from pgqueue.tasks.result import TaskResult

T = TypeVar("T")

OnFailure = Literal["raise", "return"]
ON_FAILURE = ("raise", "return")


class PendingCall(Generic[T]):
    """A call of another task: `DurableContext.gather` stores it, and waits for it."""

    def __init__(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.task = task
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        return f"<PendingCall of {getattr(self.task, 'name', self.task)}>"


class AwaitedCalls(StoredDraft):
    """The messages that one step stores."""

    def __init__(self, run: StepRun, name: str) -> None:
        super().__init__(run.database)
        self._run = run
        self._name = name

    def __str__(self) -> str:
        return f"the step {self._name!r} of message {self._run.claim.id}"

    def store_awaited(self, step: StoredStep, *, cancels: bool) -> None:
        """Store the messages, the run's wait for them and its step, in one transaction.

        Args:
            cancels: cancel the messages if the run ends before them.

        Raises:
            InvalidFlow: one of them would wait for the run itself, or is this message.
            InvalidArguments, ChannelFull, DuplicateMessage: nothing is stored.
        """
        connection = connections[self.database]
        claim = self._run.claim
        with self._run.records.transaction():
            flows.unblock(connection, claim.id)
            flow_id = flows.reserve(connection)
            self.store(connection, flow_id)
            flows.begin(connection, flow_id, f"{claim.task.rpartition('.')[2]} #{claim.id}")
            # A run that leaves its lane has only its children behind it.
            keeps = self._run.task.keeps_lane
            behind = [claim.id] if keeps else flows.blocked_by(connection, claim.id)
            self._check_order(connection, self._members, behind)
            ids = [each.message_id for each in self._members]
            if claim.id in ids:
                raise InvalidFlow(f"{self} has the dedupe key of its call, and can't wait for it.")
            self._check_duplicates(connection, behind)
            if dropped := [each for each in self._members if each.came_of == "dropped"]:
                raise full(dropped[0].task)
            # A duplicate belongs to somebody else; it is waited for all the same.
            flows.block(connection, flow_id, [Waits(claim.id, sorted(set(ids)), "run")])
            result = {"flow": flow_id, "ids": ids, "cancels": cancels}
            self._run.records.store(step._replace(result=json.dumps(result)))

    def _check_duplicates(self, connection: Any, behind: Collection[int]) -> None:
        """Check that no message that was stored before waits for this one.

        Args:
            behind: the messages that wait for it; itself, if all of its lane does.

        Raises:
            InvalidFlow: such a message waits, and neither could ever run.
        """
        others = [each for each in self._members if each.came_of != "stored"]
        if not others:
            return
        # Two runs that call each other at this moment must see each other.
        flows.lock_circles(connection)
        waiting = flows.waiting(connection, behind)
        for each in others:
            if each.message_id in waiting:
                raise InvalidFlow(
                    f"{self} would wait for {each.task.name} #{each.message_id}, which has the "
                    "dedupe key of its call and waits for it, directly or indirectly: neither "
                    "could ever go on."
                )


def enqueue(
    run: StepRun, name: str, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> TaskResult[Any]:
    """Store another message once; return its result.

    Raises:
        InvalidStep: the task's messages are stored in another database.
        InvalidArguments, ChannelFull, DuplicateMessage: nothing is stored.
    """
    found = run.records.find(name)
    if found is None:
        step = run.records.new(name, "call")
        with run.records.transaction():
            # It is part of this transaction in any case.
            result: TaskResult[Any] = task.using(enqueue_on_commit=False).enqueue(*args, **kwargs)
            if not result.id:
                raise full(task)
            run.records.store(step._replace(result=json.dumps({"ids": [int(result.id)]})))
        return result
    [id] = json.loads(found.result or "")["ids"]
    stored: TaskResult[Any] = TaskResult(task, args, kwargs)
    stored.id = str(id)
    return stored


def check_task(run: StepRun, task: Any) -> Declaration[Any, Any]:
    """Return a task whose messages the run can store.

    Raises:
        InvalidStep: it is no task, or its messages are stored in another database.
    """
    if not isinstance(task, Declaration):
        raise InvalidStep(f"{task!r:.99} is no task: enqueue() needs one.")
    if task.alias != run.database:
        raise InvalidStep(
            f"{task.name} stores its messages in {task.alias!r}, and this run its steps in "
            f"{run.database!r}: they can't be one commit. Enqueue it in a step."
        )
    return task


def full(task: Declaration[Any, Any]) -> ChannelFull:
    """Return the error of a call that a full channel dropped."""
    return ChannelFull(f"The channel {task.queue_name!r} is full, and dropped {task.name}.")


def gathered(run: StepRun, name: str, calls: Iterable[Any]) -> AwaitedCalls:
    """Return a draft of calls.

    Raises:
        InvalidStep: one of them is no call.
        InvalidFlow, InvalidArguments: a task or its arguments are invalid.
    """
    draft = AwaitedCalls(run, name)
    for each in calls:
        if not isinstance(each, PendingCall):
            raise InvalidStep(f"gather() takes calls, run.call(task, …), and not {each!r:.99}.")
        draft.add(each.task, each.args, each.kwargs)
    return draft


def results(run: StepRun, step: StoredStep) -> str | None:
    """Return the results of the messages that a step waits for, as JSON; None: some go on.

    Raises:
        UnreadablePayload: a result is not kept any more.
        InvalidResult: together they are too large to be kept with the step.
    """
    stored = json.loads(step.result or "{}")
    ids: list[int] = stored["ids"]
    connection = connections[run.database]
    if steps.go_on(connection, ids):
        steps.watch(connection, run.claim, stored["flow"], min(ids))
        return None
    returned = flow_results.results(run.database, set(ids), since=run.claim.created_at)
    if any(each.is_encrypted for each in returned.values()) and not run.task.encrypted:
        raise InvalidResult(
            f"The step {step.name!r} would keep results of encrypted tasks as plain text: declare "
            f"{run.task.name} with encrypted=True."
        )
    rows = [_row(returned[id]) for id in ids]
    text = with_decimals({"ids": ids, "returned": rows})
    if len(text) > PAYLOAD_LIMIT:
        raise InvalidResult(
            f"The results of the step {step.name!r} take {len(text):,} bytes, more than "
            f"{PAYLOAD_LIMIT:,}: have the tasks store their data elsewhere, and return where it is."
        )
    return run.records.sealed(text)


def _row(returned: Returned) -> dict[str, Any]:
    if isinstance(returned.error, ParentFailed):
        _, given = returned.error.__reduce__()
        return {"task": returned.task, "failed": list(given)}
    return {"task": returned.task, "result": returned.plain}


def values(stored: Any, on_failure: OnFailure) -> list[Any]:
    """Return the results that a step has stored, from their parsed JSON.

    Raises:
        ParentFailed: a message did not succeed, and `on_failure` is "raise".
        UnreadablePayload: a result does not fit the return type of its task.
    """
    return [_value(row, on_failure) for row in stored["returned"]]


def _value(row: dict[str, Any], on_failure: OnFailure) -> Any:
    if (failed := row.get("failed")) is not None:
        error = ParentFailed(*failed)
        if on_failure == "raise":
            raise error
        return error
    task = registry.find(row["task"])
    if task is None or row["result"] is None:
        return row["result"]
    return task.codec.decode_result(with_decimals(row["result"]))
