"""Shortcuts to flows: calls that are put together before they are stored.

chain(fetch.call(url), parse, store.call(table="pages")).enqueue()
chord(fetch.map(urls), merge).enqueue()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar, Union

from asgiref.sync import sync_to_async

from pgqueue.exceptions import InvalidFlow
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.flow_building import ON_FAILURE, Draft
from pgqueue.tasks.flow_members import AnyCall, Member, TaskCall, own_task
from pgqueue.tasks.flows import Flow

T = TypeVar("T")

Placed = Union["Member[Any]", "list[Placed]"]
"""The messages of a step in a flow: one message, or a list for a group."""


class EmptyGroup(list["Placed"]):
    """The placed form of a group without steps, with the messages before it in a chain.

    Attributes:
        before: the messages before the group. The next step of the chain waits for them.
    """

    def __init__(self, before: Sequence[Member[Any]]) -> None:
        super().__init__()
        self.before = before


class CanvasStep:
    """A part of a chain, a group or a chord. It may also be stored alone."""

    def place(self, draft: Draft, previous: Placed | None = None) -> Placed:
        """Add its messages to a flow.

        Args:
            previous: the messages of the step before it in a chain.
        """
        raise NotImplementedError

    def calls(self) -> Iterator[ChainedCall[Any]]:
        """Yield the calls that the step consists of."""
        raise NotImplementedError

    def enqueue(self, *, name: str = "", on_end: Any = None) -> Any:
        """Store its messages as a flow.

        Args:
            name: of the flow; '': the name of its first task.
            on_end: as for `flow()`.

        Returns:
            The last message; of a group, a list of them. `message.flow` is the flow.

        Raises:
            InvalidFlow: it is empty, or its tasks are not stored on one database.
            InvalidArguments: a call does not fit its function, or a result has the wrong type for
                the next call.
        """
        first = next(self.calls(), None)
        if first is None:
            raise InvalidFlow(f"There is nothing in this {type(self).__name__.lower()}.")
        flow = Flow(name or first.task.name, first.task.alias, on_end=on_end)
        with flow:
            return self.place(flow)

    async def aenqueue(self, *, name: str = "", on_end: Any = None) -> Any:
        """Store its messages as a flow, from async code."""
        return await sync_to_async(self.enqueue)(name=name, on_end=on_end)


@dataclass(frozen=True)
class ChainedCall(CanvasStep, AnyCall[T]):
    """A call whose first argument may be the result of the step before it.

    Attributes:
        takes_result: in a chain, the result of the previous step is its first argument.
        failure_policy: its reaction to a failed parent, as on_failure of `Flow.enqueue`.
    """

    takes_result: bool = field(default=True, kw_only=True)

    def using(self, **options: Any) -> Self:
        """Return a copy whose task has other options."""
        return replace(self, task=self.task.using(**options))

    def without_result(self) -> Self:
        """Return a copy that does not take the result of the previous step in a chain."""
        return replace(self, takes_result=False)

    def on_failure(self, policy: str) -> Self:
        """Return a copy with this reaction to a failed parent: wait, cancel or run.

        Raises:
            InvalidFlow: the policy has another value.
        """
        if policy not in ON_FAILURE:
            raise InvalidFlow(f"on_failure({policy!r}): it must be one of {', '.join(ON_FAILURE)}.")
        return replace(self, failure_policy=policy)

    def place(self, draft: Draft, previous: Placed | None = None) -> Member[Any]:
        """Add its message to a flow."""
        takes = previous is not None and self.takes_result
        return draft.add(
            self.task,
            (results(previous), *self.args) if takes else self.args,
            self.kwargs,
            after=members(previous),
            on_failure=self.failure_policy,
        )

    def calls(self) -> Iterator[ChainedCall[T]]:
        """Yield the call itself."""
        yield self


@dataclass(frozen=True)
class Call(ChainedCall[T], TaskCall[T]):
    """A task with arguments that is not stored yet. Made by `task.call()`."""


@dataclass(frozen=True)
class Group(CanvasStep):
    """Steps side by side. Made by `group()` and `task.map()`."""

    steps: tuple[CanvasStep, ...]

    def __len__(self) -> int:
        return len(self.steps)

    def place(self, draft: Draft, previous: Placed | None = None) -> list[Placed]:
        """Add the messages of all steps to a flow."""
        if not self.steps:
            return EmptyGroup(members(previous))
        return [step.place(draft, previous) for step in self.steps]

    def calls(self) -> Iterator[ChainedCall[Any]]:
        """Yield the calls of all steps."""
        for step in self.steps:
            yield from step.calls()


@dataclass(frozen=True)
class Chain(CanvasStep):
    """Steps one after another. Made by `chain()`."""

    steps: tuple[CanvasStep, ...]

    def place(self, draft: Draft, previous: Placed | None = None) -> Placed:
        """Add the messages of all steps to a flow."""
        placed = previous
        for step in self.steps:
            placed = step.place(draft, placed)
        if placed is None:
            raise InvalidFlow("There is nothing in this chain.")
        return placed

    def calls(self) -> Iterator[ChainedCall[Any]]:
        """Yield the calls of all steps."""
        for step in self.steps:
            yield from step.calls()


def chain(*steps: Any) -> Chain:
    """Put steps one after another: each takes the result of the previous step.

    Args:
        steps: tasks, calls (`task.call(…)`), groups, chords and chains. The step after a group
            takes the list of the group's results.

    Raises:
        InvalidFlow: a step has another type.
    """
    return Chain(tuple(map(as_step, steps)))


def group(*steps: Any) -> Group:
    """Put steps side by side.

    Args:
        steps: as for `chain`, or one iterable of steps.

    Raises:
        InvalidFlow: a step has another type.
    """
    if len(steps) == 1 and isinstance(steps[0], Iterable) and not isinstance(steps[0], CanvasStep):
        steps = tuple(steps[0])
    return Group(tuple(map(as_step, steps)))


def chord(header: Any, callback: Any) -> Chain:
    """Have `callback` run after all messages of a group, with the list of their results.

    Args:
        header: a group, or an iterable of steps.
        callback: a task or a call.

    Raises:
        InvalidFlow: a step has another type, or the group is empty.
    """
    side_by_side = header if isinstance(header, Group) else group(header)
    if not side_by_side.steps:
        raise InvalidFlow("A chord needs a group that is not empty.")
    return Chain((side_by_side, as_step(callback)))


def mapped(task: Declaration[Any, Any], values: Iterable[Any]) -> Group:
    """Return a group of calls with one argument each."""
    return Group(tuple(Call(task, (value,)) for value in values))


def as_step(step: Any) -> CanvasStep:
    """Return a step unchanged, or a task as a call without arguments.

    Raises:
        InvalidFlow: the value is neither a task nor a step.
    """
    return step if isinstance(step, CanvasStep) else Call(own_task(step))


def members(placed: Placed | None) -> Sequence[Member[Any]]:
    """Return the messages that the next step waits for."""
    if placed is None:
        return ()
    if isinstance(placed, Member):
        return (placed,)
    if isinstance(placed, EmptyGroup):
        return placed.before
    return [member for each in placed for member in members(each)]


def results(placed: Placed | None) -> Any:
    """Return the messages that stand for their results in the next step's arguments."""
    return placed if not isinstance(placed, list) else [results(each) for each in placed]
