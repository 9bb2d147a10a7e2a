"""One `runworker` process empties a queue of tasks that ask Django's ORM one question each.

per_s              messages a second, as in `drain`, with CONN_MAX_AGE 0, Django's default
ceiling_…_per_s    a bare loop that claims, asks the same question through Django, and settles: on
                   one thread, and on as many as the worker has
of_ceiling         per_s ÷ the better of the two in the same round
"""

from tests.benchmarks.harness import ceiling, messages
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.tasks import look_up

SIZES = (20_000,)
THREADS = 8


def measure(*, messages: int, rounds: int) -> Report:
    """Compare the worker with the ceiling."""
    return repeat("orm", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    def store() -> None:
        messages.store(count, task=look_up.name)

    store()
    drained = drain(count, "--threads", str(THREADS), CONN_MAX_AGE="0")
    store()
    alone = ceiling.by_turns(count, run=look_up)
    store()
    together = ceiling.on_threads(count, THREADS, run=look_up)
    return Round(
        figures={
            "per_s": drained.per_s,
            "ceiling_alone_per_s": alone,
            "ceiling_on_threads_per_s": together,
        },
        ratios={"of_ceiling": drained.per_s / max(alone, together)},
    )
