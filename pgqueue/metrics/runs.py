"""Counts of runs as Prometheus metrics, of the whole queue or of one worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from pgqueue.engine.run_statistics import BOUNDS, OUTCOMES, Counts


def families(counts: Iterable[Counts], *, prefix: str, limit: int) -> Iterator[Metric]:
    """Yield the outcomes of runs, their waiting times, and their durations.

    Args:
        prefix: the prefix of the names, such as "pgqueue".
        limit: the maximum of pairs of channels and tasks; pairs with more runs come first.
    """
    most = sorted(counts, key=lambda each: each.total, reverse=True)[:limit]
    labels = ["channel", "task"]
    runs = CounterMetricFamily(
        f"{prefix}_runs",
        "Runs that have ended. Failed ones are retried, dead ones are not.",
        labels=[*labels, "outcome"],
    )
    waits = HistogramMetricFamily(
        f"{prefix}_wait_seconds", "Times from due messages to their starts.", labels=labels
    )
    times = HistogramMetricFamily(f"{prefix}_run_seconds", "Durations of runs.", labels=labels)
    for each in most:
        pair = [each.channel, each.task]
        for outcome in OUTCOMES:
            runs.add_metric([*pair, outcome], getattr(each, outcome))
        waits.add_metric(pair, _buckets(each.waits), each.waited)
        times.add_metric(pair, _buckets(each.runs), each.ran)
    yield from (runs, waits, times)


def _buckets(histogram: Iterable[int]) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
    return list(zip(bounds, accumulate(histogram), strict=True))
