"""Async tasks that wait a second each, all at once in one process: what waiting costs.

s         from the first claim to the last settle of a `runworker --async N` with as many places
          as there are tasks, by the clocks of `harness/draining.py`; 1 is the least there can be
rss_mb    the most memory that the worker had (VmHWM), in MB of a million bytes
"""

from tests.benchmarks.harness import messages as queue
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.tasks import doze

SIZES = (1_000,)


def measure(*, messages: int, rounds: int) -> Report:
    """Run them all at once."""
    return repeat("sleepers", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    queue.store(count, task=doze.name)
    drained = drain(count, "--async", str(count))
    return Round(figures={"s": count / drained.per_s, "rss_mb": drained.rss_mb}, ratios={})
