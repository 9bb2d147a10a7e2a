"""A process is killed with SIGKILL while it runs tasks: how long until others may have them.

child_s     one child of a `runworker --processes 2`: its parent knows, and need not wait for the
            lease, which is 30 s
worker_s    a whole `runworker` beside another one, which has to wait for the lease
lease_s     the lease in the latter

Both are counted by the database's clock: from the death, or from when the rescuer connected if
that was later, until all messages that it held were taken away from it.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from datetime import datetime

from pgqueue.database.sql_files import load
from tests.benchmarks.harness import messages as queue
from tests.benchmarks.harness import worker
from tests.benchmarks.harness.backends import told
from tests.benchmarks.harness.musts import LEASE_S
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import ask, session
from tests.benchmarks.harness.tasks import linger

SIZES = (16,)
SQL = load(__name__)
# Its tasks would keep it for a minute: they are handed back instead.
OPTIONS = ("runworker", "--grace", "0")


def measure(*, messages: int, rounds: int) -> Report:
    """Kill children and workers."""
    return repeat("recovery", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    with told(PGQUEUE_LEASE=str(LEASE_S)):
        worker_s = _worker_s(count)
    return Round(
        figures={"child_s": _child_s(count), "worker_s": worker_s, "lease_s": LEASE_S}, ratios={}
    )


def _child_s(count: int) -> float:
    _begin_afresh()
    with worker.running(*OPTIONS, "--processes", "2") as running:
        running.wait_until(lambda: _registered() == 2)
        return _kill_one(count, running, rescuer="pgqueue rescuer")


def _worker_s(count: int) -> float:
    _begin_afresh()
    with ExitStack() as stack:
        both = [stack.enter_context(worker.running(*OPTIONS)) for _ in range(2)]
        both[0].wait_until(lambda: _registered() == 2)
        # A worker that was connected for shorter than a lease rescues nothing.
        time.sleep(LEASE_S)
        return _kill_one(count, both[0], rescuer="pgqueue duties")


def _begin_afresh() -> None:
    queue.empty()
    session().execute(SQL["forget"])


def _kill_one(count: int, running: worker.Worker, *, rescuer: str) -> float:
    """Have all messages run, kill a process that holds some, and return the seconds."""
    linger.enqueue_many(() for _ in range(count))
    running.wait_until(lambda: _running() == count)
    pid, held = ask(SQL["victim"])
    died_at: datetime = ask(SQL["clock"])[0]
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + worker.PATIENCE
    while True:
        are_rescued, seconds = ask(
            SQL["rescued"], {"held": held, "died_at": died_at, "rescuer": rescuer}
        )
        if are_rescued:
            return float(seconds)
        if time.monotonic() > until:
            raise RuntimeError(f"No worker rescued the messages in {worker.PATIENCE:g} s.")
        time.sleep(0.005)


def _registered() -> int:
    count: int = ask(SQL["registered"])[0]
    return count


def _running() -> int:
    count: int = ask(SQL["running"])[0]
    return count
