"""A worker empties the queue while another session holds an old snapshot.

The snapshot keeps every row and index entry that dies meanwhile. It is taken when the queue
is full and vacuumed, before the worker starts, and held to the end.

    pinned_per_s, unpinned_per_s   one `runworker` with and without it, measured as in `drain`
    ceiling_…_per_s                the bare loop, with the snapshot
    of_unpinned                    pinned_per_s ÷ unpinned_per_s
    of_ceiling                     pinned_per_s ÷ the better ceiling
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pgqueue.database.connections import connect
from tests.benchmarks.harness import ceiling
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.messages import store
from tests.benchmarks.harness.report import Report, Round, repeat

SIZES = (500_000,)


def measure(*, messages: int, rounds: int) -> Report:
    """Compare a worker with an old snapshot beside it and one without."""
    return repeat("pinned", _round, messages=messages, rounds=rounds)


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
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        # The first statement takes it, not BEGIN.
        session.execute("SELECT count(*) FROM pgqueue_history")
        yield
        session.execute("ROLLBACK")
