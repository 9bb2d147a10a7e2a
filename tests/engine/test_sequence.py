"""Positions: given once, without gaps, in the order of commits, whoever does what meanwhile."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg
import pytest

from pgqueue import embedded
from pgqueue.engine import event_partitions, health, log, publish, sequence
from pgqueue.engine.culprits import WHOLE
from pgqueue.engine.publish import NewEvent
from pgqueue.engine.values import Tuples
from tests.chaos.harness.migrated import migrated
from tests.chaos.harness.server import Server, programs
from tests.eventually import eventually
from tests.factories import Connection, one
from tests.stepping import Step

pytestmark = pytest.mark.slow

Stepping = Callable[..., Step]


def put(connection: Connection, *topics: str, payload: str | None = None) -> None:
    """Publish events of these topics."""
    for topic in topics:
        publish.publish(Tuples(connection), NewEvent(topic, "", payload, "{}"))


def stored(connection: Connection, after: int = 0) -> list[tuple[int, str]]:
    """Return the log as it is: no event gets a position by this."""
    rows = connection.execute(
        "SELECT position, topic FROM pgqueue_event WHERE position > %s ORDER BY position", [after]
    )
    return [(position, topic) for position, topic in rows]


def waiting(connection: Connection) -> int:
    """Return how many events have no position."""
    (count,) = one(connection, "SELECT count(*) FROM pgqueue_event_inbox")
    return int(count)


def move_head(connection: Connection, position: int) -> None:
    """Have the log begin after a position."""
    connection.execute(
        "INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %s) "
        "ON CONFLICT (log) DO UPDATE SET position = excluded.position",
        [position],
    )


class TestASnapshotThatIsPinned:
    """The index entries of what was moved stay: each look from the front reads all of them."""

    @pytest.fixture
    def pinned(self, connection: Connection, other: Connection) -> Iterator[Connection]:
        put(connection, "first")
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgqueue_event")
        for _ in range(4):
            connection.execute(
                "INSERT INTO pgqueue_event_inbox (topic, key, metadata) "
                "SELECT 'many', '', '{}' FROM generate_series(1, 50000)"
            )
            sequence.catch_up(connection)
        yield connection
        other.execute("ROLLBACK")

    def test_costs_nearly_all_looks_nothing(
        self, pinned: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "LONGEST_PAUSE", 60.0)
        monkeypatch.setattr(log, "COST", 10_000)

        def look() -> int:
            """Return how many pages of the inbox and its index a look reads."""
            before = pages(pinned)
            assert not log.has_anything_come(pinned)
            return pages(pinned) - before

        first, *others = [look() for _ in range(5)]

        assert first > 500
        assert max(others) < 100

    def test_keeps_no_new_event_waiting(
        self, pinned: Connection, other: Connection, third: Connection
    ) -> None:
        head = log.bounds(Tuples(pinned)).head
        assert not log.has_anything_come(pinned)
        with third.transaction():
            put(third, "open meanwhile")
            put(pinned, "new")
            sequence.advance(pinned)
            assert stored(pinned, head) == [(head + 1, "new")]
        sequence.advance(pinned)

        assert stored(pinned, head) == [(head + 1, "new"), (head + 2, "open meanwhile")]

    def test_delays_what_was_open_for_long_by_a_second_at_most(
        self, pinned: Connection, third: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "RECENT", 0)
        head = log.bounds(Tuples(pinned)).head
        with third.transaction():
            put(third, "late")
            put(pinned, "new")
            sequence.catch_up(pinned)
            assert not log.has_anything_come(pinned)

        def is_moved() -> bool:
            sequence.advance(pinned)
            return stored(pinned, head) == [(head + 1, "new"), (head + 2, "late")]

        eventually(is_moved, within=3)

    def test_hides_nothing_from_who_reads_once(
        self, pinned: Connection, third: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "RECENT", 0)
        head = log.bounds(Tuples(pinned)).head
        with third.transaction():
            put(third, "late")
            put(pinned, "new")
            sequence.catch_up(pinned)
            assert not log.has_anything_come(pinned)

        sequence.catch_up(pinned)

        assert stored(pinned, head)[-1][1] == "late"


def pages(connection: Connection) -> int:
    """Return how many pages this session has read of the inbox, in this transaction or before."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    (count,) = one(
        connection,
        "SELECT idx_blks_hit + idx_blks_read + heap_blks_hit + heap_blks_read "
        "FROM pg_statio_user_tables WHERE relid = 'pgqueue_event_inbox'::regclass",
    )
    return int(count)


class TestPositions:
    def test_are_given_in_the_order_of_publishing_where_all_is_committed(
        self, connection: Connection
    ) -> None:
        put(connection, "a", "b")
        publish.publish_many(Tuples(connection), [NewEvent(each, "", None, "{}") for each in "cd"])

        assert sequence.sequence(connection) == 4

        assert stored(connection) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
        assert waiting(connection) == 0
        assert sequence.sequence(connection) == 0

    def test_are_given_to_a_batch_at_a_time(self, connection: Connection) -> None:
        put(connection, "a", "b", "c")

        assert sequence.sequence(connection, limit=2) == 2
        assert stored(connection) == [(1, "a"), (2, "b")]
        assert sequence.sequence(connection, limit=2) == 1
        assert stored(connection, after=2) == [(3, "c")]

    def test_leave_no_gap_where_a_transaction_was_rolled_back(self, connection: Connection) -> None:
        put(connection, "a")
        with connection.transaction(force_rollback=True):
            put(connection, *["lost"] * 100)
        put(connection, "b")

        sequence.advance(connection)

        assert stored(connection) == [(1, "a"), (2, "b")]

    def test_leave_no_gap_where_the_sequencer_was_rolled_back(self, connection: Connection) -> None:
        put(connection, "a", "b")
        with connection.transaction(force_rollback=True):
            connection.execute(sequence.SQL["lead"])
            connection.execute(sequence.SQL["move"], {**WHOLE._asdict(), "limit": 10})
            assert len(stored(connection)) == 2

        assert (stored(connection), waiting(connection)) == ([], 2)
        sequence.advance(connection)
        assert stored(connection) == [(1, "a"), (2, "b")]

    def test_keep_all_that_an_event_has(self, connection: Connection) -> None:
        publish.publish(Tuples(connection), NewEvent("a", "k", '{"b": 1}', '{"m": 2}'))
        published = one(
            connection, "SELECT topic, key, payload, metadata, created_at FROM pgqueue_event_inbox"
        )

        sequence.sequence(connection)

        assert published == one(
            connection, "SELECT topic, key, payload, metadata, created_at FROM pgqueue_event"
        )

    def test_go_on_after_all_events_were_removed(self, connection: Connection) -> None:
        put(connection, "a", "b", "c")
        sequence.sequence(connection)
        with connection.transaction():
            connection.execute("DELETE FROM pgqueue_event")
            move_head(connection, 3)

        put(connection, "d")
        sequence.sequence(connection)

        assert stored(connection) == [(4, "d")]

    def test_go_on_after_the_newer_of_what_is_left_and_the_floor(
        self, connection: Connection
    ) -> None:
        put(connection, "a", "b", "c")
        sequence.sequence(connection)
        with connection.transaction():
            connection.execute("DELETE FROM pgqueue_event WHERE position <= 2")
            move_head(connection, 2)

        put(connection, "d")
        sequence.sequence(connection)

        assert stored(connection) == [(3, "c"), (4, "d")]

    def test_are_durable_whatever_the_session_says(self, connection: Connection) -> None:
        connection.execute("SET synchronous_commit = off")
        put(connection, "a")

        with connection.transaction():
            connection.execute(sequence.SQL["lead"])
            assert one(connection, "SHOW synchronous_commit") == ("on",)

        assert one(connection, "SHOW synchronous_commit") == ("off",)


class TestALongTransaction:
    def test_delays_only_its_own_events(self, connection: Connection, other: Connection) -> None:
        with other.transaction():
            put(other, "late.1")
            put(connection, "a", "b")
            assert sequence.sequence(connection) == 2
            assert stored(connection) == [(1, "a"), (2, "b")]
            put(other, "late.2")
            put(connection, "c")
            assert sequence.sequence(connection) == 1

        assert sequence.sequence(connection) == 2
        assert stored(connection) == [
            *((1, "a"), (2, "b"), (3, "c")),
            *((4, "late.1"), (5, "late.2")),
        ]

    def test_appears_never_behind_what_was_read(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        # Its events are the first of the inbox: they come last, and in the order of their own.
        with connection.transaction(), other.transaction():
            put(connection, "x.1")
            put(other, "y.1")
            put(connection, "x.2")
            put(third, "z")
            sequence.advance(third)
            read = stored(third)
        sequence.advance(third)

        assert read == [(1, "z")]
        assert stored(third, after=1) == [(2, "x.1"), (3, "y.1"), (4, "x.2")]


class TestTwoSequencers:
    def test_are_never_at_it_at_once(self, connection: Connection, other: Connection) -> None:
        put(connection, "a")

        with other.transaction():
            other.execute(sequence.SQL["lead"])
            assert sequence.sequence(connection) is None
            assert sequence.advance(connection) is True
            assert waiting(connection) == 1

        assert sequence.advance(connection) is False
        assert stored(connection) == [(1, "a")]

    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    @pytest.mark.parametrize("is_pooled", [False, True])
    def test_see_what_the_other_has_moved_whatever_their_isolation_is(
        self, connection: Connection, other: Connection, level: str, is_pooled: bool
    ) -> None:
        other.execute(f"SET default_transaction_isolation = '{level}'")
        if is_pooled:
            other.prepare_threshold = None
        put(connection, "a")
        assert sequence.sequence(other) == 1
        put(connection, "b")
        assert sequence.sequence(connection) == 1
        put(connection, "c")

        assert sequence.sequence(other) == 1

        assert stored(connection) == [(1, "a"), (2, "b"), (3, "c")]
        assert one(other, "SHOW transaction_isolation") == (level,)

    @pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
    def test_look_only_after_they_lead(
        self,
        connection: Connection,
        other: Connection,
        level: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        real = sequence.in_short
        turns = iter([lambda: put(connection, "b"), lambda: sequence.sequence(connection)])

        @contextmanager
        def overtaken(session: Connection) -> Iterator[None]:
            with real(session):
                if session is other:
                    session.execute("SELECT 1")  # its snapshot, if it has one for all statements
                    for turn in turns:
                        turn()
                yield

        monkeypatch.setattr(sequence, "in_short", overtaken)
        other.execute(f"SET default_transaction_isolation = '{level}'")
        put(connection, "a")

        assert sequence.sequence(other) == 0

        assert stored(connection) == [(1, "a"), (2, "b")]

    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    def test_step_aside_whatever_their_isolation_is(
        self, connection: Connection, other: Connection, level: str
    ) -> None:
        other.execute(f"SET default_transaction_isolation = '{level}'")
        put(connection, "a")

        with connection.transaction():
            connection.execute(sequence.SQL["lead"])
            assert sequence.sequence(other) is None

    def test_of_two_schemas_are_none(self, connection: Connection, other: Connection) -> None:
        other.execute(
            "CREATE SCHEMA aside; CREATE TABLE aside.pgqueue_lock (LIKE pgqueue_lock); "
            "INSERT INTO aside.pgqueue_lock SELECT * FROM public.pgqueue_lock; "
            "SET search_path = aside, public"
        )
        try:
            with connection.transaction(), other.transaction():
                assert connection.execute(sequence.SQL["lead"]).fetchone()
                assert other.execute(sequence.SQL["lead"]).fetchone()
        finally:
            other.execute("DROP SCHEMA aside CASCADE")


class TestAPartition:
    @pytest.fixture(autouse=True)
    def _that_are_made_are_dropped(self, connection: Connection) -> Iterator[None]:
        yield
        rows = connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits "
            "WHERE inhparent = 'pgqueue_event'::regclass"
        ).fetchall()
        for (name,) in rows:
            if name not in ("pgqueue_event_0", "pgqueue_event_1"):
                connection.execute(f"DROP TABLE {name}")

    def partitions(self, connection: Connection) -> set[str]:
        rows = connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits "
            "WHERE inhparent = 'pgqueue_event'::regclass"
        )
        return {name.removeprefix("pgqueue_event_") for (name,) in rows}

    def test_that_is_missing_is_made(self, connection: Connection) -> None:
        move_head(connection, 4_999_999)
        put(connection, "a", "b")

        assert sequence.sequence(connection) == 2

        assert stored(connection) == [(5_000_000, "a"), (5_000_001, "b")]
        assert self.partitions(connection) == {"0", "1", "5", "6"}

    def test_that_is_missing_is_made_in_the_middle_of_a_batch(self, connection: Connection) -> None:
        move_head(connection, 1_999_998)
        put(connection, "a", "b", "c")

        sequence.advance(connection)

        assert [position for position, _ in stored(connection)] == [
            *(1_999_999, 2_000_000, 2_000_001)
        ]

    def test_is_made_ahead_and_once(self, connection: Connection, other: Connection) -> None:
        move_head(connection, 6_500_000)

        assert event_partitions.ensure(connection) == 2
        assert event_partitions.ensure(other) == 0
        assert self.partitions(connection) == {"0", "1", "6", "7"}

    def test_has_the_indexes_of_the_log(self, connection: Connection) -> None:
        move_head(connection, 6_500_000)
        event_partitions.ensure(connection)

        def indexes(name: str) -> list[str]:
            rows = connection.execute(
                "SELECT regexp_replace(indexdef, '_[0-9]+', '', 'g') FROM pg_indexes "
                "WHERE tablename = %s",
                [name],
            )
            return sorted(text.partition(" ON ")[2] for (text,) in rows)

        assert indexes("pgqueue_event_6") == indexes("pgqueue_event_0") != []

    def test_that_another_makes_at_the_same_moment_is_no_error(
        self, connection: Connection, other: Connection, third: Connection, step: Stepping
    ) -> None:
        move_head(connection, 8_500_000)
        with connection.transaction():
            assert event_partitions.ensure(connection) == 2
            second = step(event_partitions.ensure, other)
            second.waits()

        assert second.result() == 0
        assert self.partitions(third) == {"0", "1", "8", "9"}

    def test_is_made_while_the_log_is_read(self, connection: Connection, other: Connection) -> None:
        move_head(connection, 6_500_000)
        with other.transaction():
            stored(other)
            assert event_partitions.ensure(connection) == 2


# --- Everything at once

WRITERS = 300
SOURCES = 8


def write(connect: Callable[[], Connection], numbers: list[int], can_prepare: bool) -> set[str]:
    """Run random transactions; return the names of those that were committed."""
    rng = random.Random(numbers[0])
    committed = set()
    with closing(connect()) as connection:
        for number in numbers:
            name = f"t{number}"
            ends = rng.choices(["commit", "roll back", "prepare", "prepare, roll back"],
                               [6, 2, 2 * can_prepare, can_prepare])[0]  # fmt: skip
            connection.execute("BEGIN")
            for n in range(rng.randint(1, 6)):
                if rng.random() < 0.3:
                    connection.execute("SAVEPOINT s")
                    put(connection, "lost")
                    connection.execute("ROLLBACK TO SAVEPOINT s")
                if rng.random() < 0.5:
                    put(connection, name, payload=str(2 * n))
                    put(connection, name, payload=str(2 * n + 1))
                else:
                    publish.publish_many(
                        Tuples(connection),
                        [NewEvent(name, "", str(2 * n + m), "{}") for m in range(2)],
                    )
                if rng.random() < 0.1:
                    connection.execute("SELECT pg_sleep(0.02)")
            if ends.startswith("prepare"):
                connection.execute(f"PREPARE TRANSACTION '{name}'")
                connection.execute("SELECT pg_sleep(0.005)")
                verb = "ROLLBACK" if "roll back" in ends else "COMMIT"
                connection.execute(f"{verb} PREPARED '{name}'")
            else:
                connection.execute("COMMIT" if ends == "commit" else "ROLLBACK")
            if ends in ("commit", "prepare"):
                committed.add(name)
    return committed


class Follower(threading.Thread):
    """Sequences and reads, until it is told to stop; remembers what it read, in this order."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._ending = threading.Event()
        self.read: list[tuple[int, str, int]] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with closing(self._connect()) as connection:
                is_last = False
                while not is_last:
                    is_last = self._ending.is_set()
                    while sequence.advance(connection) and is_last:
                        pass
                    self._follow(connection)
        except BaseException as error:
            self.error = error

    def _follow(self, connection: Connection) -> None:
        while True:
            after = self.read[-1][0] if self.read else 0
            found = log.read(Tuples(connection), after=after, limit=100).events
            self.read += [(each.position, each.topic, int(each.payload)) for each in found]
            if not found:
                return

    def end(self) -> list[tuple[int, str, int]]:
        self._ending.set()
        self.join(60)
        if self.error:
            raise self.error
        assert not self.is_alive()
        return self.read


def torture(connect: Callable[[], Connection], *, can_prepare: bool) -> None:
    followers = [Follower(connect) for _ in range(3)]
    for each in followers:
        each.start()
    numbers = list(range(WRITERS))
    with ThreadPoolExecutor(SOURCES) as threads:
        parts = [numbers[n::SOURCES] for n in range(SOURCES)]
        done = threads.map(lambda part: write(connect, part, can_prepare), parts)
        committed = set().union(*done)
    first, *others = [each.end() for each in followers]

    assert all(each == first for each in others)
    assert [position for position, _, _ in first] == list(range(1, len(first) + 1))
    assert {topic for _, topic, _ in first} == committed
    by_transaction = defaultdict(list)
    for _, topic, number in first:
        by_transaction[topic].append(number)
    for name, events in by_transaction.items():
        assert events == list(range(len(events))), name
    assert max(Counter(topic for _, topic, _ in first).values()) <= 12


def test_whatever_many_writers_do_each_event_is_read_once_in_order(
    connect: Callable[..., Connection],
) -> None:
    torture(connect, can_prepare=False)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of these tests' own, whose transactions can be prepared."""
    with migrated("sequence") as server:
        server.settings["max_prepared_transactions"] = "50"
        server.start()
        yield server


@pytest.mark.xdist_group("chaos")
class TestAServerOfItsOwn:
    @pytest.fixture(autouse=True)
    def _swept(self, server: Server) -> Iterator[None]:
        yield
        with closing(server.connect()) as connection:
            connection.execute(
                "DELETE FROM pgqueue_event; DELETE FROM pgqueue_event_inbox; "
                "DELETE FROM pgqueue_log_floor"
            )

    def test_a_prepared_transaction_delays_only_its_own_events(self, server: Server) -> None:
        with closing(server.connect()) as connection:
            connection.execute("BEGIN")
            put(connection, "late")
            connection.execute("PREPARE TRANSACTION 'it'")
            put(connection, "a")
            sequence.advance(connection)
            assert stored(connection) == [(1, "a")]
            connection.execute("COMMIT PREPARED 'it'")
            sequence.advance(connection)
            assert stored(connection) == [(1, "a"), (2, "late")]

    @pytest.mark.parametrize(
        ("statement", "what"),
        [
            ("SELECT FROM pgqueue_lock WHERE name = 'sequence' FOR UPDATE", "sequencer"),
            ("SELECT pg_advisory_xact_lock('pgqueue_event'::regclass::oid::bigint)", "partitions"),
        ],
    )
    def test_a_prepared_transaction_that_keeps_a_lock_is_named_by_health(
        self, server: Server, statement: str, what: str
    ) -> None:
        with closing(server.connect()) as connection:
            connection.execute(f"BEGIN; {statement}")
            connection.execute("PREPARE TRANSACTION 'it'")
            try:
                [found] = health.locks(connection)
            finally:
                connection.execute("ROLLBACK PREPARED 'it'")

        assert what in found.what
        assert found.who == "the prepared transaction it"
        assert found.seconds is not None

    def test_prepared_transactions_are_like_any_others(self, server: Server) -> None:
        torture(server.connect, can_prepare=True)

    def test_a_dump_that_is_restored_goes_on_with_the_same_positions(self, server: Server) -> None:
        with ExitStack() as stack:
            here = stack.enter_context(closing(server.connect()))
            put(here, "a", "b", "c")
            sequence.advance(here)
            with here.transaction():
                here.execute("DELETE FROM pgqueue_event WHERE position = 1")
                move_head(here, 1)
            put(here, "d")  # in the inbox still
            here.execute("DROP DATABASE IF EXISTS elsewhere")
            here.execute("CREATE DATABASE elsewhere")
            dump_and_restore(server, "elsewhere")

            there = stack.enter_context(closing(server.connect(dbname="elsewhere")))
            put(there, "e")
            sequence.advance(there)

            assert stored(there) == [(2, "b"), (3, "c"), (4, "d"), (5, "e")]
            assert stored(here) == [(2, "b"), (3, "c")]
            assert log.bounds(Tuples(there)) == (1, 5)


def dump_and_restore(server: Server, database: str) -> None:
    """Copy the server's database into another, which is empty."""
    place = ["-h", server.home, "-p", server.port, "-U", "postgres", "--no-password"]
    options: dict[str, Any] = {
        "cwd": "/",
        "env": {"PATH": os.defpath, "LC_ALL": "C"},
        "check": True,
        "capture_output": True,
        **embedded._server_user(),
    }
    dump = subprocess.run(
        [programs() / "pg_dump", *map(str, place), "-Fc", "chaos"], **options
    ).stdout
    subprocess.run(
        [programs() / "pg_restore", *map(str, place), "-d", database, "--exit-on-error"],
        input=dump,
        **options,
    )


def test_a_sequencer_whose_session_was_ended_leaves_nothing_half_done(
    connection: Connection, other: Connection
) -> None:
    put(connection, "a", "b")
    with pytest.raises(psycopg.OperationalError), other.transaction():
        other.execute(sequence.SQL["lead"])
        other.execute(sequence.SQL["move"], {**WHOLE._asdict(), "limit": 1})
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", [other.info.backend_pid])
        other.execute("SELECT 1")

    assert sequence.sequence(connection) == 2
    assert stored(connection) == [(1, "a"), (2, "b")]
