"""Producers: one message by one, in bulk, and 32 clients that commit one each.

one_by_one_per_s     `nothing.enqueue()`, a commit each; one client, no worker
bulk_per_s           `nothing.enqueue_many()`, one transaction
ceiling_…_per_s      bare psycopg loops that do the same with a plain INSERT, or one COPY of
                     ready-made lines: no results, no ids, nothing to notify
clients_…_per_s      pgbench, 32 clients on 2 threads, the statement that `enqueue()` sends,
                     parsed and planned each time as Django's connections do by default
  idle               beside a worker that was idle and listening; it runs what comes
  busy               beside one that has a backlog of tasks of 20 ms, and so takes no
                     processor to speak of; it went idle first and withdrew its
                     `notify_until` when it found work, which is checked before and after
  silent             beside the same busy worker, the function that notifies doing nothing
of_ceiling           bulk_per_s ÷ ceiling_bulk_per_s
one_by_one_of_ceiling, idle_of_silent, busy_of_silent
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgqueue.database.connections import connect
from pgqueue.tasks import Task
from testproject.shop.tasks import nothing
from tests.benchmarks.harness import messages, worker
from tests.benchmarks.harness.pgbench import transactions_per_s
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import ask, session
from tests.benchmarks.harness.tasks import dawdle

SIZES = (200_000,)
CLIENTS = 32
BATCH = 1000
INSERT = """
    INSERT INTO pgqueue_message (channel, task, payload, state, max_attempts)
    VALUES (%s, %s, %s, %s, %s)
"""
COPY = "COPY pgqueue_message (channel, task, payload, state, max_attempts) FROM STDIN"


def measure(*, messages: int, rounds: int) -> Report:
    """Compare producers with plain inserts, and with ones that notify no worker."""
    return repeat("enqueue", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    one_by_one = max(1, count // 100)
    figures = {
        "one_by_one_per_s": _rate(_one_by_one, one_by_one),
        "ceiling_one_by_one_per_s": _rate(_bare_one_by_one, one_by_one),
        "bulk_per_s": _rate(_bulk, count),
        "ceiling_bulk_per_s": _rate(_bare_bulk, count),
        # Long enough for a hundred thousand messages, at what a small machine reaches.
        **_clients(seconds=max(1, count // 50_000)),
    }
    return Round(
        figures=figures,
        ratios={
            "of_ceiling": figures["bulk_per_s"] / figures["ceiling_bulk_per_s"],
            "one_by_one_of_ceiling": figures["one_by_one_per_s"]
            / figures["ceiling_one_by_one_per_s"],
            "idle_of_silent": figures["clients_idle_per_s"] / figures["clients_silent_per_s"],
            "busy_of_silent": figures["clients_busy_per_s"] / figures["clients_silent_per_s"],
        },
    )


def _rate(store: Callable[[int], None], count: int) -> float:
    messages.empty()
    began = time.monotonic()
    store(count)
    return count / (time.monotonic() - began)


def _one_by_one(count: int) -> None:
    for _ in range(count):
        nothing.enqueue()


def _bulk(count: int) -> None:
    nothing.enqueue_many(() for _ in range(count))


def _bare_one_by_one(count: int) -> None:
    with connect("default", name="ceiling") as session:
        for _ in range(count):
            session.execute(INSERT, _columns())


def _bare_bulk(count: int) -> None:
    line = "\t".join(map(str, _columns())) + "\n"
    with connect("default", name="ceiling") as session, session.cursor().copy(COPY) as copy:
        for stored in range(0, count, BATCH):
            copy.write(line * min(BATCH, count - stored))


def _columns() -> list[object]:
    return [messages.CHANNEL, nothing.name, nothing.codec.encode((), {}), "ready", 5]


def _clients(*, seconds: int) -> dict[str, float]:
    loud, slow = _statement(nothing), _statement(dawdle)
    messages.empty()
    with worker.running() as running:
        running.wait_until(worker.is_idle)
        idle = _commit(loud, seconds)
        running.wait_until(worker.is_idle)

        # What ended in its last second, it would claim at once, and find nothing more.
        time.sleep(1.5)
        # Idle once more; now a backlog, which the clients themselves keep from running out.
        dawdle.enqueue_many(() for _ in range(2000))
        running.wait_until(worker.is_busy)
        # To and fro, so that what grows or disturbs meanwhile weighs on both alike.
        busy, silent = [], []
        for _ in range(4):
            busy.append(_commit(slow, max(1, seconds // 2)))
            with _silence():
                silent.append(_commit(slow, max(1, seconds // 2)))
        if not worker.is_busy():
            raise RuntimeError("The worker was not busy to the end.")
    return {
        "clients_idle_per_s": idle,
        "clients_busy_per_s": median(busy),
        "clients_silent_per_s": median(silent),
    }


def _commit(statement: str, seconds: int) -> float:
    return transactions_per_s(statement, clients=CLIENTS, seconds=seconds)


def _statement(task: Task[[], None]) -> str:
    """Return what enqueueing sends, values and all."""
    with CaptureQueriesContext(connection) as queries:
        task.enqueue()
    [query] = queries
    return str(query["sql"])


@contextmanager
def _silence() -> Iterator[None]:
    """Have no worker notified while this lasts: enqueueing goes without what notifies."""
    [definition] = ask("SELECT pg_get_functiondef('pgqueue_enqueue_now_v1'::regproc)")
    waits = "w.notify_until > clock_timestamp()"
    if definition.count(waits) != 1:
        raise RuntimeError("An enqueue asks otherwise by now whether a worker waits.")
    session().execute(definition.replace(waits, "false"))
    try:
        yield
    finally:
        session().execute(definition)
