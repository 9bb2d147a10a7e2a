"""Durable tasks: their steps, their waits, and other tasks beside them.

workflows_per_s        tasks of three steps that do nothing, by a `runworker` of two processes
step_ms                a step on an idle queue: the median of `STEPS` in one run
atomic_step_ms         the same where each step inserts a row by Django's ORM, in its transaction
step_of_ceiling        a bare INSERT, fenced by a running message, and its commit ÷ step_ms
signal_to_run_ms       from a signal to the start of the run that takes it, on an idle queue: median
event_to_run_ms        the same from an event, which the sequencer and the dispatch pass on
wake_per_s             sleepers that are due at once, `SLEEPERS` for each workflow
drain_beside_sleepers  a drain of tasks that do nothing, beside `ASLEEP` sleeping and `WAITING`
                       waiting runs for each workflow ÷ the drain alone
"""

import time
from statistics import median

from pgqueue import publish, signal
from pgqueue.database.sql_files import load
from pgqueue.states import State
from tests.benchmarks.harness import messages, worker
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.durable import (
    EVENT,
    sleeps,
    steps,
    three_steps,
    waits,
    waits_for_event,
)
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import ask, session, settle_down

SQL = load(__name__)
SIZES = (2_000,)
STEPS = 500
WAITS = 50
SLEEPERS = 50
ASLEEP = 500
WAITING = 50
DRAINED = 50


def measure(*, messages: int, rounds: int) -> Report:
    """Measure workflows, steps, waits and sleepers."""
    return repeat("durable", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    _empty()
    messages.store(count, task=three_steps.name)
    workflows = drain(count, "--processes", "2").per_s
    step, atomic_step = _step_ms(atomic=False), _step_ms(atomic=True)
    bare = _bare_step_ms()
    alone = _drained(count)
    _store(count * ASLEEP, sleeps.name, State.SCHEDULED, "sleep", "1 year")
    _store(count * WAITING, waits.name, State.HELD, "signal", "0")
    beside = _drained(count)
    _empty()
    _store(count * SLEEPERS, sleeps.name, State.SCHEDULED, "sleep", "0")
    woken = drain(count * SLEEPERS).per_s
    return Round(
        figures={
            "workflows_per_s": workflows,
            "step_ms": step,
            "atomic_step_ms": atomic_step,
            "signal_to_run_ms": _since_signal(),
            "event_to_run_ms": _since_event(),
            "wake_per_s": woken,
        },
        ratios={"step_of_ceiling": bare / step, "drain_beside_sleepers": beside / alone},
    )


def _empty() -> None:
    session().execute(SQL["empty"])
    messages.empty()


def _store(count: int, task: str, state: str, kind: str, after: str) -> None:
    """Store runs that sleep, or wait for a signal."""
    given = {"task": task, "state": str(state), "kind": kind, "after": after, "count": count}
    session().execute(SQL["store"], given)
    settle_down()


def _drained(count: int) -> float:
    """Return how fast tasks are drained that do nothing, beside what else is stored."""
    session().execute(SQL["forget"])
    given = {"channel": messages.CHANNEL, "count": count * DRAINED}
    session().execute(SQL["store_beside"], given)
    settle_down()
    return drain(count * DRAINED).per_s


def _step_ms(*, atomic: bool) -> float:
    """Return the median of the steps of one run."""
    _empty()
    with worker.running() as running:
        running.wait_until(worker.is_idle)
        result = steps.enqueue(STEPS, atomic)
        running.wait_until(lambda: messages.ended()[0] == 1)
    result.refresh()
    return 1000 * float(result.return_value)


def _bare_step_ms() -> float:
    """Return the median of a fenced INSERT, one after the other."""
    _empty()
    connection = session()
    connection.execute(SQL["bare_table"])
    [(id,)] = connection.execute(SQL["bare_message"]).fetchall()
    took = []
    for number in range(STEPS):
        began = time.perf_counter()
        connection.execute(SQL["fenced"], {"number": number, "id": id})
        took.append(time.perf_counter() - began)
    connection.execute("DROP TABLE bench_step")
    return 1000 * median(took)


def _since_signal() -> float:
    _empty()
    with worker.running() as running:
        results = waits.enqueue_many([()] * WAITS)
        running.wait_until(lambda: _waiting("signal") == WAITS)
        for number, result in enumerate(results, start=1):
            running.wait_until(_is_idle)
            signal(result, "go")
            running.wait_until(lambda number=number: messages.ended()[0] == number)
    return median(ms for (ms,) in session().execute(SQL["since_signal"]))


def _since_event() -> float:
    _empty()
    with worker.running() as running:
        waits_for_event.enqueue_many([(str(number),) for number in range(WAITS)])
        running.wait_until(lambda: _waiting("event") == WAITS)
        for number in range(WAITS):
            running.wait_until(_is_idle)
            publish(EVENT, {}, key=str(number))
            running.wait_until(lambda number=number: messages.ended()[0] == number + 1)
    return median(ms for (ms,) in session().execute(SQL["since_event"]))


def _waiting(kind: str) -> int:
    """Return how many runs are suspended."""
    [(number,)] = session().execute(SQL["waiting"], {"kind": kind}).fetchall()
    return int(number)


def _is_idle() -> bool:
    """Return whether a worker waits for notices, whatever runs wait for."""
    return bool(ask(SQL["idle"])[0])
