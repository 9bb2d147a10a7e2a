"""Figures of one worker, for its port. Figures of the whole queue are read from tables, in `fleet`.

Each name begins with `pgqueue_worker_`, since Prometheus may scrape a port and the view. A figure
that two processes would tell alike belongs in `fleet`. There it is bounded by `LIMIT`, and never
goes back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from pgqueue.conf import settings
from pgqueue.metrics import runs
from pgqueue.worker.report import ProcessReport, WorkerSnapshot

LIMIT = 500
"""Of channels and tasks."""
PREFIX = "pgqueue_worker"
GAUGES: dict[str, tuple[str, Callable[[ProcessReport], int]]] = {
    "slots": ("Tasks that it runs at once, at most.", lambda report: report.slots),
    "running": ("Tasks that it runs.", lambda report: report.running),
    "buffered_messages": (
        "Messages that it has claimed, and that wait for their turn.",
        lambda report: report.buffered,
    ),
    "unsettled_runs": (
        "Runs that have ended, and are not written yet.",
        lambda report: report.unsettled,
    ),
}


class OfTheWorker(Collector):
    """Collects what a worker tells of itself; of several processes the sums.

    Args:
        snapshot: returns what it does, and what it has done.
    """

    def __init__(self, snapshot: Callable[[], WorkerSnapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterable[Metric]:
        """Say nothing, as nothing was registered with it that might have the same names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return the figures."""
        now = self._snapshot()
        yield from runs.families(now.runs, prefix=PREFIX, limit=LIMIT)
        for name, (text, of) in GAUGES.items():
            yield GaugeMetricFamily(f"{PREFIX}_{name}", text, sum(map(of, now.reports)))
        yield from _counters(now)
        yield from _life(now)


def _counters(now: WorkerSnapshot) -> Iterator[Metric]:
    for name, text, value in (
        ("claims", "Statements with which it has claimed.", now.claims),
        ("claimed_messages", "Messages that it has claimed.", now.claimed),
        ("leases_lost", "Runs that were no longer its own when they ended.", now.leases_lost),
        ("process_starts", "Processes that were started for it.", now.started),
        ("process_deaths", "Processes that died, or ended with an error.", now.died),
    ):
        yield CounterMetricFamily(f"{PREFIX}_{name}", text, value)


def _life(now: WorkerSnapshot) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        f"{PREFIX}_processes", "Processes that live, and have reported.", len(now.reports)
    )
    yield GaugeMetricFamily(
        f"{PREFIX}_busy_seconds",
        "For how long none of its threads has been free; of several processes, the longest.",
        max((each.busy_for for each in now.reports), default=0.0),
    )
    silences = [each.silent_for for each in now.reports if each.silent_for is not None]
    age = GaugeMetricFamily(
        f"{PREFIX}_heartbeat_age_seconds",
        "Since when the database has taken no heartbeat; of several processes, the longest. "
        "Before the first one there is no series.",
    )
    if silences:
        age.add_metric([], max(silences))
    yield age
    yield GaugeMetricFamily(
        f"{PREFIX}_healthy",
        "Whether /healthz answers 200.",
        not now.not_working(settings().lease),
    )


def registry_of(snapshot: Callable[[], WorkerSnapshot]) -> CollectorRegistry:
    """Return a worker's figures, with those that the project's own code keeps.

    These are prometheus_client's default registry; or what processes have written into
    `PROMETHEUS_MULTIPROC_DIR`, if that is set.
    """
    registry = CollectorRegistry()
    registry.register(OfTheWorker(snapshot))
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    return registry
