"""Collect messages of which some wait for others, and store all of them or none.

A message may wait only for messages that were collected before it, so that there are no cycles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NoReturn, TypeVar, Union, cast

from django.db import connections

from pgqueue.codec.encoding import Hint, Reference, noticed
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine import flows as engine
from pgqueue.engine import lookup
from pgqueue.engine.flows import Waits
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Cursors
from pgqueue.exceptions import ChannelFull, DuplicateMessage, InvalidFlow
from pgqueue.tasks import flow_handlers, registry, storing
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.result import TaskResult
from pgqueue.values.error_words import hint
from pgqueue.values.names import as_text

T = TypeVar("T")
After = Union["Iterable[Member[Any] | Draft]", "Member[Any]", "Draft"]
"""Messages of a flow and other flows that a message waits for without taking their results."""

ON_FAILURE = ("wait", "cancel", "run")
ANYWHERE = frozenset({"any savepoint"})
"""A value that differs from each set of open savepoints."""
NAME_BYTES = 200
MEMBER = "<TaskResult "
"""The first characters of a member's text."""


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
        draft: Draft,
        number: int,
        savepoint: Savepoint | None = None,
        other_flows: Sequence[Draft] = (),
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
            task: a task of pgqueue's, or of `django.tasks`.
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
            raise _is_taken(name, member, other.task.name)
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
        args, kwargs = task.codec.decode(found.payload)
        number = -1 - len(self._others)
        member: Member[Any] = Member(
            task, args, kwargs, after=[], on_failure="wait", draft=self, number=number
        )
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
            with _noticing() as taken:
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

    def store(self, connection: Cursors, flow_id: int) -> None:
        """Store the messages as part of a flow, in the open transaction of `connection`.

        Raises:
            InvalidArguments, InvalidFlow, ChannelFull, DuplicateMessage: roll everything back.
        """
        members = self._members
        self._is_open = False
        for member in members:
            _check_keys(member)
        storing.lock(connection, members)
        self.reserve(connection)
        payloads, parents = self.parents()

        def waits_for_any(member: Member[Any]) -> bool:
            return bool(parents[member.number] or member.outside)

        for group in storing.together(members, apart=waits_for_any):
            storing.store(
                group,
                [each.message_id for each in group],
                payloads=[payloads[each.number] for each in group],
                flow_id=flow_id,
                waits=waits_for_any(group[0]),
            )
        if (handler := self._handler) is not None:
            waits = parents[handler.number]
            stored = [each for each in waits if self._at(each).came_of == "stored"]
            parents[handler.number] = stored or waits
        self._check_stored(parents)
        waiting = [
            Waits(
                member.message_id,
                sorted([*(self._at(each).message_id for each in waits), *member.outside]),
                member.on_failure,
            )
            for member, waits in zip(members, parents, strict=True)
            if waits_for_any(member) and member.came_of == "stored"
        ]
        if waiting:
            engine.block(connection, flow_id, waiting)
        before = {self._at(each).message_id for each in chain(*parents) if each < 0}
        if before := before.union(*(member.outside for member in members)):
            # These parents may have ended, or end now: have their children examined once more.
            engine.ring(connection, "", sorted(before))

    def place_latches(self) -> None:
        """Add a latch for each other flow that members wait for; they wait for the latch.

        Raises:
            InvalidFlow: the other flow waits for this one.
            FlowDoesNotExist: the other flow is no longer kept.
            ChannelFull: the channel of the other flow has no room for a handler.
        """
        flows: dict[int, Draft] = {}
        channels: dict[int, str] = {}
        for member in self._members:
            for each in (*self._after, *member.other_flows):
                flows[int(each.id)] = each
                channels.setdefault(int(each.id), member.task.queue_name)
        if not flows:
            return
        names = {id: str(each) for id, each in flows.items()}
        handlers = flow_handlers.handlers(self.database, names, waiter=int(self.id or 0))
        awaited = [self._members[number] for number in self._awaited]
        for id, each in sorted(flows.items()):
            task = registry.of_package(flow_handlers.WAIT_FOR_FLOW).using(
                channel=channels[id], database=self.database
            )
            latch: Member[Any] = Member(
                task, (id,), {}, after=(), on_failure="run", draft=self, number=0
            )
            latch.outside = [handler] if (handler := handlers[id]) else []
            self._latches[each.id] = latch
        self._members = [*self._latches.values(), *self._members]
        for number, member in enumerate(self._members):
            member.number = number
        self._awaited = {each.number for each in awaited}

    def reserve(self, connection: Cursors) -> None:
        """Reserve ids for the messages that have no id of their own."""
        new = [each for each in self._members if not each.id or each.came_of != "stored"]
        if not new:
            return
        for member, id in zip(new, enqueueing.reserve(connection, len(new)), strict=True):
            member.id = str(id)

    def tell_stored(self) -> None:
        """Call the receiver of `on_stored`: `pgqueue.testing` may run the messages."""
        storing.tell_stored(self._members)

    def _check_stored(self, parents: Sequence[Sequence[int]]) -> None:
        """Check that each parent and each named message is stored as a new message.

        A message that replaced an older one must not wait, either.

        Raises:
            DuplicateMessage: a message with its dedupe key exists already.
            ChannelFull: a full channel dropped the message.
        """
        for member, waits in zip(self._members, parents, strict=True):
            if waits and member.came_of == "replaced":
                raise DuplicateMessage(
                    f"Message {member.id} has the dedupe key of this {member.task.name} already, "
                    f"and does not wait for others of {self}: this one can't replace it."
                )
        named = {member.number for member in self._names.values()}
        for number in sorted(named.union(self._awaited, *parents)):
            member = self._at(number)
            if member.came_of in ("existing", "replaced"):
                raise DuplicateMessage(
                    f"Message {member.id} has the dedupe key of this {member.task.name} already: "
                    "no message of the flow can wait for it, and it can have no name in the flow."
                )
            if member.came_of == "dropped":
                raise ChannelFull(
                    f"The channel {member.task.queue_name!r} dropped {member.task.name}, which "
                    "others of the flow wait for."
                )

    def extend(self, connection: Cursors, flow_id: int, message_id: int) -> None:
        """Store the messages as part of a flow that is stored already.

        The flow's handler, if it has one, waits for them, too.

        Args:
            message_id: the running message. Its children wait for the awaited new messages, too;
                0: there is no running message.

        Raises:
            InvalidFlow: a name is taken, or a wait would never end.
            InvalidArguments, ChannelFull, DuplicateMessage: as `store` does.
        """
        self.place_latches()
        if self._others:
            # Without the lock, two transactions may each add one edge of a cycle unseen.
            engine.lock(connection, flow_id)
        self.store(connection, flow_id)
        if self._names and not engine.add_names(connection, flow_id, self.named_ids()):
            self._refuse_names(connection, flow_id)
        children, handlers = engine.children(connection, flow_id, message_id)
        self._check_cycles(connection, [*children, *handlers])
        if any(member.task.ordered for member in self._members):
            self._check_order(connection, self._needed(), children)
            self._check_order(connection, self._members, handlers)
        self._check_order_of_flows(connection, [*handlers, *(children if self._awaited else ())])
        pairs = [
            (child, member.message_id)
            for member in self._members
            if member.came_of == "stored"
            for child in {*handlers, *(children if member.number in self._awaited else ())}
        ]
        if pairs:
            engine.depend(connection, flow_id, pairs)

    def named_ids(self) -> dict[str, int]:
        """Return the ids of the messages that have a name."""
        return {name: member.message_id for name, member in self._names.items()}

    def _refuse_names(self, connection: Cursors, flow_id: int) -> NoReturn:
        for name, member in self._names.items():
            id, _ = engine.named(connection, flow_id, name)
            if id is not None:
                raise _is_taken(name, member, f"message {id}")
        raise InvalidFlow(f"The flow {flow_id} is not kept any more.")

    def _check_cycles(self, connection: Cursors, waiting: Collection[int]) -> None:
        """Check that no new message waits for a message that will wait for a new message.

        Raises:
            InvalidFlow: there is such a cycle.
        """
        if not (self._others and waiting):
            return
        found = engine.waiting(connection, waiting)
        for each in self._others:
            if each.message_id in found:
                raise InvalidFlow(
                    f"{each.task.name} #{each.id} waits for a message that is added here, directly "
                    "or indirectly: a new message that waits for it would never run."
                )

    def _needed(self) -> list[Member[Any]]:
        """Return the new messages that stored messages wait for, directly or indirectly.

        In an ordered lane, a message also waits for the messages before it.
        """
        needed = set(self._awaited)
        lanes: set[tuple[str, str]] = set()
        _, parents = self.parents()
        for member, waits in zip(reversed(self._members), reversed(parents), strict=True):
            lane = _lane(member)
            if member.number in needed or (member.task.ordered and lane in lanes):
                needed.update((member.number, *waits))
                if member.task.ordered:
                    lanes.add(lane)
        return [self._members[number] for number in sorted(needed) if number >= 0]

    def _check_order(
        self, connection: Cursors, new: Iterable[Member[Any]], waiting: Collection[int]
    ) -> None:
        """Check that no new message is in an ordered lane behind a message that waits for it.

        This is impossible in a flow that is stored at once. There a message waits for lower ids
        only: its parents, and the messages before it in its lane. Only growth makes a message
        wait for a higher id.

        Raises:
            InvalidFlow: a new message is behind a message that waits for it.
        """
        lanes = engine.in_order(connection, waiting) if waiting else {}
        for member in new:
            lane = _lane(member)
            if member.task.ordered and lane in lanes:
                raise InvalidFlow(
                    f"{member.task.name} would be behind message {lanes[lane]}, which waits for "
                    f"it, directly or indirectly, in the order of {lane[0]!r} and the key "
                    f"{lane[1]!r}: neither could ever run. Give it another key, or don't have it "
                    "awaited."
                )

    def _check_order_of_flows(self, connection: Cursors, waiting: Collection[int]) -> None:
        """Check that no message of an awaited flow is in a lane behind a message that waits for it.

        Raises:
            InvalidFlow: a message is behind a message that waits for its flow.
        """
        if not (self._latches and waiting):
            return
        others = engine.awaited(connection, list(map(int, self._latches)))
        if not (behind := engine.ordered_lanes(connection, others)):
            return
        lanes = engine.in_order(connection, waiting)
        for (channel, key), id in behind.items():
            if lanes.get((channel, key), id) < id:
                raise InvalidFlow(
                    f"Message {id} of a flow that {self} would wait for is behind message "
                    f"{lanes[channel, key]}, which would wait for that flow, in the order of "
                    f"{channel!r} and the key {key!r}: neither could ever run. Give one of them "
                    "another key."
                )


def _each(task: Declaration[Any, Any], after: Any) -> list[Any]:
    if isinstance(after, Member | Draft):
        return [after]
    if not isinstance(after, Iterable):
        raise InvalidFlow(
            f"after={after!r:.99} of {task.name}: it must be a message of the flow, another flow, "
            "or a list of these."
        )
    return list(after)


def _lane(member: Member[Any]) -> tuple[str, str]:
    return member.task.queue_name, member.task.key_of(member.args, member.kwargs)


def _check_keys(member: Member[Any]) -> None:
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
def _noticing() -> Iterator[list[Member[Any]]]:
    """Collect the members among the arguments that are encoded in the block."""
    found: list[Reference] = []
    token = noticed.set(found)
    try:
        yield cast("list[Member[Any]]", found)
    finally:
        noticed.reset(token)


def _is_taken(name: str, member: Member[Any], other: str) -> InvalidFlow:
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


class Growth(Draft):
    """The messages that a task adds to the flow of its own message: `context.flow`.

    They are stored together with the success of the run, or not at all.

    Args:
        flow_id: the id of the flow.
        message_id: the id of the message that runs.

    Attributes:
        id: the flow's id, as text.
    """

    def __init__(self, database: str, *, flow_id: int, message_id: int) -> None:
        super().__init__(database)
        # The run may have begun a savepoint before it uses its flow.
        self._outside = ANYWHERE
        self.id = str(flow_id)
        self._flow_id = flow_id
        self._message_id = message_id

    def __str__(self) -> str:
        return f"the part of the flow that message {self._message_id} adds"

    def enqueue(self, task: Any, *args: Any, awaited: bool = False, **kwargs: Any) -> Member[Any]:
        """Add a message to the flow, as `Draft.enqueue` does.

        Args:
            awaited: the children of this run's own message wait for the new one, too. So it must
                be stored: the run fails if it is a duplicate, or is dropped.
        """
        member = super().enqueue(task, *args, **kwargs)
        if awaited:
            self.have_awaited(member)
        return member

    def have_awaited(self, member: Member[Any]) -> None:
        """Have the children of this run's own message wait for this new message, too."""
        self._awaited.add(member.number)

    def enqueue_many(
        self,
        task: Any,
        calls: Iterable[Sequence[Any] | Mapping[str, Any]],
        *,
        awaited: bool = False,
        after: After = (),
        on_failure: str = "wait",
    ) -> list[Member[Any]]:
        """Add messages to the flow, as `Draft.enqueue_many` does."""
        members = super().enqueue_many(task, calls, after=after, on_failure=on_failure)
        if awaited:
            self._awaited.update(each.number for each in members)
        return members

    def wait(self, timeout: Any = None) -> NoReturn:
        """Refuse to wait: the flow goes on for as long as this run does.

        Raises:
            InvalidFlow: always.
        """
        raise waits_for_itself(self._message_id)

    def grow(self, connection: Cursors) -> None:
        """Store the new messages, in the transaction in which the run is settled.

        Raises:
            InvalidArguments, InvalidFlow, ChannelFull, DuplicateMessage: the run has failed.
        """
        self.forget_rolled_back()
        if self._members:
            with needing_tables(self.database):
                self.extend(connection, self._flow_id, self._message_id)
