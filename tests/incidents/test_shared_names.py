"""DBOS: a worker took the workflows of a draining worker away, which had the same name.

A pod of a StatefulSet comes back with its host's name, and its process has the number 1 again.
Another incident is of Hatchet: many workers beat at once, while the rows of dead ones are pruned.

Here the id of a worker is random, and it alone decides: host and process number are for people.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

from pgqueue.claiming.registration import LAST_BYTES, Registration
from pgqueue.engine import cancel, lease, notifications, settle, workers
from pgqueue.engine.workers import WorkerInfo
from pgqueue.models import Message, Worker
from tests.factories import Connection, Listening, claim, done, enqueue, one, register
from tests.stepping import Step

NAMED = WorkerInfo(
    host="queue-0", pid=1, started_at=datetime.now(UTC), channels=None, excluded=[], info={}
)
SOON = timedelta(seconds=20)
DAY = timedelta(days=1)


def registration() -> Registration:
    return Registration(NAMED, notify_for=SOON)


def rows() -> set[UUID]:
    return set(Worker.objects.values_list("pk", flat=True))


def age(connection: Connection, *ids: UUID) -> None:
    """Have these workers been silent for two days."""
    connection.execute(
        "UPDATE pgqueue_worker SET last_seen = last_seen - interval '2 days' WHERE id = ANY (%s)",
        [list(ids)],
    )


def test_a_worker_that_drains_keeps_its_messages_beside_a_successor_of_its_name(
    connection: Connection, other: Connection
) -> None:
    draining, successor = registration(), registration()
    old = draining.register(connection)
    enqueue(connection, 3)
    claims = claim(connection, worker_id=old)
    new = successor.register(other)
    cancelled = Listening(connection, notifications.listen_for_cancels)

    # The verbs of a successor, and the verbs of a supervisor after the successor's end.
    assert lease.rescue(other, max_lost=3) == []
    assert successor.former is None or not lease.give_back(other, *successor.former, known=[])
    cancel.cancel(other, [claims[0].id])
    successor.retire(other)
    last = UUID(int=new.int | LAST_BYTES)
    workers.bury(other, new, last)
    assert lease.rescue_from(other, new, last, max_lost=3) == []

    assert cancelled.heard() == [str(old)]
    assert rows() == {old}
    assert set(lease.extend(connection, claims, lease=SOON)) == {each.id for each in claims}
    assert len(settle.complete(connection, [done(each) for each in claims[1:]])) == 2


def test_a_pod_that_comes_back_while_its_row_is_pruned_has_a_row_of_its_own(
    connection: Connection, other: Connection, third: Connection
) -> None:
    gone, back = registration(), registration()
    old = gone.register(connection)
    age(connection, old)

    with connection.transaction():
        assert workers.forget(connection, silent_for=DAY) == 1
        new = back.register(other)  # it waits for nobody
        assert back.beat(other)

    assert rows() == {new}
    assert workers.forget(third, silent_for=DAY) == 0


def test_a_worker_whose_row_is_pruned_as_it_beats_enters_it_again(
    connection: Connection, other: Connection, step: Callable[..., Step]
) -> None:
    late = registration()
    old = late.register(connection)
    age(connection, old)

    with other.transaction():
        assert workers.forget(other, silent_for=DAY) == 1
        beating = step(lambda session: late.beat(session), connection)
        beating.waits()
    beating.result()

    assert rows() == {old}
    [row] = Worker.objects.values_list("host", "pid", "last_seen")
    assert row[:2] == ("queue-0", 1)
    assert datetime.now(UTC) - row[2] < timedelta(minutes=1)


def test_five_hundred_workers_beat_at_once_beside_a_purge_and_none_is_lost(
    connect: Callable[..., Connection], connection: Connection
) -> None:
    ids = [register(connection, notify_for=SOON) for _ in range(500)]
    dead = [register(connection) for _ in range(100)]
    age(connection, *dead)
    connection.execute("VACUUM ANALYZE pgqueue_worker")
    connection.execute("SELECT pg_stat_reset_single_table_counters('pgqueue_worker'::regclass)")

    def beat(seed: int) -> int:
        session = connect()
        mine = random.Random(seed).sample(ids, len(ids))
        return sum(workers.beat(session, each, notify_for=SOON) for each in mine)

    def prune() -> int:
        session = connect()
        return sum(
            workers.forget(session, silent_for=DAY) + workers.correct(session) for _ in range(50)
        )

    with ThreadPoolExecutor(5) as threads:
        beats = [threads.submit(beat, seed) for seed in range(4)]
        pruned = threads.submit(prune)

    assert [each.result() for each in beats] == [500] * 4
    assert pruned.result() == 100
    assert rows() == set(ids)
    connection.execute("VACUUM pgqueue_worker")
    [pages] = one(connection, "SELECT pg_relation_size('pgqueue_worker') / 8192")
    assert pages < 100, "each beat left a page behind"


def test_an_enqueue_looks_at_no_more_of_five_hundred_workers_than_of_one(
    connection: Connection,
) -> None:
    """Hatchet's tasks and heartbeats met at the rows of workers. An enqueue reads the first."""
    looks = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT pgqueue_tell_v1('default')"
    for _ in range(500):
        register(connection, notify_for=SOON)
    connection.execute("VACUUM ANALYZE pgqueue_worker")
    connection.execute(looks)  # which plans it

    [[plan]] = one(connection, looks)

    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 20
    assert Message.objects.count() == 0
