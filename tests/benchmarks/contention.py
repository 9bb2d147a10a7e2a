"""32 sessions claim and settle the messages of one lane: the share of their time by wait event.

percent_client     the server waits for the client, which claims or settles next
percent_cpu        the session runs, or wants to run: PostgreSQL does not tell these apart
percent_…          the wait event, such as `lwlock_walwrite`: by its type and name in PostgreSQL
claims_per_s       claims of up to 10 messages by all sessions, each settled at once
per_s              their messages
locks              the most locks that one session held in a sample
worker_us          processor time of one `runworker` for each message that does nothing
server_us          the same of all processes of PostgreSQL; only on this machine
wal_bytes          for each message that the worker drains

The shares are of samples of pg_stat_activity, one every 50 ms. The clients share the cores with the
server. docs/scale.md has a model of these costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace

from pgqueue.database.sql_files import load
from tests.benchmarks.harness import messages as queue
from tests.benchmarks.harness.costs import costs
from tests.benchmarks.harness.database import ROOT
from tests.benchmarks.harness.machine import machine
from tests.benchmarks.harness.report import Report, Round, report_of
from tests.benchmarks.harness.session import ask, session

SQL = load("tests.benchmarks.harness.claimers")
SIZES = (200_000,)
PROCESSES = 4
THREADS = 8
LIMIT = 10
EVERY = 0.05  # seconds
LOCKS_EVERY = 20
"""Samples between two looks at the locks, which every session has to wait for."""
PATIENCE = 600.0  # seconds


def measure(*, messages: int, rounds: int) -> Report:
    """Sample what 32 claimers wait for, and measure the costs of a message."""
    on = machine()
    done = []
    for number in range(1, rounds + 1):
        print(f"contention ({messages} messages): round {number} of {rounds}", file=sys.stderr)
        done.append(_round(messages))
    return report_of("contention", completed(done), on=on, messages=messages)


def completed(rounds: Iterable[Round]) -> list[Round]:
    """Return the rounds with 0 for each wait event that only another round has met."""
    found = list(rounds)
    events = {name: 0.0 for each in found for name in each.figures if name.startswith("percent_")}
    return [replace(each, figures={**events, **each.figures}) for each in found]


def _round(count: int) -> Round:
    queue.store(count)
    waits: Counter[str] = Counter()
    with ExitStack() as stack:
        processes = [stack.enter_context(_claimers()) for _ in range(PROCESSES)]
        for each in processes:
            _line_of(each)
        for each in processes:
            assert each.stdin
            each.stdin.write("go\n")
            each.stdin.flush()
        locks = _sample(processes, waits)
        found = [json.loads(_line_of(each)) for each in processes]
    claims, done = (sum(each[index] for each in found) for index in (0, 1))
    took = max(seconds for *_, seconds in found)
    if done != count:
        raise RuntimeError(f"The sessions settled {done} of {count} messages.")
    shares = {f"percent_{name}": 100 * n / waits.total() for name, n in waits.items()}
    return Round(
        figures={
            **dict(sorted(shares.items())),
            "claims_per_s": claims / took,
            "per_s": done / took,
            "locks": locks,
            **costs(count),
        },
        ratios={},
    )


def _sample(processes: Iterable[subprocess.Popen[str]], waits: Counter[str]) -> int:
    """Sample until all processes have ended; return the most locks of a session."""
    most, number = 0, 0
    until = time.monotonic() + PATIENCE
    while any(each.poll() is None for each in processes):
        if time.monotonic() > until:
            raise RuntimeError(f"The sessions did not end within {PATIENCE:g} s.")
        waits.update(dict(session().execute(SQL["waits"]).fetchall()))
        if number % LOCKS_EVERY == 0:
            most = max(most, ask(SQL["locks"])[0])
        number += 1
        time.sleep(EVERY)
    return most


def _claimers() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.harness.claimers", str(THREADS), str(LIMIT)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line of a process, which says on stderr why it ended."""
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError("A process of sessions ended early.")
    return line
