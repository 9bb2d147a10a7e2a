"""Random histories of producers, workers, operators and duties, each step held against a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from psycopg.errors import LockNotAvailable

from pgqueue.engine import cancel, dead, expire, held, lease, promote, route, settle
from pgqueue.engine.enqueue import Enqueued
from pgqueue.engine.values import Claim
from pgqueue.exceptions import ChannelFull
from tests.engine.conftest import TABLES
from tests.factories import Connection, done, failure, store
from tests.model.model import LIVE, MAX_ATTEMPTS, MAX_LOST, Given, Policy, Starts, World
from tests.model.worker import Worker

HOUR = timedelta(hours=1)
CLIENTS = 2
WORKERS = 2

Change = Callable[[World], None]


class Step(NamedTuple):
    """What a transaction did, for others to see once it commits; and what it has locked."""

    locks: Collection[Hashable]
    change: Change


class Clock:
    """What a worker takes for the time: it stands still, so that each history repeats."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


clients = st.integers(0, CLIENTS - 1)
workers = st.integers(0, WORKERS - 1)
channels = st.sampled_from("aab")
keys = st.sampled_from(["", "k", "k", "l"])
scopes = st.sampled_from(["channel", "each", "key"])
dedupe_keys = st.sampled_from([None, "x", "y", "z"])
# Which of those there are, counted from the youngest; several at once.
which = st.lists(st.integers(0, 9), min_size=1, max_size=3)
some = st.one_of(st.none(), st.integers(1, 3))
hows = st.sampled_from(
    ["complete", "complete", "complete", "retry", "retry-later", "bury"]
    + ["finish", "release", "defer-later"]
)
given = st.builds(
    Given,
    channel=channels,
    lots=st.one_of(
        st.lists(st.tuples(keys, st.none()), min_size=1, max_size=5),
        st.lists(st.tuples(keys, dedupe_keys), min_size=1, max_size=3),
    ),
    ordered=st.booleans(),
    held=st.sampled_from([False, False, False, True]),
    delayed=st.sampled_from([False, False, False, True]),
    conflict=st.sampled_from(["existing", "replaced", "remembered"]),
    weight=st.sampled_from([1, 1, 2, 3, 9]),
)
policies = st.one_of(
    st.none(),
    st.builds(Policy, max_running=st.integers(1, 3)),
    st.builds(Policy, max_running=st.integers(1, 2), max_size=st.integers(2, 9)),
    # By the hour: how fast a history goes on is no matter, `pass_hours` is.
    st.builds(Policy, max_running=some, rate=st.integers(1, 5), per=st.just(HOUR), burst=some),
    st.builds(Policy, max_running=some, weight=st.integers(1, 3)),
)


class Operation(NamedTuple):
    """What an operator may do: to messages in some states, and what becomes of them."""

    verb: Callable[[Connection, Collection[int]], set[int]]
    states: tuple[str, ...]
    change: Callable[..., None]
    locks: tuple[str, ...] = ()
    """States of further messages, which the verb locks and leaves as they are."""


OPERATIONS = {
    "cancel": Operation(
        lambda connection, ids: set.union(*cancel.cancel(connection, ids)),
        LIVE,
        World.cancel,
        locks=("dead",),
    ),
    "commit": Operation(held.commit, ("held",), World.let_go),
    "abandon": Operation(held.abandon, ("held",), World.cancel),
    "replay": Operation(dead.replay, ("dead",), World.replay),
    "discard": Operation(dead.discard, ("dead",), World.discard),
    "run_now": Operation(promote.run_now, ("scheduled",), World.run_now),
    "release": Operation(lease.release, ("running",), World.release),
}


def there_is(*states: str, **facts: bool) -> Callable[[Any], Any]:
    """Apply a rule only where there is something for it to do."""
    return precondition(lambda self: any(self.world.those(*(states or LIVE), **facts)))


class Machine(RuleBasedStateMachine):
    """Clients have transactions that they open and end; workers and duties are in autocommit."""

    def __init__(self, connections: list[Connection], clock: Clock) -> None:
        super().__init__()
        self.world = World()
        self.starts = Starts()
        self.clients = connections[:CLIENTS]
        self.connections = connections[CLIENTS:]
        self.workers = [Worker(each) for each in self.connections]
        self.open: dict[int, list[Step]] = {}
        self.savepoints: dict[int, int] = {}
        self.claims: list[Claim] = []
        self.newest: dict[tuple[str, str], int] = {}
        self.clock = clock

    @initialize(rules=st.lists(st.tuples(channels, scopes, policies), max_size=3))
    def begin(self, rules: list[tuple[str, str, Policy | None]]) -> None:
        for each in rules:
            self.set_policy(0, *each)

    # Producers

    @rule(client=clients, channel=channels, keys=st.lists(keys, min_size=1), ordered=st.booleans())
    def enqueue_simply(self, client: int, channel: str, keys: list[str], ordered: bool) -> None:
        self.enqueue(client, Given(channel, [(key, None) for key in keys[:5]], ordered))

    @rule(client=clients, given=given)
    def enqueue(self, client: int, given: Given) -> None:
        expected = self.seen_by(client).store(given)
        needed = expected.locks | expected.waits_for
        is_blocked = bool(needed & self.locked_by_others(client))
        connection = self.clients[client]
        try:
            with connection.transaction():
                stored = store(connection, **options(given))
        except LockNotAvailable:
            assert is_blocked, f"it waited, though no other session has {needed}"
            return
        except ChannelFull:
            assert expected.came_of is None, "there was room"
            return
        assert expected.came_of is not None, "there was no room"
        assert not is_blocked, f"others have {needed}"
        assert [of for of, _ in expected.came_of] == list(stored.came_of)
        ids = {old: new for (_, old), new in zip(expected.came_of, stored.ids, strict=True)}
        assert all(old == new for old, new in ids.items() if old > 0)
        if given.ordered:
            self.check_order(given, stored)
        messages = [
            replace(each, id=ids.get(each.id, each.id)) for each in expected.messages.values()
        ]
        remembered = {key: ids.get(id, id) for key, id in expected.remembered.items()}

        def appear(world: World) -> None:
            world.messages |= {each.id: each for each in messages}
            world.remembered |= remembered

        self.do(client, {*expected.locks, *(each.id for each in messages)}, appear)

    def check_order(self, given: Given, stored: Enqueued) -> None:
        """Ordered messages have higher ids than any before in their lane."""
        for (key, _), came_of, id in zip(given.lots, stored.came_of, stored.ids, strict=True):
            if came_of == "stored":
                assert id > self.newest.get((given.channel, key), 0)
                self.newest[given.channel, key] = id

    @rule(
        client=clients,
        end=st.sampled_from(["commit", "roll back", "savepoint", "savepoint", "nothing yet"]),
    )
    def transact(self, client: int, end: str) -> None:
        """Begin a transaction, or end one, or a savepoint of it."""
        if client not in self.open:
            self.clients[client].execute("BEGIN")
            self.open[client] = []
        elif end == "commit":
            self.clients[client].execute("COMMIT")
            self.savepoints.pop(client, None)
            for step in self.open.pop(client):
                self.happen(step)
        elif end == "roll back":
            self.clients[client].execute("ROLLBACK")
            self.savepoints.pop(client, None)
            del self.open[client]
        elif end == "savepoint" and client not in self.savepoints:
            self.clients[client].execute("SAVEPOINT here")
            self.savepoints[client] = len(self.open[client])
        elif end == "savepoint":
            self.clients[client].execute("ROLLBACK TO here; RELEASE here")
            del self.open[client][self.savepoints.pop(client) :]

    # Workers

    @there_is()
    @rule(
        worker=workers,
        limit=st.integers(1, 20),
        share=st.integers(1, 20),
        governed_first=st.booleans(),
        all_of_it=st.booleans(),
        passed=st.sampled_from([0.0, 0.0, 1.0]),
    )
    def claim(
        self,
        worker: int,
        limit: int,
        share: int,
        governed_first: bool,
        all_of_it: bool,
        passed: float,
    ) -> None:
        self.clock.now += passed
        while claims := self.workers[worker].claim(limit, share, governed_first=governed_first):
            assert len(claims) <= limit
            for claim in claims:
                self.check_start(claim)
            self.claims += claims
            if not all_of_it:
                return
        self.check_that_nothing_was_missed()

    def check_start(self, claim: Claim) -> None:
        message = self.world.messages.get(claim.id)
        assert message, f"{claim.id} ended, or was not committed"
        assert claim.id not in self.locked(), f"{claim.id} is locked"
        assert (obstacle := self.world.obstacle(message)) is None, f"{claim.id}: {obstacle}"
        assert (
            claim.channel,
            claim.key,
            claim.ordered,
            claim.attempt,
            claim.failures,
            claim.lost,
        ) == (
            *(message.channel, message.key, message.ordered),
            *(message.attempt + 1, message.failures, message.lost),
        )
        assert claim.failures < MAX_ATTEMPTS
        assert claim.lost < MAX_LOST
        for key in (None, claim.key):
            policy = self.world.policy_of(claim.channel, key)
            is_within = self.starts.is_within(
                policy, claim.channel, key, claim.claimed_at, message.weight
            )
            assert is_within, f"{claim.id}: {policy}"
        self.world.start(claim.id, claim.worker_id)

    def check_that_nothing_was_missed(self) -> None:
        """A worker that found nothing goes to wait: whatever it left then waits with it."""
        for message in self.world.messages.values():
            rates = [self.world.policy_of(message.channel, key).rate for key in (None, message.key)]
            is_free = rates == [None, None] and message.id not in self.locked()
            is_behind = is_free and self.world.is_behind_a_heavy_one(message)
            assert not is_free or is_behind or self.world.obstacle(message), f"{message} was missed"

    @precondition(lambda self: self.claims)
    @rule(client=st.one_of(st.none(), clients), which=which, how=hows)
    def settle(self, client: int | None, which: list[int], how: str) -> None:
        """End runs, some of which lost their lease; in a transaction, as an atomic task does."""
        if client is not None and client not in self.open:
            self.transact(client, "begin")
        self.end_runs(client, pick(self.claims, which), how)

    @there_is("running")
    @rule(
        client=clients,
        which=which,
        how=hows,
        scope=scopes,
        most=st.integers(1, 2),
        end=st.sampled_from(["commit", "roll back"]),
    )
    def settle_while_a_limit_is_saved(
        self, client: int, which: list[int], how: str, scope: str, most: int, end: str
    ) -> None:
        self.settle(client, which, how)
        self.set_policy(1 - client, self.claims[-1].channel, scope, Policy(max_running=most))
        self.claim_all()
        self.transact(client, end)
        self.claim_all()

    @there_is()
    @rule(worker=workers, hows=st.lists(hows, min_size=1, max_size=3))
    def work(self, worker: int, hows: list[str]) -> None:
        """Claim, and end all that this worker runs."""
        self.claim(worker, 20, 10, governed_first=False, all_of_it=True, passed=0.0)
        for n, how in enumerate(hows):
            claims = self.workers[worker].claims[n :: len(hows)]
            self.end_runs(None, claims, how)

    def end_runs(self, client: int | None, claims: list[Claim], how: str) -> None:
        world = self.seen_by(client)
        locked = self.locked_by_others(client)
        mine = {each.id for each in claims if world.holds(*each.lease) and each.id not in locked}
        if how.startswith("retry") and world.has_failed_enough(mine):
            how = "bury"
        connection = self.connections[0] if client is None else self.clients[client]

        assert VERBS[how](connection, claims) == mine

        for id in mine:
            self.do(client, [id], partial(World.settle, id=id, how=how))

    @there_is("running")
    @rule(worker=workers)
    def die(self, worker: int) -> None:
        """A worker's leases end, while its runs go on."""
        leases = [claim.lease for claim in self.workers[worker].claims]
        self.workers[worker] = Worker(self.connections[worker])
        ids = [
            each.id for each in leases if self.world.holds(*each) and each.id not in self.locked()
        ]
        self.connections[worker].execute(
            "UPDATE pgqueue_message SET lease_until = 'epoch' WHERE id = ANY (%s)", [ids]
        )
        for id in ids:
            self.world.change(id, is_over=True)

    @there_is("running")
    @rule(worker=workers)
    def die_time_and_again(self, worker: int) -> None:
        """Take all that loses its worker to the end of its losses, which chance seldom does."""
        for _ in range(MAX_LOST):
            self.begin_runs(self.workers[worker].claims)
            self.die(worker)
            self.rescue()
            self.pass_time(list(range(len(self.world.messages))), "due")
            self.promote()
            self.claim(worker, 20, 10, governed_first=False, all_of_it=True, passed=0.0)

    @there_is("running")
    @rule(which=which)
    def say_what_begins(self, which: list[int]) -> None:
        self.begin_runs(pick(self.claims, which))

    def begin_runs(self, claims: list[Claim]) -> None:
        """Say that runs begin: some of which were taken away meanwhile, or are being settled."""
        lease.begin(self.connections[0], claims)
        for claim in claims:
            if self.world.holds(*claim.lease) and claim.id not in self.locked():
                self.world.change(claim.id, has_begun=True)

    @there_is("running")
    @rule(which=which)
    def beat(self, which: list[int]) -> None:
        claims = pick(self.claims, which)
        mine = {claim.id for claim in claims if self.world.holds(*claim.lease)}

        renewed = lease.extend(self.connections[0], claims, lease=HOUR)

        assert set(renewed) == mine
        for id in mine - self.locked():
            self.world.change(id, is_over=False)

    # Operators

    @there_is(*LIVE, "dead")
    @rule(client=clients, which=which, verb=st.sampled_from(sorted(OPERATIONS)))
    def operate(self, client: int, which: list[int], verb: str) -> None:
        operation = OPERATIONS[verb]
        world, ids = self.mine(client, which, *operation.states)
        _, others = self.mine(client, which[:1], *LIVE, "dead")
        concerned = (ids | others) & set(world.those(*operation.states))
        if "held" in operation.states:
            # After their time only a cancellation takes them.
            concerned -= {*world.those("held", is_over=True)} if verb != "cancel" else set()

        assert operation.verb(self.clients[client], ids | others) == concerned

        for id in concerned:
            self.do(client, [id], partial(operation.change, id=id))
        self.do(client, (ids | others) & set(world.those(*operation.locks)), lambda _: None)

    @rule(
        client=clients,
        channel=channels,
        scope=scopes,
        policy=policies,
    )
    def set_policy(self, client: int, channel: str, scope: str, policy: Policy | None) -> None:
        if scope == "channel" and policy and policy.weight:
            policy = None
        lock, name = ("policies", channel), (channel, scope, "k" if scope == "key" else "")
        if lock in self.locked_by_others(client):
            return
        connection = self.clients[client]
        if policy and name in self.seen_by(client).policies:
            connection.execute(UPDATE_POLICY, {**vars(policy), **named(name)})
        elif policy:
            connection.execute(INSERT_POLICY, {**vars(policy), **named(name)})
        else:
            connection.execute(DELETE_POLICY, named(name))

        def rule(world: World) -> None:
            world.policies.pop(name, None)
            if policy:
                world.policies[name] = policy

        self.do(client, [lock], rule)

    @rule(
        client=clients,
        channel=channels,
        paused=st.sampled_from([False, False, False, True]),
        skipping=st.booleans(),
        # Each message is urgent then: the claim passes over turns.
        age_after=st.sampled_from([None, "1 microsecond"]),
    )
    def configure(
        self,
        client: int,
        channel: str,
        paused: bool,
        skipping: bool,
        age_after: str | None = None,
    ) -> None:
        lock = ("policies", channel)
        if lock in self.locked_by_others(client):
            return
        self.clients[client].execute(
            "INSERT INTO pgqueue_channel (name, paused, on_dead, age_after) "
            "VALUES (%(name)s, %(paused)s, %(on_dead)s, %(age_after)s) "
            "ON CONFLICT (name) DO UPDATE "
            "SET paused = %(paused)s, on_dead = %(on_dead)s, age_after = %(age_after)s",
            {
                "name": channel,
                "paused": paused,
                "on_dead": "skip" if skipping else "block",
                "age_after": age_after,
            },
        )

        def configure(world: World) -> None:
            world.paused[channel] = paused
            world.skipping[channel] = skipping

        self.do(client, [lock], configure)

    # Time, and the duties that go by it

    @there_is("held", "scheduled", "ready")
    @rule(which=which, what=st.sampled_from(["due", "expired", "over"]))
    def pass_time(self, which: list[int], what: str) -> None:
        states = {
            "due": ("scheduled", "held"),
            "expired": ("ready", "scheduled", "held"),
            "over": ("held",),
        }
        _, ids = self.mine(None, which, *states[what])
        column = {"due": "run_at", "expired": "expires_at", "over": "lease_until"}[what]
        self.connections[0].execute(
            f"UPDATE pgqueue_message SET {column} = 'epoch' WHERE id = ANY (%s)",  # noqa: S608
            [list(ids)],
        )
        for id in ids:
            self.world.change(id, **{f"is_{what}": True})

    @rule(hours=st.sampled_from([0.3, 1.1]))
    def pass_hours(self, hours: float) -> None:
        """Let every start have been earlier, as far as rates go."""
        passed = hours * HOUR
        self.starts.pass_time(passed)
        for table in ("lane", "gate"):
            self.connections[0].execute(
                f"UPDATE pgqueue_{table} SET tat = tat - %s, wake_at = wake_at - %s",  # noqa: S608
                [passed, passed],
            )

    @rule(duty=st.sampled_from(["promote", "rescue", "expire", "forget", "tidy", "tidy"]))
    def do_duty(self, duty: str) -> None:
        getattr(self, duty)()

    def promote(self) -> None:
        ids = set(self.world.those("scheduled", is_due=True)) - self.locked()

        assert promote.promote(self.connections[0]) == len(ids)

        for id in ids:
            self.world.let_go(id)

    def rescue(self) -> None:
        ids = set(self.world.those("running", is_over=True)) - self.locked()

        rescued = lease.rescue(self.connections[0], max_lost=MAX_LOST)

        assert {each.id: each.state for each in rescued} == {
            id: self.world.rescue(id) for id in ids
        }
        # Not so soon that a slow history finds them due.
        self.connections[0].execute(
            "UPDATE pgqueue_message SET run_at = run_at + interval '1 hour' "
            "WHERE id = ANY (%s) AND state = 'scheduled'",
            [list(ids)],
        )

    def expire(self) -> None:
        waiting = {*self.world.those("held", "scheduled", "ready", is_expired=True)}
        ids = (waiting | {*self.world.those("held", is_over=True)}) - self.locked()

        assert expire.expire(self.connections[0]) == len(ids)

        for id in ids:
            self.world.end(id, "expired")

    def forget(self) -> None:
        if any("memory" in lock for lock in self.locked() if isinstance(lock, tuple)):
            return
        self.connections[0].execute("UPDATE pgqueue_dedupe SET expires_at = 'epoch'")

        assert expire.forget(self.connections[0]) == len(self.world.remembered)

        self.world.remembered.clear()

    def tidy(self) -> None:
        """No lane contradicts the tables, at any time, however long ago it was looked at."""
        self.connections[0].execute(
            "UPDATE pgqueue_lane SET turn_at = turn_at - interval '1 minute'"
        )

        assert route.tidy(self.connections[0]) == 0

    # What they stand on

    def seen_by(self, client: int | None) -> World:
        """Return the world as a client's transaction sees it."""
        world = self.world.copy()
        for step in self.open.get(client, []) if client is not None else []:
            step.change(world)
        return world

    def do(self, client: int | None, locks: Iterable[Hashable], change: Change) -> None:
        """Let a change happen, at once or when its transaction commits."""
        step = Step(set(locks), change)
        if client is not None and client in self.open:
            self.open[client].append(step)
        else:
            self.happen(step)

    def happen(self, step: Step) -> None:
        step.change(self.world)
        for lock in step.locks:
            if isinstance(lock, tuple) and lock[0] == "policies":
                self.starts.begin_again(lock[1])

    def locked(self) -> set[Hashable]:
        """Return what open transactions have locked."""
        return self.locked_by_others(None)

    def locked_by_others(self, client: int | None) -> set[Hashable]:
        others = (steps for other, steps in self.open.items() if other != client)
        return {lock for steps in others for step in steps for lock in step.locks}

    def mine(self, client: int | None, which: list[int], *states: str) -> tuple[World, set[int]]:
        """Return what a client sees, and some messages for which it need not wait."""
        world = self.seen_by(client)
        free = [id for id in world.those(*states) if id not in self.locked_by_others(client)]
        return world, set(pick(free, which))

    # The end

    def teardown(self) -> None:
        """Let everything go on, and see it all end."""
        try:
            if sys.exception() is None:
                self.end_transactions()
                self.drain()
                self.check_the_end()
        finally:
            for each in (*self.clients, *self.connections):
                each.rollback()
            self.connections[0].execute(
                "; ".join(f"DELETE FROM pgqueue_{table}" for table in TABLES)  # noqa: S608
            )

    def end_transactions(self) -> None:
        for client, end in zip(sorted(self.open), ("commit", "roll back"), strict=False):
            self.claim_all()
            self.transact(client, end)
        self.claim_all()

    def claim_all(self) -> None:
        for worker in range(WORKERS):
            self.claim(worker, 20, 10, governed_first=True, all_of_it=True, passed=0.0)

    def drain(self) -> None:
        self.tidy()
        for channel in "ab":
            self.configure(0, channel, paused=False, skipping=True)
        self.claim_all()
        everything = list(range(len(self.world.messages)))
        for _ in range(50 + 10 * len(everything)):
            if not self.world.messages:
                return
            self.pass_time(everything, "due")
            self.pass_hours(1.1)
            self.expire()
            self.operate(0, everything, "commit")
            self.expire()
            self.promote()
            self.operate(0, everything, "replay")
            self.work(0, ["complete"])
            self.end_runs(None, self.claims, "complete")
        raise AssertionError(f"stuck: {self.world.messages}")

    def check_the_end(self) -> None:
        connection = self.connections[0]
        assert connection.execute("SELECT id FROM pgqueue_message").fetchall() == []
        ended = connection.execute("SELECT id, outcome FROM pgqueue_history").fetchall()
        assert len(ended) == len(self.world.ended)
        assert dict(ended) == self.world.ended
        connection.execute("DELETE FROM pgqueue_policy")
        self.work(0, ["complete"])
        self.tidy()
        assert connection.execute("SELECT id FROM pgqueue_bell").fetchall() == []
        assert connection.execute("SELECT key, state FROM pgqueue_lane").fetchall() == []


def pick(things: Collection[Any], which: Iterable[int]) -> list[Any]:
    """Return some of `things`, counted from the last."""
    found = list(things)[::-1]
    return [found[n % len(found)] for n in which if found]


def named(name: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("channel", "scope", "key"), name, strict=True))


def options(given: Given) -> dict[str, Any]:
    """Return what factories.store takes."""
    dedupe_keys = [dedupe_key for _, dedupe_key in given.lots]
    return {
        "key": [key for key, _ in given.lots],
        "dedupe_keys": dedupe_keys if any(dedupe_keys) else None,
        "channel": given.channel,
        "ordered": given.ordered,
        "max_attempts": MAX_ATTEMPTS,
        "held_for": HOUR if given.held else None,
        "run_after": HOUR if given.delayed else None,
        "replaces": given.conflict == "replaced",
        "dedupe_for": HOUR if given.conflict == "remembered" else None,
        "options": None if given.weight == 1 else f'{{"weight": {given.weight}}}',
    }


VERBS: dict[str, Callable[[Connection, list[Claim]], set[int]]] = {
    "complete": lambda c, claims: settle.complete(c, [done(each) for each in claims]),
    "retry": lambda c, claims: settle.retry(c, [failure(each) for each in claims]),
    "retry-later": lambda c, claims: settle.retry(
        c, [failure(each, delay=HOUR) for each in claims]
    ),
    "bury": lambda c, claims: settle.bury(c, [failure(each) for each in claims]),
    "finish": lambda c, claims: settle.finish(
        c, [settle.Finish(each, "discarded", None, 0.0) for each in claims]
    ),
    "release": settle.release,
    "defer-later": lambda c, claims: settle.defer(
        c, [settle.Deferral(each, HOUR) for each in claims]
    ),
}
WHERE = "WHERE channel = %(channel)s AND scope = %(scope)s AND key = %(key)s"
UPDATE_POLICY = f"""
    UPDATE pgqueue_policy
    SET max_running = %(max_running)s, rate = %(rate)s, per = %(per)s, burst = %(burst)s,
        max_size = %(max_size)s, weight = %(weight)s
    {WHERE}"""  # noqa: S608
INSERT_POLICY = """
    INSERT INTO pgqueue_policy
        (channel, scope, key, max_running, rate, per, burst, max_size, weight)
    VALUES (%(channel)s, %(scope)s, %(key)s, %(max_running)s, %(rate)s, %(per)s, %(burst)s,
            %(max_size)s, %(weight)s)"""
DELETE_POLICY = f"DELETE FROM pgqueue_policy {WHERE}"  # noqa: S608
