"""Random histories of the event log, each step held against plain Python lists.

Writers have transactions that they open and end, sequencers take the lock in one step, move in the
next and commit in a third, readers of a group commit after they have handled. Between any two of
these, a session may be terminated, a lease run out, or the group be reset or deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil, floor
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from psycopg.errors import LockNotAvailable

from pgqueue.engine import groups, log, publish, readers, sequence
from pgqueue.engine.culprits import WHOLE
from pgqueue.engine.publish import NewEvent
from tests.eventually import eventually
from tests.factories import Connection

WRITERS = 3
SEQUENCERS = 2
READERS = 3
GROUP = "g"
LEASE = timedelta(hours=1)
ERROR = {"failures": 1, "error": "ValueError"}
OF_PARTITION = "pgqueue_partition_v1(e.key, %(partitions)s) = %(partition)s"


@dataclass(frozen=True)
class Fact:
    """An event, as it was published: `number` counts them, `transaction` their transactions."""

    number: int
    transaction: int
    topic: str
    key: str


@dataclass
class Place:
    """A partition's cursor.

    Attributes:
        base: where the group was made, or reset to.
        is_waiting: what is next has failed, and is to be tried again.
        acknowledged: the positions that were handled since, in the order in which that was stored.
    """

    position: int
    base: int
    owner: UUID | None = None
    is_over: bool = False
    is_stopped: bool = False
    is_waiting: bool = False
    acknowledged: list[int] = field(default_factory=list)

    def belongs_to(self, reader: UUID, at_most: int) -> bool:
        """Whether this reader may move it, which takes it to be no further than that."""
        return self.owner == reader and self.position <= at_most

    def move(self, positions: list[int], upto: int) -> None:
        assert upto >= self.position, "it moved back"
        self.acknowledged += [each for each in positions if each > self.position]
        self.position, self.is_waiting = upto, False

    def leave(self) -> None:
        self.owner, self.is_over = None, False


@dataclass
class Writer:
    """A session that publishes; `open`: what it published in its transaction."""

    connection: Connection
    open: list[Fact] | None = None
    transaction: int = 0
    savepoint: int | None = None


@dataclass
class Sequencer:
    """A session that sequences; `moved`: what it has moved, and not committed."""

    connection: Connection
    leads: bool = False
    moved: list[Fact] | None = None


@dataclass
class Reader:
    """A process that reads for the group.

    Attributes:
        held: how far it is with each partition that it thinks is its own.
        handled: what it handled of it since, and did not commit.
        amid: the partition that its open transaction has moved, and how far.
    """

    connection: Connection
    id: UUID = field(default_factory=uuid4)
    held: dict[int, int] = field(default_factory=dict)
    handled: dict[int, list[int]] = field(default_factory=dict)
    amid: tuple[int, list[int], int] | None = None

    def drop(self, partition: int) -> None:
        self.held.pop(partition, None)
        self.handled.pop(partition, None)


numbers = st.integers(0, 9)
positions = st.integers(0, 30)
topics = st.sampled_from("ab")
keys = st.sampled_from(["", "k", "l", "m"])
limits = st.integers(1, 6)


class Machine(RuleBasedStateMachine):
    """Sessions of writers, sequencers and readers, and an observer who is in no transaction.

    Args:
        spare: connections that others have left.
    """

    def __init__(self, connect: Callable[[], Connection], spare: list[Connection]) -> None:
        super().__init__()
        self.connect, self.spare = connect, spare

        def open_one() -> Connection:
            return spare.pop() if spare else connect()

        self.observer = open_one()
        self.sweep()
        self.writers = [Writer(open_one()) for _ in range(WRITERS)]
        self.sequencers = [Sequencer(open_one()) for _ in range(SEQUENCERS)]
        self.readers = [Reader(open_one()) for _ in range(READERS)]
        self.inbox: list[Fact] = []
        self.log: list[Fact] = []
        self.floor = 0
        self.seen: list[Fact] = []
        self.place: dict[int, Place] = {}
        self.seen_lately: set[UUID] = set()
        self.count = self.transactions = 0

    @initialize(partitions=st.integers(1, 3), keys=st.lists(keys, min_size=4, max_size=12))
    def begin(self, partitions: int, keys: list[str]) -> None:
        self.make(partitions, 0)
        self.publish_many(0, "a", keys)
        self.sequence(0, len(keys))
        self.take(0, beats=True)

    # Writers

    @rule(writer=st.integers(0, WRITERS - 1), topic=topics, key=keys)
    def publish(self, writer: int, topic: str, key: str) -> None:
        who = self.writers[writer]
        [fact] = self.facts(who, topic, [key])
        publish.publish(who.connection, new(fact))
        self.note(who, [fact])

    @rule(writer=st.integers(0, WRITERS - 1), topic=topics, keys=st.lists(keys, max_size=6))
    def publish_many(self, writer: int, topic: str, keys: list[str]) -> None:
        who = self.writers[writer]
        facts = self.facts(who, topic, keys)
        with who.connection.transaction():
            publish.publish_many(who.connection, map(new, facts))
        self.note(who, facts)

    def facts(self, who: Writer, topic: str, keys: list[str]) -> list[Fact]:
        if who.open is None:
            self.transactions += 1
            who.transaction = self.transactions
        first, self.count = self.count + 1, self.count + len(keys)
        return [Fact(first + n, who.transaction, topic, key) for n, key in enumerate(keys)]

    def note(self, who: Writer, facts: list[Fact]) -> None:
        if who.open is None:
            self.inbox += facts
        else:
            who.open += facts

    @rule(
        writer=st.integers(0, WRITERS - 1),
        end=st.sampled_from(["commit", "commit", "roll back", "savepoint", "crash", "not yet"]),
    )
    def transact(self, writer: int, end: str) -> None:
        """Begin a transaction, or end one, or a savepoint of it."""
        who = self.writers[writer]
        if who.open is None:
            self.transactions += 1
            who.transaction, who.open, who.savepoint = self.transactions, [], None
            who.connection.execute("BEGIN")
        elif end == "commit":
            who.connection.execute("COMMIT")
            self.inbox += who.open
            who.open = None
        elif end == "roll back":
            who.connection.execute("ROLLBACK")
            who.open = None
        elif end == "crash":
            who.connection = self.anew(who.connection)
            who.open = None
        elif end == "savepoint" and who.savepoint is None:
            who.connection.execute("SAVEPOINT here")
            who.savepoint = len(who.open)
        elif end == "savepoint":
            who.connection.execute("ROLLBACK TO here; RELEASE here")
            del who.open[who.savepoint :]
            who.savepoint = None

    # Sequencers

    @property
    def leader(self) -> Sequencer | None:
        return next((each for each in self.sequencers if each.leads), None)

    @rule(sequencer=st.integers(0, SEQUENCERS - 1), limit=limits)
    def sequence(self, sequencer: int, limit: int) -> None:
        """Take the lock, move and commit at once; or find that another does."""
        who = self.sequencers[sequencer]
        if who.leads:
            return
        expected = None if self.leader else self.front(limit)
        moved = sequence.sequence(who.connection, limit=limit)
        assert moved == (None if expected is None else len(expected))
        self.append(expected or [])

    @rule(sequencer=st.integers(0, SEQUENCERS - 1))
    def lead(self, sequencer: int) -> None:
        """Take the lock, in a transaction that goes on; the other may try meanwhile."""
        who = self.sequencers[sequencer]
        if who.leads:
            return
        who.connection.execute("BEGIN")
        row = who.connection.execute(sequence.SQL["lead"]).fetchone()
        assert (row is not None) == (self.leader is None)
        if row:
            who.leads = True
        else:
            who.connection.execute("ROLLBACK")

    @rule(limit=limits, end=st.sampled_from(["commit", "commit", "roll back", "crash"]))
    def go_on(self, limit: int, end: str) -> None:
        """Move what is there by now; or end the transaction in which that was."""
        who = self.leader
        if not who:
            return
        if who.moved is None and end == "commit":
            expected = self.front(limit)
            moved = who.connection.execute(
                sequence.SQL["move"], {**WHOLE._asdict(), "limit": limit}
            )
            assert moved.rowcount == len(expected)
            who.moved = expected
            return
        if end == "commit":
            who.connection.execute("COMMIT")
            self.append(who.moved or [])
        elif end == "roll back":
            who.connection.execute("ROLLBACK")
        else:
            who.connection = self.anew(who.connection)
        who.leads, who.moved = False, None

    def front(self, limit: int) -> list[Fact]:
        """Return what the inbox begins with: it has the order in which rows were inserted."""
        return sorted(self.inbox, key=lambda fact: fact.number)[:limit]

    def append(self, facts: list[Fact]) -> None:
        self.inbox = [each for each in self.inbox if each not in facts]
        self.log += facts

    # Those who read

    @rule(limit=limits, topic=st.one_of(st.none(), topics), after=positions)
    def read(self, limit: int, topic: str | None, after: int) -> None:
        after = min(after, len(self.log))
        condition = log.ALL if topic is None else "e.topic = %(topic)s"
        stretch = log.read(
            self.observer,
            after=after,
            limit=limit,
            condition=condition,
            parameters={"topic": topic},
        )
        self.check(stretch, after, limit, lambda fact: topic in (None, fact.topic))

    @rule(limit=limits)
    def follow(self, limit: int) -> None:
        """Read on behind what was read: nothing appears before it, ever."""
        after = len(self.seen)
        stretch = log.read(self.observer, after=after, limit=limit)
        self.check(stretch, after, limit, lambda _: True)
        if after < self.floor:
            self.seen += self.log[after : self.floor]
        else:
            self.seen += [fact_of(each) for each in stretch.events]

    def check(
        self, stretch: log.LogStretch, after: int, limit: int, wants: Callable[[Fact], bool]
    ) -> None:
        head = len(self.log)
        expected = [
            (position, fact)
            for position, fact in enumerate(self.log, 1)
            if position > max(after, self.floor) and wants(fact)
        ][:limit]
        assert [(each.position, fact_of(each)) for each in stretch.events] == expected
        assert (stretch.floor, stretch.head) == (self.floor, head)
        assert stretch.upto == (expected[-1][0] if len(expected) == limit else head)

    @rule(upto=positions)
    def remove(self, upto: int) -> None:
        """Remove what the group has passed, as retention does."""
        upto = min([upto, *(each.position for each in self.place.values())])
        if upto <= self.floor or self.locked:
            return
        self.observer.execute(
            "INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %(upto)s) "
            "ON CONFLICT (log) DO UPDATE SET position = excluded.position",
            {"upto": upto},
        )
        self.observer.execute("DELETE FROM pgqueue_event WHERE position <= %s", [upto])
        self.floor = upto

    # The group

    @property
    def locked(self) -> set[int]:
        return {each.amid[0] for each in self.readers if each.amid}

    @rule(reader=st.integers(0, READERS - 1), beats=st.sampled_from([True, True, False]))
    def take(self, reader: int, beats: bool) -> None:
        who = self.readers[reader]
        if who.amid:
            return
        if beats:
            readers.beat(who.connection, who.id, group=GROUP)
            self.seen_lately.add(who.id)
        count = max(1, len(self.seen_lately))
        have = [
            sum(place.owner == each for place in self.place.values())
            for each in self.seen_lately - {who.id}
        ]
        is_anyone_short = any(each < len(self.place) // count for each in have)
        share = (floor if is_anyone_short else ceil)(len(self.place) / count)
        free = [
            partition
            for partition, place in self.place.items()
            if not place.is_stopped
            and (
                place.owner is None
                or place.is_over
                or (place.owner == who.id and partition not in who.held)
            )
            and partition not in self.locked
        ]
        expected = free[: max(0, share - len(who.held))] if self.place else []
        taken = groups.take(who.connection, GROUP, who.id, held=who.held, lease=LEASE)
        found = sorted((each.number, each.position) for each in taken)
        assert found == [(number, self.place[number].position) for number in expected]
        for number, position in found:
            who.drop(number)
            who.held[number] = position
            self.place[number].owner, self.place[number].is_over = who.id, False

    @property
    def busy(self) -> list[Reader]:
        """Those who have something, and are amid nothing."""
        return [each for each in self.readers if each.held and not each.amid]

    @rule(reader=numbers, which=numbers, limit=limits, atomic=st.booleans())
    def handle(self, reader: int, which: int, limit: int, atomic: bool) -> None:
        """Handle what is next; atomically: move the cursor in a transaction that goes on."""
        if not self.busy:
            return
        who = pick(self.busy, reader)
        partition = pick(who.held, which)
        after = who.held[partition]
        if after < self.floor or after > len(self.log):
            return
        stretch = self.next_of(who.connection, partition, after, limit)
        positions = [each.position for each in stretch.events]
        if not atomic:
            who.held[partition] = stretch.upto
            who.handled.setdefault(partition, []).extend(positions)
            return
        place = self.place.get(partition)
        if partition in self.locked:
            return
        allowed = bool(place and place.belongs_to(who.id, after))
        who.connection.execute("BEGIN")
        moved = self.store(who, partition, upto=stretch.upto, after=after)
        assert moved == allowed
        if moved:
            who.amid = (partition, [*who.handled.get(partition, []), *positions], stretch.upto)
        else:
            who.connection.execute("ROLLBACK")
            who.drop(partition)

    def store(self, who: Reader, partition: int, *, upto: int, after: int | None = None) -> bool:
        return groups.commit(who.connection, GROUP, partition, who.id, upto=upto, after=after)

    def next_of(
        self, connection: Connection, partition: int, after: int, limit: int
    ) -> log.LogStretch:
        parameters = {"partitions": len(self.place) or 1, "partition": partition}
        stretch = log.read(
            connection, after=after, limit=limit, condition=OF_PARTITION, parameters=parameters
        )
        where = self.partitions_of_keys()
        self.check(stretch, after, limit, lambda fact: where[fact.key] == partition)
        return stretch

    def partitions_of_keys(self) -> dict[str, int]:
        count = len(self.place) or 1
        rows = self.observer.execute(
            "SELECT key, pgqueue_partition_v1(key, %s) FROM unnest(%s::text[]) AS key",
            [count, ["", "k", "l", "m"]],
        ).fetchall()
        assert all(0 <= partition < count for _, partition in rows)
        return dict(rows)

    @rule(
        reader=numbers,
        end=st.sampled_from(["commit", "unheard", "roll back"]),
        again=st.sampled_from(["handle", "commit", "retry", "stop"]),
    )
    def end_handling(self, reader: int, end: str, again: str) -> None:
        """End a handler's transaction; unheard: the reader is not told that it committed."""
        amid = [each for each in self.readers if each.amid]
        if not amid:
            return
        who = pick(amid, reader)
        assert who.amid
        partition, positions, upto = who.amid
        who.amid = None
        if end == "roll back":
            who.connection.execute("ROLLBACK")
            return
        who.connection.execute("COMMIT")
        self.place[partition].move(positions, upto)
        if end == "commit":
            who.held[partition] = upto
            who.handled.pop(partition, None)
        else:
            # It does the same again, or says that it failed.
            at = self.busy.index(who)
            which = list(who.held).index(partition)
            if again == "handle":
                self.handle(at, which, len(positions) or 1, atomic=True)
            else:
                self.settle(at, which, again)

    @rule(
        reader=numbers,
        which=numbers,
        how=st.sampled_from(["commit", "commit", "retry", "stop", "release"]),
    )
    def settle(self, reader: int, which: int, how: str) -> None:
        """Commit what was handled, or say that what is next failed; or give the partition back."""
        if not self.busy:
            return
        who = pick(self.busy, reader)
        partition = pick(who.held, which)
        if partition in self.locked:
            return
        upto = who.held[partition]
        place = self.place.get(partition)
        allowed = bool(place and place.belongs_to(who.id, upto))
        if how == "release":
            groups.release(who.connection, GROUP, who.id, [partition])
            who.drop(partition)
            if place and place.owner == who.id:
                place.leave()
            return
        if how == "commit":
            moved = self.store(who, partition, upto=upto)
        else:
            moved = groups.fail(
                who.connection,
                GROUP,
                partition,
                who.id,
                upto=upto,
                retry_after=timedelta() if how == "retry" else None,
                **ERROR,
            )
        assert moved == allowed
        handled = who.handled.pop(partition, [])
        if not place or not allowed:
            who.drop(partition)
            return
        place.move(handled, upto)
        place.is_waiting = how == "retry"
        if how == "stop":
            place.is_stopped, place.owner = True, None
            who.drop(partition)

    @rule(reader=st.integers(0, READERS - 1))
    def renew(self, reader: int) -> None:
        who = self.readers[reader]
        own = {number for number, place in self.place.items() if place.owner == who.id}
        if who.amid or own & self.locked:
            return
        assert groups.renew(who.connection, GROUP, who.id, lease=LEASE) == own
        for number in own:
            self.place[number].is_over = False

    @rule(
        reader=numbers,
        which=numbers,
        taker=st.integers(0, READERS - 1),
        is_amid=st.booleans(),
        how=st.sampled_from(["commit", "retry", "stop", "release"]),
    )
    def be_late(self, reader: int, which: int, taker: int, is_amid: bool, how: str) -> None:
        """Let a lease run out, also amid a handler's transaction, as another comes to take over."""
        if not self.busy:
            return
        who = pick(self.busy, reader)
        self.let_the_lease_run_out(who.id)
        if is_amid:
            self.handle(reader, which, 3, atomic=True)
        self.take(taker, beats=True)
        if who in self.busy:
            self.settle(self.busy.index(who), which, how)

    def let_the_lease_run_out(self, who: UUID) -> None:
        own = {number for number, place in self.place.items() if place.owner == who}
        if own & self.locked:
            return
        self.observer.execute(
            "UPDATE pgqueue_cursor SET lease_until = statement_timestamp() - interval '1 second' "
            "WHERE reader_id = %s",
            [who],
        )
        self.observer.execute(
            "UPDATE pgqueue_reader SET last_seen = last_seen - interval '2 hours' WHERE id = %s",
            [who],
        )
        self.seen_lately.discard(who)
        for number in own:
            self.place[number].is_over = True

    @rule(reader=st.integers(0, READERS - 1), the_process=st.booleans())
    def crash(self, reader: int, the_process: bool) -> None:
        """Lose a reader's session, and what it remembers if its process ends; its lease lasts."""
        who = self.readers[reader]
        who.connection = self.anew(who.connection)
        who.amid = None
        if the_process:
            self.readers[reader] = Reader(who.connection)
            self.lost(who.id)

    def lost(self, who: UUID) -> None:
        """Let the lease of a process that ended run out, too: no other step would."""
        own = {number for number, place in self.place.items() if place.owner == who}
        self.observer.execute(
            "UPDATE pgqueue_cursor SET lease_until = '2000-01-01' WHERE reader_id = %s", [who]
        )
        self.observer.execute("DELETE FROM pgqueue_reader WHERE id = %s", [who])
        self.seen_lately.discard(who)
        for number in own:
            self.place[number].is_over = True

    # Operators

    @rule(to=positions)
    def reset(self, to: int) -> None:
        to = min(max(to, self.floor), len(self.log))
        if self.is_blocked(lambda: groups.reset(self.observer, GROUP, to)):
            return
        for place in self.place.values():
            vars(place).update(vars(Place(to, to)))

    @rule()
    def resume(self) -> None:
        stuck = {n: each for n, each in self.place.items() if each.is_stopped or each.is_waiting}
        if stuck.keys() & self.locked:
            return
        assert groups.resume(self.observer, GROUP) == len(stuck)
        for place in stuck.values():
            place.is_stopped = place.is_waiting = False
            place.leave()

    @rule(partitions=st.integers(1, 3), to=positions)
    def delete_and_make(self, partitions: int, to: int) -> None:
        if self.is_blocked(lambda: groups.delete(self.observer, GROUP)):
            return
        for each in self.readers:
            # As a reader does that finds another number of partitions; if not, it is fenced.
            if partitions != len(self.place):
                each.held.clear()
                each.handled.clear()
        self.make(partitions, min(max(to, self.floor), len(self.log)))

    def make(self, partitions: int, position: int) -> None:
        with self.observer.transaction():
            given = {"partitions": partitions, "position": position}
            assert groups.make_group(self.observer, GROUP, **given) == partitions
        self.place = {number: Place(position, position) for number in range(partitions)}

    def is_blocked(self, verb: Callable[[], bool]) -> bool:
        """Whether a handler's transaction has moved a cursor that this is to change."""
        try:
            assert verb()
        except LockNotAvailable:
            assert self.locked, "it waited, though no other session has anything"
            return True
        assert not self.locked
        return False

    # What is true after each step

    @invariant()
    def the_log_is_the_list(self) -> None:
        rows = self.observer.execute(
            "SELECT position, payload FROM pgqueue_event ORDER BY position"
        )
        found = [(position, json.loads(payload)["number"]) for position, payload in rows]
        expected = [(n, fact.number) for n, fact in enumerate(self.log, 1) if n > self.floor]
        assert found == expected
        assert self.seen == self.log[: len(self.seen)]

    @invariant()
    def the_cursors_are_where_they_should_be(self) -> None:
        rows = self.observer.execute(
            "SELECT partition, position, reader_id, is_stopped FROM pgqueue_cursor "
            "ORDER BY partition"
        ).fetchall()
        assert rows == [
            (number, place.position, place.owner, place.is_stopped)
            for number, place in self.place.items()
        ]

    @invariant()
    def what_is_acknowledged_is_all_there_was_once_in_order(self) -> None:
        if not self.place:
            return
        where = self.partitions_of_keys()
        for number, place in self.place.items():
            own = [n for n, fact in enumerate(self.log, 1) if where[fact.key] == number]
            between = [n for n in own if place.base < n <= place.position]
            assert place.acknowledged == between

    # The end

    def teardown(self) -> None:
        for each in self.connections():
            each.rollback()
        try:
            sequencer = self.sequencers[0].connection
            while moved := sequence.sequence(sequencer, limit=3):
                self.append(self.front(moved))
            assert not self.inbox
            self.the_log_is_the_list()
            self.each_transaction_is_in_its_order()
        finally:
            self.spare += [self.observer, *self.connections()]

    def each_transaction_is_in_its_order(self) -> None:
        last: dict[int, int] = {}
        for fact in self.log:
            assert fact.number > last.get(fact.transaction, 0)
            last[fact.transaction] = fact.number
        assert len({fact.number for fact in self.log}) == len(self.log)

    def connections(self) -> Iterator[Connection]:
        for each in (*self.writers, *self.sequencers, *self.readers):
            yield each.connection

    def sweep(self) -> None:
        for table in ("event_inbox", "event", "cursor", "group", "reader", "log_floor"):
            self.observer.execute(f"DELETE FROM pgqueue_{table}")  # noqa: S608

    def anew(self, connection: Connection) -> Connection:
        """Terminate a session amid whatever it does; return another."""
        pid = connection.info.backend_pid
        self.observer.execute("SELECT pg_terminate_backend(%s)", [pid])
        eventually(lambda: not self.is_there(pid), what="the session has ended")
        connection.close()
        return self.connect()

    def is_there(self, pid: int) -> bool:
        query = "SELECT FROM pg_stat_activity WHERE pid = %s"
        return self.observer.execute(query, [pid]).fetchone() is not None


def new(fact: Fact) -> NewEvent:
    payload = json.dumps({"number": fact.number, "transaction": fact.transaction})
    return NewEvent(fact.topic, fact.key, payload, "{}")


def fact_of(stored: log.StoredEvent) -> Fact:
    payload = json.loads(stored.payload)
    return Fact(payload["number"], payload["transaction"], stored.topic, stored.key)


def pick(things: Any, which: int) -> Any:
    """Return one of `things`, counted from the first."""
    found = list(things)
    return found[which % len(found)]
