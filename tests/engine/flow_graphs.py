"""Flows whose members are named by letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine import flows, route, settle
from pgqueue.engine.flows import Waits
from pgqueue.models import History, Message
from pgqueue.states import State
from tests.factories import Connection, claim, done, store


class Graph:
    """A flow whose members are named by letters."""

    def __init__(
        self,
        connection: Connection,
        waits: dict[str, str],
        *,
        each: Mapping[str, Mapping[str, Any]] | None = None,
        **changed: Any,
    ) -> None:
        """Store it. A member is stored after its parents.

        Args:
            waits: the parents of each member, as a string of letters; after a space, what it does
                if one fails.
            each: the options of single members.
        """
        self.connection = connection
        names = list(waits)
        with connection.transaction():
            self.flow_id = flows.reserve(connection)
            flows.begin(connection, self.flow_id, "test")
            ids = enqueueing.reserve(connection, len(names))
            self.ids = dict(zip(names, ids, strict=True))
            blocked = []
            for name, wait in waits.items():
                parents, _, on_failure = wait.partition(" ")
                if parents:
                    ids = sorted(self.ids[each] for each in parents)
                    blocked.append(Waits(self.ids[name], ids, on_failure or "wait"))
                own = {"flow_id": self.flow_id, "waits": bool(parents), **changed}
                own |= (each or {}).get(name, {})
                store(connection, ids=[self.ids[name]], **own)
            flows.block(connection, self.flow_id, blocked)

    def states(self) -> dict[str, str]:
        """Return each member's state or outcome."""
        rows = dict(Message.objects.values_list("id", "state"))
        rows |= dict(History.objects.values_list("id", "outcome"))
        return {name: rows[id] for name, id in self.ids.items()}

    def ready(self) -> str:
        """Return the letters of those that may be claimed."""
        return "".join(name for name, state in self.states().items() if state == State.READY)

    def run(self, names: str, *, settled: Callable[..., Any] | None = None) -> None:
        """Claim all that is ready, and end these; the others are handed back."""
        meant = {self.ids[name] for name in names}
        claims = claim(self.connection, limit=1000)
        settle.release(self.connection, [each for each in claims if each.id not in meant])
        mine = [each for each in claims if each.id in meant]
        assert {each.id for each in mine} == meant, "not all of them were ready"
        (settled or succeed)(self.connection, mine)

    def route(self) -> None:
        """Do what a worker does before it claims, until nothing rings any more."""
        after = 0
        while route.look(self.connection, after=after).has_rung:
            routed = route.route(self.connection, after=after)
            after = routed.after if routed else after


def succeed(connection: Connection, claims: Any) -> None:
    """End runs successfully."""
    settle.complete(connection, [done(each) for each in claims])
