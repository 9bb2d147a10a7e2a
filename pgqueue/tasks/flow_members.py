"""Members of a flow: messages that are collected, and others may wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from pgqueue.codec.encoding import Hint, Reference, noticed
from pgqueue.exceptions import InvalidFlow
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.result import TaskResult
from pgqueue.tasks.returned import returned

T = TypeVar("T")

MEMBER = "<TaskResult "
"""How the text of a member begins."""


@dataclass(frozen=True)
class AnyCall(Generic[T]):
    """A task with arguments that is not stored yet.

    Attributes:
        failure_policy: its reaction to a failed parent, as on_failure of `Flow.enqueue`.
    """

    task: Declaration[Any, T]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    failure_policy: str = field(default="wait", kw_only=True)


class TaskCall(AnyCall[T]):
    """A call that has all its arguments, as type checkers know."""


class DjangoTask(Protocol):
    """The part of a task of `django.tasks` that type checkers know it by."""

    @property
    def module_path(self) -> str:
        """Its import path."""


class Member(TaskResult[T], Reference):
    """A message of a flow: its result. Other messages of the flow take it as an argument.

    Attributes:
        after: the members that it waits for, in addition to the members among its arguments.
        other_flows: the flows that it waits for.
        outside: the ids of messages of other flows that it waits for.
        on_failure: its reaction to a failed parent.
        draft: the draft that it was added to.
        number: the number of members that were added to the draft before it.
        savepoint: the block of `atomic()` that it was added in; None: the draft's own block.
    """

    __slots__ = (
        *("after", "draft", "number", "on_failure"),
        *("other_flows", "outside", "savepoint"),
    )

    def __init__(
        self,
        task: Declaration[Any, T],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        after: Sequence[Member[Any]],
        on_failure: str,
        draft: Any,
        number: int,
        savepoint: Savepoint | None = None,
        other_flows: Sequence[Any] = (),
    ) -> None:
        super().__init__(task, args, kwargs)
        self.savepoint = savepoint
        self.other_flows = other_flows
        self.outside: Sequence[int] = ()
        self.after = after
        self.on_failure = on_failure
        self.draft = draft
        self.number = number

    @property
    def flow(self) -> Any:
        """The flow that it is part of."""
        return self.draft

    @returned
    def result(self) -> Any:
        """The message itself, with the type of its return value, for arguments of other calls.

        The message that takes it waits for this one, and its task takes the value.
        """
        return self

    @property
    def message_id(self) -> int:
        """The id that it has, or that is reserved for it; 0: it was rolled back."""
        return int(self.id or 0)

    @property
    def returned(self) -> Hint:
        """The encoding of its task's return value."""
        return self.task.codec.returned


class Savepoint:
    """A hook in Django's `run_on_commit`: Django removes it if the savepoint is rolled back."""

    def __init__(self, inside: frozenset[Any]) -> None:
        self.inside = inside
        self._has_committed = False

    def __call__(self) -> None:
        """Note that the transaction was committed."""
        self._has_committed = True

    def is_kept(self, connection: Any) -> bool:
        """Return whether the savepoint was not rolled back."""
        return self._has_committed or any(
            each is self for _, each, *_ in reversed(connection.run_on_commit)
        )


def lane_of(member: Member[Any]) -> tuple[str, str]:
    return member.task.queue_name, member.task.key_of(member.args, member.kwargs)


def check_keys(member: Member[Any]) -> None:
    """Check that no key contains a result, which is not known yet.

    Raises:
        InvalidFlow: a key contains a result.
    """
    task = member.task
    for key in (
        task.key_of(member.args, member.kwargs),
        task.dedupe_key_of(member.args, member.kwargs),
    ):
        if key and MEMBER in key:
            raise InvalidFlow(
                f"The key {key!r} of {task.name} is made of a message that it waits for, whose "
                "result is not known yet. Make it of other arguments, or enqueue the message from "
                "that one's task by `context.flow`."
            )


@contextmanager
def noticing_members() -> Iterator[list[Member[Any]]]:
    """Collect the members among the arguments that are encoded in the block."""
    found: list[Reference] = []
    token = noticed.set(found)
    try:
        yield cast("list[Member[Any]]", found)
    finally:
        noticed.reset(token)


def name_is_taken(name: str, member: Member[Any], other: str) -> InvalidFlow:
    return InvalidFlow(
        f"name={name!r} of {member.task.name}: {other} has this name in the flow already."
    )


def waits_for_itself(message_id: int) -> InvalidFlow:
    """Return the error for a run that would wait for its own flow."""
    return InvalidFlow(
        f"Message {message_id} is part of the flow, which goes on for as long as this run does: "
        "waiting for it would never end. Add the next step to the flow instead: "
        "context.flow.enqueue(…), or a message with after=…, or on_end=…"
    )


def own_task(task: Any) -> Declaration[Any, Any]:
    """Return a task of pgqueue's; for a task of `django.tasks`, the task that stores its messages.

    Raises:
        InvalidFlow: the value is no task, or a task of another backend.
    """
    own = task if hasattr(task, "key_of") else getattr(task, "adopted", None)
    if own is None:
        raise InvalidFlow(f"{task!r} is no task of pgqueue's or of its django.tasks backend.")
    return cast("Declaration[Any, Any]", own)
