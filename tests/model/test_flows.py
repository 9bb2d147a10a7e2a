"""Random flows, each of whose ends is held against a plain evaluation of the same graph.

Members end in any order, die, are discarded, add others, lose their workers or are locked by others
meanwhile; the router looks now and then, and is terminated in the middle of it. When all is quiet,
the dead ones are replayed, and it goes on; or all of a flow is cancelled in the middle of it.

`make model` goes on with others until its time is up; MODEL_SEED=… repeats one of its rounds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import psycopg
import pytest
from hypothesis import given, note, seed
from hypothesis import strategies as st

from pgqueue.engine import cancel, dead, flows, lease, route, settle
from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine.values import Claim
from pgqueue.models import Blocked, FailedMember, History, Message
from pgqueue.states import State
from tests.engine.flow_graphs import Graph
from tests.factories import OVER, Connection, claim, done, failure, store
from tests.model.test_model import MINUTES, SEED, every_time, in_a_round, once_more, seeds

WAIT, CANCEL, RUN = "wait", "cancel", "run"
SUCCEEDS, DIES, IS_DISCARDED = "succeeds", "dies", "is discarded"


class Member(NamedTuple):
    """What a member waits for, what a failure there means to it, and how its runs end.

    Attributes:
        adds: how the runs of those end that it adds to the flow when it succeeds; whatever waits
            for it waits for these, too.
    """

    parents: frozenset[int]
    on_failure: str
    fate: str
    adds: tuple[str, ...] = ()

    def succeeding(self) -> Member:
        """Return it as it is when what would die succeeds."""
        fate, *adds = (SUCCEEDS if each == DIES else each for each in (self.fate, *self.adds))
        return self._replace(fate=fate, adds=tuple(adds))


class Play(NamedTuple):
    """A graph, and what chance does to it."""

    members: list[Member]
    seed: int
    is_cancelled: bool


@st.composite
def plays(draw: st.DrawFn) -> Play:
    fates = st.sampled_from([SUCCEEDS, SUCCEEDS, SUCCEEDS, DIES, IS_DISCARDED])
    count = draw(st.integers(2, 9))
    members = []
    for number in range(count):
        parents = draw(st.frozensets(st.integers(0, number - 1), max_size=4)) if number else ()
        members.append(
            Member(
                frozenset(parents),
                draw(st.sampled_from([WAIT, CANCEL, RUN])),
                draw(fates),
                tuple(draw(st.lists(fates, max_size=2))),
            )
        )
    return Play(members, draw(st.integers(0, 2**32)), draw(st.integers(0, 3)) == 0)


def expected(members: list[Member], before: Sequence[str] = ()) -> list[str]:
    """Return what becomes of each member, by looking at its parents alone.

    Args:
        before: what had become of each when the dead ones were replayed: what has ended, stays so.
    """
    ends: list[str] = []
    for number, member in enumerate(members):
        of_parents = {ends[each] for each in member.parents} | {
            _of(fate)
            for each in member.parents
            if ends[each] == "succeeded"
            for fate in members[each].adds
        }
        if before and before[number] not in ("dead", "held"):
            word = before[number]
        elif member.on_failure == RUN:
            # It runs unless a parent never ends.
            word = "held" if "held" in of_parents else _of(member.fate)
        elif of_parents & {"cancelled", "discarded"} or (
            "dead" in of_parents and member.on_failure == CANCEL
        ):
            word = "cancelled"
        elif of_parents & {"dead", "held"}:
            word = "held"
        else:
            word = _of(member.fate)
        ends.append(word)
    return ends


def _of(fate: str) -> str:
    return {SUCCEEDS: "succeeded", DIES: "dead", IS_DISCARDED: "discarded"}[fate]


class World:
    """A stored graph, and everything that happens to it."""

    def __init__(
        self, connect: Callable[[], Connection], connections: list[Connection], play: Play
    ) -> None:
        self.connect = connect
        self.connection, self.other = connections
        self.members = members = play.members
        self.chance = random.Random(play.seed)
        names = [chr(ord("a") + number) for number in range(len(members))]
        self.graph = Graph(
            self.connection,
            {
                name: "".join(names[each] for each in sorted(member.parents))
                + f" {member.on_failure}" * bool(member.parents)
                for name, member in zip(names, members, strict=True)
            },
        )
        self.number = {self.graph.ids[name]: number for number, name in enumerate(names)}
        self.added: dict[int, tuple[int, int]] = {}
        """By id: the number of the member that has added it, and its place among these."""
        self.is_replayed = False

    def ends(self) -> list[str]:
        """Return the state or outcome of each member."""
        return list(self.graph.states().values())

    def words(self) -> dict[int, str]:
        """Return the state or outcome of each message, also of those that were added, by id."""
        words = dict(Message.objects.values_list("id", "state"))
        return words | dict(History.objects.values_list("id", "outcome"))

    def fate(self, id: int) -> str:
        """Return how a run of a message ends."""
        if id in self.number:
            return self.members[self.number[id]].fate
        number, place = self.added[id]
        return self.members[number].adds[place]

    def play(self) -> None:
        """Let things happen until nothing does, with a router that looks now and then."""
        idle = 0
        while idle < 3:
            moved = self.step()
            self.look_now_and_then()
            idle = 0 if moved else idle + 1
            if not moved:
                flows.ring_stale(self.connection)
                self.graph.route()

    def step(self) -> bool:
        """Claim some of what is ready, and end each in its way."""
        claims = claim(self.connection, limit=self.chance.randint(1, 3))
        for each in self.chance.sample(claims, len(claims)):
            self.check_parents(each.id)
            if self.chance.random() < 0.15:
                self.lose(each.id)
                continue
            fate = self.fate(each.id)
            if fate == SUCCEEDS:
                self.succeed(each)
            elif fate == DIES:
                settle.bury(self.connection, [failure(each)])
            else:
                settle.finish(self.connection, [settle.Finish(each, "discarded", None, 0.0)])
        return bool(claims)

    def succeed(self, ended: Claim) -> None:
        """End a run, and store what it adds to the flow, at once."""
        with self.connection.transaction():
            if ended.id in self.number and self.members[self.number[ended.id]].adds:
                self.grow(self.number[ended.id], ended.id)
            settle.complete(self.connection, [done(ended)])

    def grow(self, number: int, id: int) -> None:
        """Add what a member adds, and have whatever waits for the member wait for it."""
        new = enqueueing.reserve(self.connection, len(self.members[number].adds))
        for place, each in enumerate(new):
            store(self.connection, ids=[each], flow_id=self.graph.flow_id)
            self.added[each] = (number, place)
        children, _ = flows.children(self.connection, self.graph.flow_id, id)
        pairs = [(child, each) for child in children for each in new]
        flows.depend(self.connection, self.graph.flow_id, pairs)

    def lose(self, id: int) -> None:
        """Have the worker die; the message is ready again, and nothing is charged."""
        self.connection.execute(
            "UPDATE pgqueue_message SET lease_until = statement_timestamp() + %s WHERE id = %s",
            [OVER, id],
        )
        lease.rescue(self.connection, max_lost=1000)
        self.connection.execute(
            "UPDATE pgqueue_message SET state = 'ready', lost = 0 WHERE id = %s", [id]
        )

    def look_now_and_then(self) -> None:
        way = self.chance.random()
        if way < 0.4:
            return
        if way < 0.6:
            with self.other.transaction():
                # A child is locked while the router looks.
                self.other.execute(
                    "SELECT FROM pgqueue_message WHERE state = 'held' "
                    "ORDER BY random() LIMIT 1 FOR UPDATE"
                )
                self.graph.route()
        elif way < 0.7:
            self.kill_the_router()
        else:
            self.graph.route()

    def kill_the_router(self) -> None:
        router = self.connect()
        with pytest.raises(psycopg.Error), router.transaction():
            route.route(router, after=0)
            self.connection.execute("SELECT pg_terminate_backend(%s)", [router.info.backend_pid])
            router.execute("SELECT 1")
        router.close()

    def check_parents(self, id: int) -> None:
        """Check that what runs waited for all that it had to wait for."""
        if id in self.added:
            return
        member = self.members[self.number[id]]
        words, ids = self.words(), [*self.graph.ids.values()]
        added = [each for each, (number, _) in self.added.items() if number in member.parents]
        for parent in (*(ids[number] for number in member.parents), *added):
            allowed = {"succeeded"}
            if member.on_failure == RUN:
                allowed |= {"dead", "cancelled", "discarded"}
                if self.is_replayed:  # it has waited before: it does not wait again
                    allowed |= {"ready", "running"}
            assert words[parent] in allowed, (
                f"{member} runs beside a parent that is {words[parent]}"
            )


@pytest.mark.slow
def test_every_flow_ends_as_a_plain_evaluation_of_it(connect: Callable[[], Connection]) -> None:
    connections = [connect(), connect()]

    def check(play: Play) -> None:
        note(str(play))
        for model in (Message, History, Blocked, FailedMember):
            model.objects.all().delete()
        world = World(connect, connections, play)
        if play.is_cancelled:
            check_that_nothing_is_left(world)
        else:
            check_ends(world)

    if SEED:
        seed(SEED)(once_more(given(plays())(check)))()
    elif MINUTES:
        for number in seeds():
            seed(number)(in_a_round(given(plays())(check)))()
    else:
        every_time(given(plays())(check))()


def check_ends(world: World) -> None:
    members = world.members

    world.play()

    found = world.ends()
    assert found == expected(members)
    assert Blocked.objects.count() == found.count("held")

    # Then each dead one is replayed, and succeeds.
    world.members = [each.succeeding() for each in members]
    of_dead = list(Message.objects.filter(state=State.DEAD).values_list("pk", flat=True))
    dead.replay(world.connection, of_dead)
    world.is_replayed = True
    world.play()

    assert world.ends() == expected(world.members, before=found)
    words = world.words()
    assert {id: words[id] for id in world.added} == {id: _of(world.fate(id)) for id in world.added}
    assert not Message.objects.exists()
    assert not Blocked.objects.exists()


def check_that_nothing_is_left(world: World) -> None:
    for _ in range(world.chance.randint(0, 3)):
        world.step()
        world.look_now_and_then()

    cancel.cancel(world.connection, list(Message.objects.values_list("pk", flat=True)))
    world.graph.route()

    assert not Message.objects.filter(state__in=[State.HELD, State.READY]).exists()
    assert not Blocked.objects.exists()
