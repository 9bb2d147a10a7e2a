"""Store the messages of a flow, all or none, and check that none of them waits for ever."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, NoReturn

from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine import flows as engine
from pgqueue.engine.flows import Waits
from pgqueue.engine.values import Cursors
from pgqueue.exceptions import ChannelFull, DuplicateMessage, InvalidFlow
from pgqueue.tasks import flow_handlers, registry, storing
from pgqueue.tasks.flow_building import Draft
from pgqueue.tasks.flow_members import (
    Member,
    check_keys,
    lane_of,
    name_is_taken,
)


class StoredDraft(Draft):
    """A draft that is stored as a flow, or as a part of one that is stored already."""

    def store(self, connection: Cursors, flow_id: int) -> None:
        """Store the messages as part of a flow, in the open transaction of `connection`.

        Raises:
            InvalidArguments, InvalidFlow, ChannelFull, DuplicateMessage: roll everything back.
        """
        members = self._members
        self._is_open = False
        for member in members:
            check_keys(member)
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
        self._block(connection, flow_id, parents)
        self._ring(connection, parents)

    def _block(self, connection: Cursors, flow_id: int, parents: Sequence[Sequence[int]]) -> None:
        """Have the stored messages wait for their parents."""
        waiting = [
            Waits(
                member.message_id,
                sorted([*(self._at(each).message_id for each in waits), *member.outside]),
                member.on_failure,
            )
            for member, waits in zip(self._members, parents, strict=True)
            if (waits or member.outside) and member.came_of == "stored"
        ]
        if waiting:
            engine.block(connection, flow_id, waiting)

    def _ring(self, connection: Cursors, parents: Sequence[Sequence[int]]) -> None:
        """Have the children of parents that were stored before examined once more.

        These parents may have ended, or end now.
        """
        before = {self._at(each).message_id for each in chain(*parents) if each < 0}
        if before := before.union(*(member.outside for member in self._members)):
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
        """Check that each parent, each named message and `on_end` is stored as a new message.

        A message that replaced an older one must not wait, either.

        Raises:
            DuplicateMessage: a message with its dedupe key exists already.
            ChannelFull: a full channel dropped the message.
        """
        for member, waits in zip(self._members, parents, strict=True):
            if waits and member.came_of in enqueueing.REPLACED:
                raise DuplicateMessage(
                    f"Message {member.id} has the dedupe key of this {member.task.name} already, "
                    f"and does not wait for others of {self}: this one can't replace it."
                )
        named = {member.number for member in self._names.values()}
        for number in sorted(named.union(self._awaited, *parents)):
            member = self._at(number)
            _check_is_new(
                member,
                "no message of the flow can wait for it, and it can have no name in the flow",
                "which others of the flow wait for",
            )
        if self._handler is not None:
            why = f"it does not wait for {self}, so it can't be its on_end"
            _check_is_new(self._handler, why, f"the on_end of {self}")

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
                raise name_is_taken(name, member, f"message {id}")
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
            lane = lane_of(member)
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
            lane = lane_of(member)
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


def _check_is_new(member: Member[Any], why: str, role: str) -> None:
    """Check that a member is stored as a new message.

    Args:
        why: why another message can't take its place, for the error.
        role: what the member is, for the error.
    """
    if member.came_of in ("existing", *enqueueing.REPLACED):
        raise DuplicateMessage(
            f"Message {member.id} has the dedupe key of this {member.task.name} already: {why}."
        )
    if member.came_of == "dropped":
        raise ChannelFull(
            f"The channel {member.task.queue_name!r} dropped {member.task.name}, {role}."
        )
