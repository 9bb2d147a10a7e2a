"""One `runworker` process empties a queue of tasks that do nothing, and writes history.

per_s              messages a second, from the worker's first claim to its last settle;
                   `harness/draining.py` tells by which clocks
startup_s          from starting the process to that first claim; not counted in per_s
rss_mb             the most memory that the worker had (VmHWM), in MB of a million bytes
ceiling_…_per_s    the bare loop of `harness/ceiling.py`, in two ways, from before its
                   first claim until its last settle returned
of_ceiling         per_s ÷ the better of the two in the same round
wal_bytes_per_message
                   from the enqueue to the row in history
"""

from tests.benchmarks.harness import ceiling, messages
from tests.benchmarks.harness.costs import written
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.report import Report, Round, repeat

SIZES = (200_000, 1_000_000)
"""The second shows that memory does not grow with the queue."""


def measure(*, messages: int, rounds: int) -> Report:
    """Compare the worker with the ceiling."""
    return repeat("drain", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    wal = written()
    messages.store(count)
    drained = drain(count)
    wal = written() - wal
    messages.store(count)
    by_turns = ceiling.by_turns(count)
    messages.store(count)
    ahead = ceiling.ahead(count)
    return Round(
        figures={
            "per_s": drained.per_s,
            "startup_s": drained.startup_s,
            "rss_mb": drained.rss_mb,
            "wal_bytes_per_message": wal / count,
            "ceiling_by_turns_per_s": by_turns,
            "ceiling_ahead_per_s": ahead,
        },
        ratios={"of_ceiling": drained.per_s / max(by_turns, ahead)},
    )
