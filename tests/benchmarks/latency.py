"""An idle queue, and messages at random gaps: how long from enqueue to start.

The same gaps, 20 to 300 ms, for both of:

    p50_ms, p99_ms     a `runworker` that listens: from `created_at` to `started_at` of its history.
                       Both come from the database's clock; the worker adds to its claim's
                       what it waited for a thread. created_at is when the insert began, so
                       its commit is in; the claim's own statement is not.
    max_ms             the slowest of them
    ceiling_…_ms       a bare loop that listens, claims and settles at once
    of_ceiling         the ceiling's p50 ÷ p50_ms
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from statistics import quantiles
from threading import Event, Thread
from uuid import UUID, uuid4

from pgqueue.database.connections import connect
from pgqueue.engine import notifications, workers
from pgqueue.engine.values import Connection
from pgqueue.engine.workers import WorkerInfo
from testproject.shop.tasks import nothing
from tests.benchmarks.harness import ceiling, messages, worker
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import session

SIZES = (200,)
GAPS = 0.02, 0.3  # seconds


def measure(*, messages: int, rounds: int) -> Report:
    """Compare the worker with a bare loop that listens."""
    return repeat("latency", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    messages.empty()
    with worker.running() as running:
        running.wait_until(worker.is_idle)
        _enqueue(count)
        running.wait_until(lambda: messages.ended()[0] == count)
    ours = _delays()
    messages.empty()
    with _bare_listener():
        _enqueue(count)
        _wait_for(count)
    bare = _delays()
    return Round(
        figures={
            "p50_ms": _percentile(ours, 50),
            "p99_ms": _percentile(ours, 99),
            "max_ms": max(ours),
            "ceiling_p50_ms": _percentile(bare, 50),
            "ceiling_p99_ms": _percentile(bare, 99),
        },
        ratios={"of_ceiling": _percentile(bare, 50) / _percentile(ours, 50)},
    )


def _enqueue(count: int) -> None:
    gaps = random.Random(count)
    for _ in range(count):
        time.sleep(gaps.uniform(*GAPS))
        nothing.enqueue()


def _wait_for(count: int) -> None:
    until = time.monotonic() + worker.PATIENCE
    while messages.ended()[0] < count:
        if time.monotonic() > until:
            raise RuntimeError("The bare loop missed messages.")
        time.sleep(0.02)


def _delays() -> list[float]:
    """Return milliseconds from enqueue to start."""
    rows = session().execute(
        "SELECT extract(epoch FROM started_at - created_at)::float8 * 1000 FROM pgqueue_history"
    )
    return [delay for (delay,) in rows]


def _percentile(delays: list[float], percent: int) -> float:
    return quantiles(delays, n=100, method="inclusive")[percent - 1]


@contextmanager
def _bare_listener() -> Iterator[None]:
    """Claim and settle at every notification, in a thread of this process."""
    stopping = Event()
    with connect("default", name="ceiling") as session:
        worker_id = _ask_for_notice(session)

        def work() -> None:
            claims = ceiling.Claims(session)
            while not stopping.is_set():
                for _ in session.notifies(timeout=0.1, stop_after=1):
                    pass
                for rows in claims:
                    ceiling.complete(session, rows)

        thread = Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
            workers.retire(session, worker_id)


def _ask_for_notice(session: Connection) -> UUID:
    """Enter a worker's row, as the enqueue statement looks for one that is idle; return its id."""
    notifications.listen(session)
    worker_id = uuid4()
    info = WorkerInfo(
        host="ceiling", pid=0, started_at=datetime.now(UTC), channels=None, excluded=[], info={}
    )
    workers.register(session, worker_id, info, before=None)
    workers.beat(session, worker_id, notify_for=timedelta(hours=1))
    return worker_id
