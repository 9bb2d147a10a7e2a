"""A worker empties the queue while another session holds an old snapshot.

The snapshot keeps every row and index entry that dies meanwhile. The session takes it when the
queue is full and vacuumed, before the worker starts, and holds it to the end.

    pinned_per_s                   one `runworker` beside the snapshot, measured as in `drain`
    unpinned_per_s                 one `runworker` alone
    ceiling_…_per_s                the bare loop, with the snapshot
    of_unpinned                    pinned_per_s ÷ unpinned_per_s
    of_ceiling                     pinned_per_s ÷ the better ceiling

With `--minutes`, a producer keeps a rate, for a third of the time each: 800 messages a second, and
2 000, beside one snapshot that stays; then 2 000 beside four scanners, whose transactions overlap.

    per_s_…                        messages a second that were enqueued
    depth_…                        the most messages that waited at one moment
    p99_ms_…                       from the enqueue to the start
    wal_bytes_…                    for each message, with all that the server wrote meanwhile
    dead_…                         rows by table, at the end
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pgqueue.database.connections import connect
from tests.benchmarks.harness import ceiling, messages, worker
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.messages import store
from tests.benchmarks.harness.pacing import Paced, paced
from tests.benchmarks.harness.report import Report, Round, repeat

SIZES = (500_000,)
RATES = 800, 2_000
SCANNERS = 4
LONGEST_SCAN = 60.0  # seconds


def measure(*, messages: int, rounds: int) -> Report:
    """Compare a worker with an old snapshot beside it and one without."""
    return repeat("pinned", _round, messages=messages, rounds=rounds)


def measure_for(*, minutes: float, rounds: int) -> Report:
    """Look whether a rate is kept beside old snapshots, for so many minutes."""
    return repeat(
        "pinned", lambda _: _long_round(minutes * 60), messages=0, rounds=rounds, minutes=minutes
    )


def _long_round(seconds: float) -> Round:
    messages.empty()
    each = seconds / (len(RATES) + 1)
    found: dict[str, Paced] = {}
    with worker.running() as running:
        running.wait_until(worker.is_idle)
        with _snapshot():
            for rate in RATES:
                found[str(rate)] = paced(rate, seconds=each)
        with _scanners(lasting=min(LONGEST_SCAN, each / 3)):
            found["scanned"] = paced(RATES[-1], seconds=each)
    figures: dict[str, float] = {}
    for name, phase in found.items():
        figures |= {
            f"per_s_{name}": phase.per_s,
            f"depth_{name}": phase.depth,
            f"p99_ms_{name}": phase.p99_ms,
            f"wal_bytes_{name}": phase.wal,
            **{f"dead_{table}_{name}": count for table, count in phase.dead.items()},
        }
    return Round(figures=figures, ratios={})


def _round(count: int) -> Round:
    store(count)
    unpinned = drain(count)
    store(count)
    with _snapshot():
        pinned = drain(count)
    store(count)
    with _snapshot():
        by_turns = ceiling.by_turns(count)
    store(count)
    with _snapshot():
        ahead = ceiling.ahead(count)
    return Round(
        figures={
            "pinned_per_s": pinned.per_s,
            "unpinned_per_s": unpinned.per_s,
            "ceiling_by_turns_per_s": by_turns,
            "ceiling_ahead_per_s": ahead,
        },
        ratios={
            "of_unpinned": pinned.per_s / unpinned.per_s,
            "of_ceiling": pinned.per_s / max(by_turns, ahead),
        },
    )


@contextmanager
def _snapshot() -> Iterator[None]:
    """Hold a snapshot in a session of its own."""
    with connect("default", name="snapshot") as session:
        # The timeout is for a worker that is stuck: it would end this transaction after 30 s.
        session.execute("SET idle_in_transaction_session_timeout = 0")
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        # The first statement takes it, not BEGIN.
        session.execute("SELECT count(*) FROM pgqueue_history")
        yield
        session.execute("ROLLBACK")


@contextmanager
def _scanners(*, lasting: float) -> Iterator[None]:
    """Have readers whose transactions begin one after another, and last for so many seconds."""
    stopping = threading.Event()

    def scan(number: int) -> None:
        stopping.wait(lasting * number / SCANNERS)
        while not stopping.is_set():
            with _snapshot():
                stopping.wait(lasting)

    with ExitStack() as stack:
        for number in range(SCANNERS):
            thread = threading.Thread(target=scan, args=[number], name=f"scanner {number}")
            thread.start()
            stack.callback(thread.join)
        stack.callback(stopping.set)
        yield
