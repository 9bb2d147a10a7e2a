"""Interleaved statements of sessions keep the promises, and planted faults break them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import pytest
from psycopg.errors import DeadlockDetected

from pgqueue.database import sql_files
from pgqueue.engine import (
    claim,
    claim_governed,
    dispatch,
    flows,
    lease,
    promote,
    publish,
    route,
    sequence,
    settle,
    signalling,
)
from tests.factories import Connection
from tests.interleaving.interleaver import Interleaver, seeds_for
from tests.interleaving.schedule import Interleaving, shrunk
from tests.interleaving.turns import SteppedSession, Turns
from tests.proof import mutations

pytestmark = pytest.mark.slow

FEW = 30
MINUTES = float(os.environ.get("INTERLEAVE_MINUTES", 0.15))
SEED = int(os.environ.get("INTERLEAVE_SEED", 1000))
SCHEDULE = os.environ.get("SCHEDULE", "")
NO_FENCE = "put:f:2 claim:free claim:free! rescue complete"
MODULES = (claim, claim_governed, flows, lease, promote, route, settle)


def test_a_few_interleavings_keep_the_promises(interleaver: Interleaver) -> None:
    for seed in range(FEW):
        schedule = Interleaving.of_seed(seed)

        assert not interleaver.run(schedule), f"seed {seed}: SCHEDULE='{schedule}'"


@pytest.mark.timeout(max(600, MINUTES * 60 + 300))
def test_many_interleavings_keep_the_promises(interleaver: Interleaver) -> None:
    if SCHEDULE:
        assert not interleaver.run(Interleaving.parsed(SCHEDULE))
        return
    done = 0

    def counted() -> Iterator[int]:
        nonlocal done
        for seed in seeds_for(MINUTES * 60, first=SEED):
            done += 1
            yield seed

    found = interleaver.find(counted())

    print(f"{done} interleavings from seed {SEED}")
    if found is not None:
        seed, schedule, broken = found
        small = interleaver.shrink(schedule, broken)
        pytest.fail(f"seed {seed}: SCHEDULE='{small}' breaks {interleaver.run(small) or broken}")


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a fault in the statements of this process."""
    read = mutations.reading(mutations.named(name))
    with ExitStack() as stack:
        hit = False
        for module in MODULES:
            with patch.object(sql_files, "_read", read):
                statements = sql_files.load(module.__name__)
            hit |= statements != module.SQL
            stack.enter_context(patch.dict(module.SQL, statements))
        assert hit
        yield


@pytest.mark.parametrize(
    ("name", "operations", "promise"),
    [
        ("no fence", NO_FENCE, {"lost", "fence", "claim"}),
        ("one too many", "put:l:2 claim:limited route complete", {"limit"}),
        pytest.param(
            "lane passes a retry",
            "put:o:2 claim:lanes route retry!",
            {"lane"},
            marks=pytest.mark.nightly,
        ),
        ("child runs early", "put:g:1 flow claim:free complete route", {"flow"}),
        ("no bell", "put:l:2 claim:limited route complete", {"stuck"}),
    ],
)
def test_a_planted_fault_is_found(
    interleaver: Interleaver, name: str, operations: str, promise: set[str]
) -> None:
    with planted(name):
        found = interleaver.find(range(60, 560), operations.split())

        assert found is not None
        _, schedule, broken = found
        assert {each.partition(":")[0] for each in broken} & promise
        assert interleaver.run(Interleaving.parsed(str(schedule)))
    assert not interleaver.run(schedule)


BROKEN: dict[str, tuple[Any, str, str, str, str]] = {
    "breaker is not asked": (
        claim_governed, "claim", "least(share, places, tokens, let_through)",
        "least(share, places, tokens)",
        "put:q:1 route claim:fragile | retry / route claim:fragile @ 01"),
    "breaker forgets its probe": (
        claim_governed, "probe", "SET probe_id = h.id", "SET probe_id = b.probe_id",
        "put:q:2 put:r:2 route claim:fragile claim:fragile retry elapse route "
        "| claim:fragile / claim:fragile @ 01"),
    "bell": (
        settle, "suspend", "WHERE is_woken OR b.watched_id IS NOT NULL", "WHERE false",
        "put:f:1 claim:free signal:0 route | suspend / route @ 01"),
    "claim": (
        promote, "promote", "WHERE state = 'scheduled'", "WHERE state = 'running'",
        "put:f:1 claim:free | promote / claim:free @ 01"),
    "position": (
        sequence, "move", "row_number() OVER (ORDER BY moved.id)",
        "2 * row_number() OVER (ORDER BY moved.id)",
        "publish:2 | sequence / publish:1 @ 1111100"),
    "event": (
        sequence, "move", "FROM moved, head",
        "FROM moved, head WHERE moved.id > (SELECT min(id) FROM moved)",
        "publish:2 | sequence / publish:1 @ 1111100"),
    "signal": (
        signalling, "send",
        "pgqueue_signal_v1(%(id)s, %(name)s, %(payload)s::jsonb, %(dedupe_id)s, %(sender)s)",
        "'sent'", "put:f:1 claim:free suspend | signal:0 / route @ 01"),
    # Each publisher takes two locks, the one in the other order than the other.
    "deadlock": (
        publish, "publish", "SELECT pgqueue_publish_v1(",
        "SELECT pg_advisory_xact_lock((split_part(%(payload)s, '.', 2)::int "
        "+ left(split_part(%(payload)s, '.', 3), 1)::int) %% 2), pgqueue_publish_v1(",
        "| publish:2 / publish:2 @ 001101"),
    "dispatch": (
        dispatch, "move", "position = %(upto)s", "position = least(position, %(upto)s)",
        "publish:1 sequence dispatch | dispatch / put:f:1 @ 01"),
}  # fmt: skip


@pytest.mark.parametrize("promise", BROKEN)
def test_a_broken_statement_breaks_its_promise(interleaver: Interleaver, promise: str) -> None:
    module, name, right, wrong, text = BROKEN[promise]
    schedule = Interleaving.parsed(text)
    assert right in module.SQL[name]

    assert not interleaver.run(schedule)
    with patch.dict(module.SQL, {name: module.SQL[name].replace(right, wrong)}):
        broken = interleaver.run(schedule)

    assert promise.split()[0] in {each.partition(":")[0] for each in broken}, broken


def test_a_lane_without_its_lock_breaks_the_order(
    interleaver: Interleaver, connection: Connection
) -> None:
    schedule = Interleaving.parsed("| put:o:2 / put:o:1 @ 001111111")
    assert not interleaver.run(schedule)
    right = mutations.definition(connection, mutations.named("lane without a lock"))
    mutations.plant_in_database("lane without a lock", lambda: nullcontext(connection))
    try:
        broken = interleaver.run(schedule)
    finally:
        connection.execute(right.encode())

    assert "order" in {each.partition(":")[0] for each in broken}


def test_a_deadlock_ends_for_one_of_its_sessions(connect: Callable[..., Connection]) -> None:
    *connections, observer = (connect() for _ in range(3))
    for each in connections:
        each.execute("SET deadlock_timeout = '50ms'")
    sessions = [SteppedSession(*each) for each in enumerate(connections)]

    def lock(first: int, second: int) -> Callable[[SteppedSession], None]:
        def do(session: SteppedSession) -> None:
            with session.connection.transaction():
                for each in (first, second):
                    session.connection.execute("SELECT pg_advisory_xact_lock(%s)", [each])

        return do

    works = [lock(1, 2), lock(2, 1)]
    taken = Turns(sessions, observer).take(works, lambda free: free[0], lambda session: None)

    assert taken[:2] == [0, 0]
    assert [each.error for each in sessions] == [None, None]

    turns = iter([0, 0, 1, 1, 0, 1])
    Turns(sessions, observer).take(works, lambda free: next(turns, free[0]), lambda session: None)
    assert sum(isinstance(each.error, DeadlockDetected) for each in sessions) == 1


def test_two_claims_that_count_at_once_are_told_apart_by_the_lock(interleaver: Interleaver) -> None:
    # Each claim locks the gate, and counts, before the other one takes messages.
    text = "put:l:1 put:m:1 put:n:1 route | claim:limited / claim:limited @ 000111"
    schedule = Interleaving.parsed(text)

    assert not interleaver.run(schedule)
    with planted("gate without a lock"):
        assert set(interleaver.run(schedule)) == {"limit: 3 messages of limited ran at once"}


@pytest.mark.nightly
def test_a_schedule_is_shrunk_while_it_breaks_the_same_promise(interleaver: Interleaver) -> None:
    with planted("no fence"):
        found = interleaver.find(range(60, 560), NO_FENCE.split())
        assert found is not None

        small = interleaver.shrink(*found[1:])

        assert interleaver.run(small)
    assert len(small.before) + sum(map(len, small.sessions)) <= 6


def test_shrinking_leaves_out_all_that_does_not_matter() -> None:
    schedule = Interleaving.parsed("put:f:1 route | claim:free rescue / complete @ 0101100")

    small = shrunk(schedule, lambda each: "rescue" in each.sessions[0] and 1 in each.turns)

    assert str(small).split() == ["|", "rescue", "/", "@", "01"]


def test_a_lock_is_seen_and_others_go_on(interleaver: Interleaver) -> None:
    text = "put:f:2 | cancel:0! claim:free / cancel:0 / put:f:1 @ 00011110"

    assert not interleaver.run(Interleaving.parsed(text))
    # Session 1 waits for the lock of session 0, and leaves its turn to session 2.
    assert interleaver.taken[:7] == (0, 0, 0, 1, 1, 1, 2)


def test_a_schedule_is_repeated_by_its_text() -> None:
    for seed in range(50):
        schedule = Interleaving.of_seed(seed)
        assert Interleaving.parsed(str(schedule)) == schedule


def test_seeds_come_until_the_time_is_over() -> None:
    assert list(seeds_for(-1, first=3)) == []
    assert next(seeds_for(60, first=3)) == 3
