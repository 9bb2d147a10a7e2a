"""One `runworker` process empties 10 000 lanes, whose messages run one at a time and in order.

per_s        messages a second, measured as in `drain`
free_per_s   the same messages, not ordered
of_free      per_s ÷ free_per_s
"""

from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.messages import store_evenly
from tests.benchmarks.harness.report import Report, Round, repeat

SIZES = (100_000,)
KEYS = 10_000


def measure(*, messages: int, rounds: int) -> Report:
    """Compare ordered messages with the same in no order."""
    return repeat("ordered", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    keys = min(KEYS, count)
    store_evenly(count, keys=keys)
    free = drain(count).per_s
    store_evenly(count, keys=keys, governed=True, ordered=True)
    ordered = drain(count).per_s
    return Round(figures={"per_s": ordered, "free_per_s": free}, ratios={"of_free": ordered / free})
