"""Solid Queue: a worker whose heartbeat alone was late gave its place away again and again.

Its heartbeat waited for a lock longer than a lease. Another worker took its jobs. When the first
worker ended them, it released semaphores that were no longer its own: a limit of 1 became 11.

Here running messages are counted, so a late end has no place to give back: the fence refuses it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pgqueue.engine import lease, promote, settle
from pgqueue.engine.settle import Deferral, Finish
from pgqueue.engine.values import Claim
from pgqueue.models import Blocked, History, Lane, Message
from tests.claims import GovernedClaims
from tests.engine.flow_graphs import Graph
from tests.eventually import eventually
from tests.factories import OVER, Connection, done, enqueue, failure, limit, make_due, store
from tests.incidents import tasks
from tests.processes import Process, own_connections, worker

KEY = "customer"
ROUNDS = 11
DELAY = timedelta(hours=1)


def end_atomically(session: Connection, late: Claim) -> set[int]:
    """Do what an atomic task does that begins late: it locks its own row first."""
    with session.transaction():
        held = {late.id} if lease.lock(session, late) else set()
        return held | settle.complete(session, [done(late)])


def end_in_a_batch(session: Connection, late: Claim) -> set[int]:
    """Do what a batch does: it locks all rows of the batch, and settles them together."""
    with session.transaction():
        locks = lease.lock_all(session, [late], patience="500ms")
        return set(locks) | settle.complete(session, [done(late)] * 2)


ENDS: dict[str, Callable[[Connection, Claim], Any]] = {
    "complete": lambda session, late: settle.complete(session, [done(late)]),
    "retry": lambda session, late: settle.retry(session, [failure(late, delay=DELAY)]),
    "bury": lambda session, late: settle.bury(session, [failure(late)]),
    "defer": lambda session, late: settle.defer(session, [Deferral(late, DELAY)]),
    "release": lambda session, late: settle.release(session, [late]),
    "finish": lambda session, late: settle.finish(session, [Finish(late, "discarded", None, 0.0)]),
    "complete atomically": end_atomically,
    "complete in a batch": end_in_a_batch,
    "checkpoint": lambda session, late: lease.checkpoint(session, late, progress="1") or set(),
    "renew": lambda session, late: lease.extend(session, [late], lease=DELAY),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_late_end_frees_no_place_however_often_it_comes(
    connection: Connection, other: Connection, third: Connection, end: str
) -> None:
    """With a limit and a rate of the key and of the channel, in a flow, and with a dedupe key."""
    for scope in ("channel", "each"):
        limit(scope=scope, max_running=1, rate=1000, burst=100)
    graph = Graph(connection, {"p": "", "c": "p"}, key=KEY)
    Message.objects.filter(pk=graph.ids["p"]).update(dedupe_key="once")
    enqueue(connection, 2 * ROUNDS, key=KEY)
    workers = [GovernedClaims(each, lease=OVER) for each in (other, third)]
    [late] = workers[1].claim(100)
    assert late.id == graph.ids["p"]

    for number in range(ROUNDS):
        lease.rescue(connection, max_lost=1000)
        make_due(connection, [late.id])
        promote.promote(connection)
        [again] = workers[number % 2].claim(100)
        starts = Lane.objects.get(key=KEY).tat

        settled = ENDS[end](third if number % 2 else other, late)

        assert (again.id, again.attempt) == (late.id, late.attempt + 1)
        assert not settled, "the end of a run that lost its lease was stored"
        assert workers[0].claim(100) == workers[1].claim(100) == []
        assert Message.objects.filter(state="running").count() == 1
        assert Lane.objects.get(key=KEY).tat == starts
        assert Blocked.objects.filter(pk=graph.ids["c"]).exists()
        store(connection, KEY, payloads=["{}"], dedupe_keys=["once"])
        assert Message.objects.filter(dedupe_key="once").count() == 1
        late = again

    settle.complete(connection, [done(late)])
    assert len(workers[0].claim(100)) == 1, "the end of the run that has the lease frees one place"


def test_a_late_end_among_others_keeps_them_from_nothing(
    connection: Connection, other: Connection
) -> None:
    limit(max_running=1)
    enqueue(connection, 2, key=KEY)
    enqueue(connection, 2, key="another")
    claims = GovernedClaims(connection, lease=OVER)
    late = {each.key: each for each in claims.claim(100)}
    # The heartbeat renewed this one, and was blocked before the next.
    lease.extend(connection, [late["another"]], lease=DELAY)
    lease.rescue(connection, max_lost=1000)
    [again] = GovernedClaims(other).claim(100)

    settled = settle.complete(connection, [done(each) for each in late.values()])

    assert settled == {late["another"].id}
    assert (again.id, again.key) == (late[KEY].id, KEY)
    assert [each.key for each in claims.claim(100)] == ["another"]


@contextmanager
def heartbeat_blocked() -> Iterator[None]:
    """Stop the server's process of the one heartbeat that there is, and nothing else."""
    pid = own_connections()["heartbeat"]
    if not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"postgres:"):
        pytest.skip("the server is on another machine")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def begun(folder: Path) -> set[tuple[int, int]]:
    """Return the runs that have begun: the ids of messages, and attempts."""
    names = [each.name.split() for each in folder.glob("* began")]
    return {(int(id), int(attempt)) for id, attempt, _ in names}


def let_end(folder: Path, id: int, attempt: int) -> None:
    (folder / f"{id} {attempt} may end").touch()


def is_fenced(process: Process) -> bool:
    return "the lease was lost" in process.log


@pytest.mark.slow
@pytest.mark.parametrize("task", [tasks.gated, tasks.gated_in_batches], ids=lambda each: each.name)
def test_a_worker_whose_heartbeat_is_blocked_by_a_lock_ends_late_and_starts_nothing_more(
    other: Connection, tmp_path: Path, task: Any
) -> None:
    """Nothing else of it is blocked: it claims, runs and settles."""
    limit(max_running=1)
    ids = [int(task.using(key=KEY).enqueue(str(tmp_path)).id) for _ in range(3)]
    with worker("--threads", "4", lease=1) as first:
        eventually(lambda: begun(tmp_path) == {(ids[0], 1)})
        with heartbeat_blocked(), worker("--threads", "4", lease=1) as second:
            eventually(lambda: begun(tmp_path) == {(ids[0], 1), (ids[0], 2)}, within=30)

            let_end(tmp_path, ids[0], 1)
            eventually(lambda: is_fenced(first))

            assert GovernedClaims(other).claim(100) == []
            assert begun(tmp_path) == {(ids[0], 1), (ids[0], 2)}
            (tmp_path / "all may end").touch()
            eventually(lambda: History.objects.count() == 3)

    assert set(History.objects.values_list("id", "outcome")) == {(id, "succeeded") for id in ids}
    assert not is_fenced(second)
