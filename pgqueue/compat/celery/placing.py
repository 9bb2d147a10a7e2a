"""Store signatures as the messages of a flow, and return their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgqueue.compat.celery import publishing
from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.calling import options_of, routed
from pgqueue.compat.celery.capturing import capture
from pgqueue.compat.celery.encoding import simplified
from pgqueue.compat.celery.group_result import GroupResult
from pgqueue.compat.celery.joining import AFTER, BETWEEN, GROUP, ONE
from pgqueue.compat.celery.linking import errback_task
from pgqueue.compat.celery.request import OURS, given_id
from pgqueue.compat.celery.signatures import Signature, plain
from pgqueue.conf import settings
from pgqueue.tasks.canvas import (
    EmptyGroup,
    Group,
    Placed,
    members,
    results,
)
from pgqueue.tasks.flow_building import Draft
from pgqueue.tasks.flow_members import Member
from pgqueue.tasks.flows import Flow

LINKS = ("link", "link_error")


class Placing:
    """Adds signatures to a flow.

    Args:
        draft: the flow.
        prefix: the beginning of the numbers of its groups.
        called: the signature whose task's apply_async stores the flow.
    """

    def __init__(self, draft: Draft, prefix: str = "", called: Signature | None = None) -> None:
        self.draft = draft
        self._called = called
        self._prefix = prefix
        self._groups = 0
        self._linked_to: Member[Any] | None = None
        self._between: Placed | None = None
        self._before: dict[int, Placed] = {}  # by the id() of objects, as the next one
        self._numbers: dict[int, str] = {}
        self._kept: list[Placed] = []  # a list that ends gives its id() to a later one
        self._added: list[tuple[Member[Any], Any, Mapping[str, Any]]] = []

    def add(
        self, sig: Signature, previous: Placed | None, *, taken: bool, group: str | None
    ) -> Member[Any]:
        """Add the message of one task, and the messages of its links.

        As in Celery, a message fails if its parent, or a member of the group before it, has failed.
        A linked message waits until the failed message is replayed. An errback is called for the
        message that failed, and not for the messages after it.
        """
        links, errbacks = sig.linked("link"), sig.linked("link_error")
        joins = isinstance(previous, list)
        own = self._own(sig, previous, group)
        options = {name: each for name, each in sig.options.items() if name not in LINKS}
        task, args, kwargs = sig.type, sig.args, sig.kwargs
        if sig is not self._called:
            args, kwargs, options = capture(task, args, kwargs, options)
        args, kwargs = plain(tuple(args)), plain(dict(kwargs))
        takes = previous is not None and not sig.immutable
        earlier = self._before.get(id(previous)) if joins else None
        member = self.draft.add(
            self._task(task, args, kwargs, options, own, taken=taken or bool(links)),
            (results(previous), *args) if takes else args,
            kwargs,
            after=[*members(previous), *members(earlier)],
            on_failure="wait" if previous is None or previous is self._linked_to else "run",
        )
        self.note_before(member, previous)
        self._link(links, member)
        self._add_errbacks(errbacks, member, after=earlier if joins else previous)
        self._added.append((member, task, member.task.metadata))
        return member

    def _own(self, sig: Signature, previous: Placed | None, group: str | None) -> dict[str, Any]:
        """Return our part of a message's metadata: its group, and the kind of its parent."""
        joins = isinstance(previous, list)
        own: dict[str, Any] = {} if group is None else {"group": group}
        if joins and previous is self._between:
            own[AFTER] = BETWEEN  # as in Celery, it gets the error of the failed member
        elif previous is not None and (sig.immutable or _has_messages_before(previous)):
            own[AFTER] = GROUP if joins and _has_member(previous) else ONE
        return own

    def _add_errbacks(
        self, errbacks: Sequence[Signature], member: Member[Any], *, after: Placed | None
    ) -> None:
        """Add the messages that call the errbacks of a message if it fails."""
        for errback in errbacks:
            given = simplified(plain(errback))
            self.draft.add(
                errback_task(errback), (given, member), {}, after=members(after), on_failure="run"
            )

    def _link(self, links: Sequence[Signature], member: Member[Any]) -> None:
        """Add the messages of the signatures that are linked to a message."""
        around, self._linked_to = self._linked_to, member
        for link in links:
            link.place(self, member, taken=False, group=None)
        self._linked_to = around

    def _task(
        self, task: Any, args: Any, kwargs: Any, given: Any, own: Mapping[str, Any], *, taken: bool
    ) -> Any:
        """Return the task with its options."""
        options = options_of(task, routed(task, args, kwargs, given))
        if taken and options.get("ignore_result", task.own.ignore_result):
            options["ignore_result"] = False
        if own:
            metadata = options.get("metadata", {})
            options["metadata"] = {**metadata, OURS: {**metadata.get(OURS, {}), **own}}
        options = publishing.before(task, args, kwargs, options)
        return task.own.using(**options) if options else task.own

    def add_group(self, tasks: Sequence[Signature], previous: Placed | None, *, taken: bool) -> Any:
        """Add the messages of a group."""
        self._groups += 1
        number = f"{self._prefix}{self._groups}"
        if tasks:
            around, self._between = self._between, previous
            placed = [each.place(self, previous, taken=taken, group=number) for each in tasks]
            self._between = around
        else:
            placed = Group(()).place(self.draft, previous)
        self._numbers[id(placed)] = number
        self._kept.append(placed)
        self.note_before(placed, previous)
        return placed

    def note_before(self, placed: Placed, previous: Placed | None) -> None:
        """Note the previous step of a placed step, as the parent of its result."""
        if previous is not None:
            self._before[id(placed)] = previous

    def result_of(self, placed: Placed, flow_id: str, around: Placed | None = None) -> Any:
        """Return the result of a placed and stored step, with the earlier steps as its parents.

        Args:
            around: the step before the enclosing group, which is the parent of the group only.
        """
        steps = [placed]
        while (before := self._before.get(id(steps[-1]))) is not None and before is not around:
            steps.append(before)
        result: Any = None
        for step in reversed(steps):
            result = self._result(step, flow_id, parent=result)
        return result

    def _result(self, placed: Placed, flow_id: str, parent: Any) -> Any:
        if isinstance(placed, Member):
            known = given_id(placed.task.metadata) or placed.id
            return AsyncResult(known, stored=placed, parent=parent)
        before = self._before.get(id(placed))
        each_of = [self.result_of(each, flow_id, before) for each in placed]
        return GroupResult(f"{flow_id}.{self._numbers[id(placed)]}", each_of, parent=parent)

    def tell_stored(self) -> None:
        """Send after_task_publish for each message."""
        for member, task, metadata in self._added:
            publishing.after(task, member, metadata)


def store(sig: Signature, *, is_called: bool = False) -> Any:
    """Store a canvas as a flow, in the open transaction.

    Args:
        is_called: whether the signature is one task, whose apply_async calls this.

    Returns:
        The AsyncResult of its last task, or the GroupResult of its last group.

    Raises:
        InvalidArguments, Unsupported, InvalidTask: as `apply_async` of a task does.
    """
    flow = Flow(sig.label, settings().database)
    into = Placing(flow, called=sig if is_called else None)
    with flow:
        placed = sig.place(into, None, taken=False, group=None)
    into.tell_stored()
    result = into.result_of(placed, flow.id)
    if sig.kind == "chord":  # as in Celery, also if its body is a chain
        result.parent = _group_before(result)
    return result


def _has_messages_before(placed: Placed) -> bool:
    """Say whether a step has an empty group after other messages.

    The next step waits for these messages, but its arguments do not show their failure.
    """
    if isinstance(placed, EmptyGroup):
        return bool(placed.before)
    return isinstance(placed, list) and any(map(_has_messages_before, placed))


def _has_member(placed: Placed) -> bool:
    return isinstance(placed, Member) or any(map(_has_member, placed))


def _group_before(result: Any) -> Any:
    parent = result.parent
    while isinstance(parent, AsyncResult):
        parent = parent.parent
    return parent
