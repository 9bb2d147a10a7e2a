"""Collect messages some of which wait for others.

A message may be waited for only by one that was collected later, so that there are no cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union, overload

from django.db import connections

from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import flows as engine
from pgqueue.engine import lookup
from pgqueue.engine.lookup import Found
from pgqueue.exceptions import InvalidFlow
from pgqueue.tasks import registry
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.flow_members import (
    DjangoTask,
    Member,
    Savepoint,
    TaskCall,
    name_is_taken,
    noticing_members,
    own_task,
)
from pgqueue.values.error_words import hint
from pgqueue.values.names import as_text

T = TypeVar("T")

After = Union["Iterable[Member[Any] | Draft]", "Member[Any]", "Draft"]
"""Messages of a flow and other flows that a message waits for without taking their results."""

ON_FAILURE = ("wait", "cancel", "run")
ANYWHERE = frozenset({"any savepoint"})
"""A value that differs from each set of open savepoints."""
NAME_BYTES = 200


class Draft:
    """Messages that are collected and stored together.

    Use `flow()`, or `context.flow` in a task. Errors name the draft by its text.

    Args:
        database: the alias of the database in which all messages are stored.
    """

    def __init__(self, database: str) -> None:
        self.id = ""
        self.database = database
        self._members: list[Member[Any]] = []
        self._is_open = True
        self._outside: frozenset[Any] | None = self._savepoints()
        self._savepoint: Savepoint | None = None
        self._gone: set[Savepoint | None] = set()
        self._names: dict[str, Member[Any]] = {}
        self._others: list[Member[Any]] = []
        """Messages that were stored before and looked up by their names."""
        self._awaited: set[int] = set()
        """The numbers of members that the children of the running message must wait for, too."""
        self._after: Sequence[Draft] = ()
        """Other flows. Each message without a parent in this flow waits for them."""
        self._latches: dict[str, Member[Any]] = {}
        """Messages that wait for other flows, by the ids of those flows."""
        self._handler: Member[Any] | None = None
        """Runs at the flow's end. It does not wait for duplicates, which belong to other flows."""

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def enqueue(
        self,
        task: TaskCall[T],
        *,
        after: After = ...,
        on_failure: str = ...,
        name: str | None = ...,
    ) -> Member[T]: ...

    @overload
    def enqueue(
        self,
        task: Declaration[..., T],
        *args: Any,
        after: After = ...,
        on_failure: str = ...,
        name: str | None = ...,
        **kwargs: Any,
    ) -> Member[T]: ...

    @overload
    def enqueue(
        self,
        task: DjangoTask,
        *args: Any,
        after: After = ...,
        on_failure: str = ...,
        name: str | None = ...,
        **kwargs: Any,
    ) -> Member[Any]: ...

    def enqueue(
        self,
        task: Any,
        *args: Any,
        after: After = (),
        on_failure: str = "wait",
        name: str | None = None,
        **kwargs: Any,
    ) -> Member[Any]:
        """Add a message that runs a task with these arguments.

        A member of the flow may be among the arguments, also in lists and dicts. The message waits
        for that member, and its task takes the member's result, converted to the parameter's type.

        Args:
            task: a task of pgqueue's, or of `django.tasks`; or a call of a task, `task.call(…)`,
                whose arguments type checkers compare with the function.
            after: members to wait for without taking their results, and other stored flows. The
                message waits until all messages of the other flows have ended or are dead.
            on_failure: the reaction to a parent that is dead, cancelled, discarded or expired.
                "wait": wait until a dead parent is replayed and succeeds; be cancelled if the
                parent is gone for good. "cancel": be cancelled in both cases. "run": run, with a
                `ParentFailed` in place of each missing result.
            name: the name of the message in the flow: `flow["load"]`. None: it has no name.

        Returns:
            The message. It has an id when the flow is stored.

        Raises:
            InvalidFlow: the message would wait for a message of another flow, or for a flow that
                is not stored on this database. Also where an option is invalid, or another
                message of the flow has the name.
            InvalidArguments: the arguments do not fit the function.
        """
        if isinstance(task, TaskCall):
            if args or kwargs:
                raise InvalidFlow(f"{task.task.name}: its call has arguments already: pass none.")
            if on_failure == "wait":
                on_failure = task.failure_policy
            task, args, kwargs = task.task, tuple(task.args), dict(task.kwargs)
        return self.add(task, args, kwargs, after=after, on_failure=on_failure, name=name)

    def add(
        self,
        task: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        after: After = (),
        on_failure: str = "wait",
        name: str | None = None,
    ) -> Member[Any]:
        """Add a message as `enqueue` does; the task's own arguments may have any names."""
        self._check_open()
        own = own_task(task)
        self._check_task(own)
        if on_failure not in ON_FAILURE:
            raise InvalidFlow(
                f"on_failure={on_failure!r}: it must be one of {', '.join(ON_FAILURE)}."
            )
        waits = _each(own, after)
        flows = [each for each in waits if isinstance(each, Draft)]
        for each in flows:
            self._check_flow(own.name, each)
        waits = [each for each in waits if not isinstance(each, Draft)]
        for each in waits:
            self._check_member(own, each)
        own.codec.check_fit(args, kwargs)
        member: Member[Any] = Member(
            own,
            args,
            kwargs,
            after=waits,
            on_failure=on_failure,
            draft=self,
            number=len(self._members),
            savepoint=self._begin_savepoint(),
            other_flows=flows,
        )
        if name is not None:
            self._give_name(member, name)
        self._members.append(member)
        return member

    def _give_name(self, member: Member[Any], name: str) -> None:
        try:
            if not as_text(name, NAME_BYTES):
                raise ValueError("it must not be empty.")
        except (TypeError, ValueError) as error:
            raise InvalidFlow(f"name={name!r:.99} of {member.task.name}: {error}") from error
        if (other := self._names.get(name)) is not None and other.savepoint not in self._lost():
            raise name_is_taken(name, member, other.task.name)
        self._names[name] = member

    def __getitem__(self, name: str) -> Member[Any]:
        """Return the message of this name, whether it is new or stored already.

        New messages may wait for it.

        Raises:
            InvalidFlow: no message of the flow has the name, or its task is not known here.
        """
        if (own := self._names.get(name)) is not None:
            return own
        known = list(self._names)
        if self.id:
            with needing_tables(self.database):
                connection = connections[self.database]
                id, stored = engine.named(connection, int(self.id), name)
                found = None if id is None else lookup.find(connection, id)
            if found is not None:
                return self._stored_member(found)
            known += stored
        raise InvalidFlow(f"{self} has no message with the name {name!r:.99}. {hint(name, known)}")

    def _stored_member(self, found: Found) -> Member[Any]:
        for each in self._others:
            if each.message_id == found.id:
                return each
        task = registry.find(found.task)
        if task is None:
            raise InvalidFlow(f"Message {found.id} is of {found.task!r}, which is not known here.")
        number = -1 - len(self._others)
        member: Member[Any] = Member(
            task, (), {}, after=[], on_failure="wait", draft=self, number=number
        )
        member._call = None  # its arguments are decoded where they are used
        member.id = str(found.id)
        member._note(found)
        self._others.append(member)
        return member

    def _at(self, number: int) -> Member[Any]:
        """Return a new message by its number, or a stored one by its negative number."""
        return self._members[number] if number >= 0 else self._others[-1 - number]

    def enqueue_many(
        self,
        task: Any,
        calls: Iterable[Sequence[Any] | Mapping[str, Any]],
        *,
        after: After = (),
        on_failure: str = "wait",
    ) -> list[Member[Any]]:
        """Add a message for each of `calls`, a tuple or list of arguments or a dict of named ones.

        Raises:
            InvalidFlow, InvalidArguments: as `enqueue` does.
        """
        waits = after if isinstance(after, Member | Draft) else list(after)
        return [
            self.add(task, (), call, after=waits, on_failure=on_failure)
            if isinstance(call, Mapping)
            else self.add(task, call, {}, after=waits, on_failure=on_failure)
            for call in calls
        ]

    def _savepoints(self) -> frozenset[Any] | None:
        """Return the savepoints that are open; None: no transaction is open."""
        connection = connections[self.database]
        return frozenset(connection.savepoint_ids) if connection.in_atomic_block else None

    def _begin_savepoint(self) -> Savepoint | None:
        """Return the mark of the savepoint that is open now; None: the draft's own savepoint."""
        inside = self._savepoints()
        if inside is None or inside == self._outside:
            return None
        connection: Any = connections[self.database]
        last = self._savepoint
        if last is None or last.inside != inside or not last.is_kept(connection):
            self._savepoint = last = Savepoint(inside)
            # Done here, since `on_commit` refuses after Django has seen an error.
            connection.run_on_commit.append((set(inside), last, True))
        return last

    def _lost(self) -> set[Savepoint | None]:
        """Return the savepoints of messages that were rolled back."""
        connection = connections[self.database]
        given = {each.savepoint for each in self._members if each.savepoint is not None}
        return {each for each in given if not each.is_kept(connection)}

    def forget_rolled_back(self) -> None:
        """Remove the messages whose savepoint was rolled back."""
        gone = self._lost()
        if not gone:
            return
        self._names = {
            name: each for name, each in self._names.items() if each.savepoint not in gone
        }
        awaited = [self._members[number] for number in self._awaited]
        self._members = [each for each in self._members if each.savepoint not in gone]
        for number, member in enumerate(self._members):
            member.number = number
        self._awaited = {each.number for each in awaited if each.savepoint not in gone}
        self._gone |= gone

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidFlow(
                f"No message can be added to {self}: its block has ended. A task of the flow adds "
                "messages by `context.flow`."
            )

    def _check_task(self, task: Declaration[Any, Any]) -> None:
        if task.alias != self.database or task.connection is not None:
            raise InvalidFlow(f"{task.name} is not stored on {self.database!r}, as {self} is.")
        if task.enqueue_on_commit:
            raise InvalidFlow(
                f"{task.name} is stored on commit, and a flow is stored as a whole: add "
                "using(enqueue_on_commit=False), or open the flow in an on_commit hook."
            )

    def _check_member(self, task: Declaration[Any, Any], member: Any) -> None:
        if isinstance(member, Member) and member.draft is self and member.savepoint in self._gone:
            raise InvalidFlow(
                f"{task.name} can't wait for {member.task.name}, which was added in a savepoint "
                "that was rolled back: add both in one, or handle the error before it leaves the "
                "savepoint's block."
            )
        if not isinstance(member, Member) or member.draft is not self or not self._has(member):
            raise InvalidFlow(
                f"{task.name} can't wait for {member!r}: it is not a message of {self}."
            )

    def _check_flow(self, waiter: str, other: Draft) -> None:
        """Check that a message may wait for another flow.

        Raises:
            InvalidFlow: it is the message's own flow, is not stored, or is on another database.
        """
        if other.database != self.database:
            raise InvalidFlow(
                f"{waiter} can't wait for {other}, which is stored on {other.database!r}, and not "
                f"on {self.database!r}: use on_end of that flow to enqueue the next step."
            )
        if other is self or (other.id and other.id == self.id):
            raise InvalidFlow(
                f"{waiter} can't wait for {other}, which it is part of: it would wait for itself. "
                "Wait for messages of the flow, or use on_end."
            )
        if not other.id:
            raise InvalidFlow(
                f"{waiter} can't wait for {other}, which is not stored: its `with` block goes on, "
                "or nothing was added. Add the messages that wait for it after that block."
            )

    def _has(self, member: Member[Any]) -> bool:
        """Return whether a message is new in this draft, or was stored before."""
        number = member.number
        known = self._members if number >= 0 else self._others
        return (number if number >= 0 else -1 - number) < len(known) and self._at(number) is member

    def parents(self) -> tuple[list[str], list[list[int]]]:
        """Return the encoded arguments of all messages, and the numbers of their parents.

        Raises:
            InvalidArguments: arguments are not storable, or a result does not fit its parameter.
            InvalidFlow: a message waits for itself, or for a later message.
        """
        payloads, parents = [], []
        for member in self._members:
            with noticing_members() as taken:
                payloads.append(member.task.codec.encode(member.args, member.kwargs))
            found = {self._latches[each.id].number for each in member.other_flows}
            # The latches come first.
            if member.number >= len(self._latches) and not (member.after or taken):
                found.update(self._latches[each.id].number for each in self._after)
            for each in (*member.after, *taken):
                self._check_member(member.task, each)
                if each.number >= member.number:
                    raise InvalidFlow(
                        f"{member.task.name} waits for itself, or for a message that was added "
                        f"after it, {each.task.name}: that would be a cycle."
                    )
                found.add(each.number)
            if found and member.task.hold_for is not None:
                raise InvalidFlow(
                    f"{member.task.name} is held until it is committed, and waits for others: "
                    "it can't do both."
                )
            parents.append(sorted(found))
        return payloads, parents


def _each(task: Declaration[Any, Any], after: Any) -> list[Any]:
    if isinstance(after, Member | Draft):
        return [after]
    if not isinstance(after, Iterable):
        raise InvalidFlow(
            f"after={after!r:.99} of {task.name}: it must be a message of the flow, another flow, "
            "or a list of these."
        )
    return list(after)
