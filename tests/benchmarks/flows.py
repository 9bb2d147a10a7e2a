"""Many messages, and one that waits for all of them; and a chain, step by step.

per_s                one `runworker` empties a queue of a chord: `messages` members that do nothing,
                     and a callback that waits for them, as `drain` measures it
plain_per_s          the same number of messages that are of no flow
store_s              to store the chord in one transaction
chord_of_drain       per_s ÷ plain_per_s of the same round
last_to_callback_ms  from the end of the last member to the start of the callback, which takes no
                     results: the median of the medians of each round's chords
results_ms           the same where the callback takes what all members return
chain_step_ms        on an idle queue, from the end of a step to the start of the next: the median
                     of `STEPS` steps
…_chord_per_s        chords of 1 000 members, one after another, as `peers` measures them; where
                     Celery is installed and there is a Redis
chord_of_celery_redis
"""

import shutil
import time
from importlib.util import find_spec
from statistics import median

from pgqueue import flow
from testproject.shop.tasks import nothing
from tests.benchmarks.harness import messages, worker
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import session, settle_down
from tests.benchmarks.harness.tasks import gather
from tests.benchmarks.peers.rounds import measuring

SIZES = (100_000,)
CHORDS = 4
"""In each round: twelve in a run of three rounds."""
STEPS = 200

LAST_TO_CALLBACK = """
SELECT extract(epoch FROM c.started_at - max(h.finished_at))::float8 * 1000
FROM pgqueue_history c JOIN pgqueue_history h ON h.id <> c.id
WHERE c.id = %s GROUP BY c.started_at
"""
STEP = """
SELECT extract(epoch FROM c.started_at - p.finished_at)::float8 * 1000
FROM pgqueue_dependency d
JOIN pgqueue_history c ON c.id = d.child_id
JOIN pgqueue_history p ON p.id = d.parent_id
"""


def measure(*, messages: int, rounds: int) -> Report:
    """Compare a chord with messages of no flow, and with Celery's."""
    if find_spec("celery") is None or shutil.which("redis-server") is None:
        return repeat("flows", _round, messages=messages, rounds=rounds)
    with measuring(["celery"], only=["chord"], finished=0) as (beside_celery, remarks):

        def both(count: int) -> Round:
            return _joined(_round(count), beside_celery.measure(count))

        return repeat("flows", both, messages=messages, rounds=rounds, remarks=remarks)


def _joined(one: Round, other: Round) -> Round:
    return Round(
        figures={**one.figures, **other.figures},
        ratios={**one.ratios, **other.ratios},
        remarks={**one.remarks, **other.remarks},
    )


def _round(count: int) -> Round:
    stored, of_chord, last = [], [], []
    for _ in range(CHORDS):
        seconds, callback = _store_chord(count)
        of_chord.append(drain(count + 1).per_s)
        stored.append(seconds)
        last += [each for (each,) in session().execute(LAST_TO_CALLBACK, [callback])]
    messages.store(count + 1)
    plain = drain(count + 1).per_s
    _, callback = _store_chord(count, takes_results=True)
    drain(count + 1)
    [(results,)] = session().execute(LAST_TO_CALLBACK, [callback]).fetchall()
    return Round(
        figures={
            "per_s": median(of_chord),
            "plain_per_s": plain,
            "store_s": median(stored),
            "last_to_callback_ms": median(last),
            "results_ms": results,
            "chain_step_ms": _chain_step(),
        },
        ratios={"chord_of_drain": median(of_chord) / plain},
    )


def _store_chord(count: int, *, takes_results: bool = False) -> tuple[float, int]:
    """Have exactly one chord; return how many seconds that took, and the callback's id."""
    _empty()
    began = time.perf_counter()
    with flow("chord") as f:
        members = f.enqueue_many(nothing, [()] * count)
        last = f.enqueue(gather, members) if takes_results else f.enqueue(nothing, after=members)
    seconds = time.perf_counter() - began
    settle_down()
    return seconds, last.message_id


def _empty() -> None:
    messages.empty()
    session().execute(
        "TRUNCATE pgqueue_flow, pgqueue_dependency, pgqueue_blocked, pgqueue_failed_member"
    )


def _chain_step() -> float:
    _empty()
    with worker.running() as running:
        running.wait_until(worker.is_idle)
        with flow("chain") as f:
            step = f.enqueue(nothing)
            for _ in range(STEPS):
                step = f.enqueue(nothing, after=step)
        running.wait_until(lambda: messages.ended()[0] == STEPS + 1)
    return median(each for (each,) in session().execute(STEP))
