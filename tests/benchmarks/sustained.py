"""A producer keeps a rate for long, while retention and vacuum remove what has ended.

One worker runs 2 000 messages a second. Retention removes a message after a sixth of the time.

    per_s                  enqueued messages a second
    removed_per_s          messages a second that retention removed, in the last half of the time
    depth                  the most messages that waited at one moment, of those that history has
    p99_ms                 from the enqueue to the start, of the same
    wal_bytes              bytes for each message, also of all else in the server
    mb                     messages and history with their indexes, at the end
    dead_…                 rows by table, at the end
    mb_last_of_half        mb at the end ÷ at half of the time
"""

from __future__ import annotations

import time

from pgqueue.database.sql_files import load
from tests.benchmarks.harness import messages, pacing, worker
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import ask

SQL = load(__name__)
RATE = 2_000
SIZES = (60 * RATE,)
KEPT = 1 / 6
"""The share of the time for which history keeps a message."""


def measure(*, messages: int, rounds: int) -> Report:
    """Keep the rate for so many messages."""
    return repeat("sustained", _round, messages=messages, rounds=rounds)


def measure_for(*, minutes: float, rounds: int) -> Report:
    """Keep the rate for so many minutes."""
    return repeat(
        "sustained",
        lambda _: _round(int(minutes * 60 * RATE)),
        messages=0,
        rounds=rounds,
        minutes=minutes,
    )


def _round(count: int) -> Round:
    messages.empty()
    seconds = count / RATE
    kept = {"PGQUEUE_RETENTION": str(seconds * KEPT)}
    with worker.running(**kept) as running:
        running.wait_until(worker.is_idle)
        began_at, wal_before, _ = ask(pacing.SQL["now"])
        began = time.monotonic()
        with pacing.producing(RATE) as producer:
            time.sleep(seconds / 2)
            half, at_half = _Reached(), producer.count
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        took = time.monotonic() - began
        running.wait_until(_is_done, every=0.5, patience=60 + 2 * seconds)
        end = _Reached()
        depth, p99_ms = ask(pacing.SQL["waits"], {"since": began_at})
        _, wal_after, _ = ask(pacing.SQL["now"])
        dead = pacing.dead_rows()
    removed = (producer.count - end.rows) - (at_half - half.rows)
    return Round(
        figures={
            "per_s": producer.count / took,
            "removed_per_s": max(0, removed) / (end.at - half.at),
            "depth": depth,
            "p99_ms": p99_ms,
            "wal_bytes": float(wal_after - wal_before) / max(1, producer.count),
            "mb": end.mb,
            **{f"dead_{name}": rows for name, rows in dead.items()},
        },
        ratios={"mb_last_of_half": end.mb / half.mb},
    )


class _Reached:
    """Messages and history at one moment: their size in MB, and the rows of both."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.mb, self.rows = ask(SQL["reached"])


def _is_done() -> bool:
    return bool(ask(SQL["is_done"])[0])
