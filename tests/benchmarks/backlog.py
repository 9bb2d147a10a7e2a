"""What a claim costs where few and where many messages wait: falling behind must not slow it.

claim_ms_10k, …_1m, …_10m   the median of claiming 100 messages, with 10 000, a million and ten
                            million queued in 1 000 keys of one channel; the first before the
                            others and after them, since minutes pass and machines change. The
                            median, since the first claims after a checkpoint log whole pages
deep_of_shallow             the last ÷ the first
stats_ms_10m                what the depths of that channel cost with the most queued
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median

from pgqueue.database.connections import connect
from pgqueue.engine import live_counts
from tests.benchmarks.harness.messages import CHANNEL, store_evenly
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.claims import FreeClaims

SIZES = (10_000_000,)
KEYS = 1_000
CLAIMS = 100
BATCH = 100
LEASE = timedelta(minutes=10)


def measure(*, messages: int, rounds: int) -> Report:
    """Compare claims from shallow and deep queues."""
    return repeat("backlog", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    few = max(count // 1000, 2 * BATCH)
    before = _claim_ms(few)
    middle = _claim_ms(max(count // 10, 2 * BATCH))
    deep = _claim_ms(count)
    stats_ms = _stats_ms()
    shallow = (before + _claim_ms(few)) / 2
    return Round(
        figures={
            "claim_ms_10k": shallow,
            "claim_ms_1m": middle,
            "claim_ms_10m": deep,
            "stats_ms_10m": stats_ms,
        },
        ratios={"deep_of_shallow": deep / shallow},
    )


def _claim_ms(count: int) -> float:
    store_evenly(count, keys=min(KEYS, count))
    with connect("default", name="engine") as connection:
        turns = FreeClaims(connection)
        took = []
        for _ in range(min(CLAIMS, count // BATCH)):
            took.append(_took_ms(lambda: turns.claim(BATCH)))
    return median(took)


def _stats_ms() -> float:
    with connect("default", name="engine") as connection:
        return median(
            _took_ms(lambda: live_counts.measure(connection, [CHANNEL])) for _ in range(5)
        )


def _took_ms(verb: Callable[[], object]) -> float:
    began = time.monotonic()
    verb()
    return (time.monotonic() - began) * 1000
