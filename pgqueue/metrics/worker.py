"""Figures of one worker, for its port. `fleet` has the figures of the whole queue."""

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
"""The maximum of pairs of channels and tasks."""
PREFIX = "pgqueue_worker"
GAUGES: dict[str, tuple[str, Callable[[ProcessReport], int]]] = {
    "slots": ("The maximum of tasks that it runs at once.", lambda report: report.slots),
    "running": ("Tasks that it runs.", lambda report: report.running),
    "buffered_messages": (
        "Messages that it has claimed, and that wait for a free slot.",
        lambda report: report.buffered,
    ),
    "unsettled_runs": (
        "Runs that have ended, and are not settled yet.",
        lambda report: report.unsettled,
    ),
}


class OfTheWorker(Collector):
    """Collects the figures of a worker; for several processes, their sums.

    Args:
        snapshot: returns the state and the counters of the worker.
    """

    def __init__(self, snapshot: Callable[[], WorkerSnapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterable[Metric]:
        """Return an empty list: no other registered collector has the same names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        now = self._snapshot()
        yield from runs.families(now.runs, prefix=PREFIX, limit=LIMIT)
        for name, (text, of) in GAUGES.items():
            yield GaugeMetricFamily(f"{PREFIX}_{name}", text, sum(map(of, now.reports)))
        yield from _counters(now)
        yield from _life(now)


def _counters(now: WorkerSnapshot) -> Iterator[Metric]:
    for name, text, value in (
        ("claims", "Statements by which it has claimed messages.", now.claims),
        ("claimed_messages", "Messages that it has claimed.", now.claimed),
        ("leases_lost", "Runs whose lease was lost before their end.", now.leases_lost),
        ("process_starts", "Processes that it has started.", now.started),
        ("process_deaths", "Processes that died, or ended with an error.", now.died),
    ):
        yield CounterMetricFamily(f"{PREFIX}_{name}", text, value)


def _life(now: WorkerSnapshot) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        f"{PREFIX}_processes", "Live processes that have reported.", len(now.reports)
    )
    yield GaugeMetricFamily(
        f"{PREFIX}_busy_seconds",
        "Time since a thread was last free; for several processes, the longest time.",
        max((each.busy_for for each in now.reports), default=0.0),
    )
    silences = [each.silent_for for each in now.reports if each.silent_for is not None]
    age = GaugeMetricFamily(
        f"{PREFIX}_heartbeat_age_seconds",
        "Time since the last heartbeat in the database; for several processes, the longest time. "
        "Before the first heartbeat there is no series.",
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
    """Return a registry of a worker's figures and the project's own ones.

    The project's figures come from prometheus_client's default registry; or from the files in
    `PROMETHEUS_MULTIPROC_DIR`, if this variable is set.
    """
    registry = CollectorRegistry()
    registry.register(OfTheWorker(snapshot))
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    return registry
