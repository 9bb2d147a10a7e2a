"""What the benchmarks must reach, and aim at."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec

from tests.benchmarks.harness.report import Report


class Verdict(StrEnum):
    """How a metric stands to what was asked of it."""

    AIM = "aim reached"
    MUST = "must reached"
    MISSED = "MISSED"


@dataclass(frozen=True)
class Must:
    """A bound on one metric of one benchmark, and a better one to aim at."""

    benchmark: str
    metric: str
    must: float
    aim: float
    needs: str | None = None
    """What it is compared with; where that can't be installed, nothing is asked."""
    is_lasting: bool = False
    """Whether it is asked where it was measured for minutes, and only there."""
    feed: str = "poll"
    """With which feed of the log it is asked."""

    @property
    def is_asked(self) -> bool:
        """Whether what it is compared with is here."""
        return self.needs is None or find_spec(self.needs) is not None

    @property
    def sign(self) -> str:
        """Which way is better, as the aim shows it."""
        return "≥" if self.aim > self.must else "≤"

    def judge(self, value: float) -> Verdict:
        """Say what was reached."""
        if self._reaches(value, self.aim):
            return Verdict.AIM
        return Verdict.MUST if self._reaches(value, self.must) else Verdict.MISSED

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.aim > self.must else value <= bound


LEASE_S = 5
"""The lease that `recovery` runs with, in seconds: what must be depends on it."""

MUSTS = (
    Must("drain", "ratios.of_ceiling", must=0.7, aim=0.85),
    Must("drain", "figures.per_s", must=20_000, aim=40_000),
    Must("drain", "figures.rss_mb", must=150, aim=100),
    Must("drain", "figures.wal_bytes_per_message", must=1_100, aim=800),
    Must("enqueue", "figures.bulk_per_s", must=80_000, aim=150_000),
    Must("enqueue", "ratios.of_ceiling", must=0.6, aim=0.8),
    Must("enqueue", "ratios.busy_of_silent", must=0.70, aim=0.90),
    Must("latency", "figures.p50_ms", must=5, aim=2),
    Must("latency", "figures.p99_ms", must=25, aim=10),
    Must("fair", "ratios.of_one_key", must=0.4, aim=0.6),
    Must("pinned", "ratios.of_unpinned", must=0.6, aim=0.9),
    Must("pinned", "figures.per_s_2000", must=1_950, aim=1_990, is_lasting=True),
    Must("pinned", "figures.depth_2000", must=1_000, aim=200, is_lasting=True),
    Must("pinned", "figures.depth_scanned", must=1_000, aim=200, is_lasting=True),
    Must("sustained", "figures.per_s", must=1_950, aim=1_990, is_lasting=True),
    Must("sustained", "figures.depth", must=1_000, aim=200, is_lasting=True),
    Must("sustained", "ratios.mb_last_of_half", must=1.1, aim=1, is_lasting=True),
    Must("governed", "ratios.of_free", must=0.35, aim=0.55),
    Must("governed", "figures.saturated_claim_ms", must=6, aim=3),
    Must("ordered", "figures.per_s", must=6_000, aim=15_000),
    Must("orm", "ratios.of_ceiling", must=0.6, aim=0.85),
    Must("batch", "ratios.of_one_by_one", must=3, aim=6),
    Must("backlog", "ratios.deep_of_shallow", must=1.5, aim=1.1),
    Must("flows", "ratios.chord_of_drain", must=0.5, aim=0.8),
    Must("flows", "figures.chain_step_ms", must=3.5, aim=2),
    Must("flows", "figures.last_to_callback_ms", must=50, aim=10),
    Must("flows", "ratios.chord_of_celery_redis", must=10, aim=40, needs="celery"),
    Must("durable", "figures.workflows_per_s", must=900, aim=1_800),
    Must("durable", "figures.step_ms", must=0.8, aim=0.35),
    Must("durable", "figures.atomic_step_ms", must=2, aim=1.2),
    Must("durable", "ratios.step_of_ceiling", must=0.5, aim=0.8),
    Must("durable", "figures.signal_to_run_ms", must=8, aim=3),
    Must("durable", "figures.event_to_run_ms", must=12, aim=5),
    Must("durable", "figures.wake_per_s", must=3_000, aim=10_000),
    Must("durable", "ratios.drain_beside_sleepers", must=0.9, aim=1),
    Must("django_tasks", "ratios.drain_of_django_ox", must=15, aim=40, needs="django_ox"),
    Must("django_tasks", "ratios.enqueue_of_django_tasks_db", must=1, aim=1.5),
    Must("django_tasks", "ratios.of_own_drain", must=0.7, aim=0.9),
    Must("peers", "ratios.drain_of_best_postgres_peer", must=1.7, aim=3),
    Must("peers", "ratios.drain_of_celery_redis", must=15, aim=40),
    Must("peers", "ratios.compat_drain_of_celery_redis", must=15, aim=30),
    Must("peers", "ratios.chord_of_celery_redis", must=10, aim=40),
    Must("peers", "ratios.drain_of_django_ox", must=25, aim=80, needs="django_ox"),
    Must("peers", "ratios.concurrent_enqueue_of_best_notifying_peer", must=1.4, aim=2),
    Must("peers", "ratios.pickup_p50_of_best_peer", must=0.8, aim=0.5),
    Must("peers", "ratios.orm_drain_of_best_django_peer", must=3, aim=10),
    Must("peers", "ratios.connecting_orm_drain_of_best_django_peer", must=4, aim=8),
    Must("peers", "ratios.workflows_of_dbos", must=10, aim=20),
    Must("peers", "ratios.workflows_of_django_absurd", must=4, aim=8, needs="django_absurd"),
    Must("subscriptions", "figures.per_s", must=8_000, aim=20_000),
    Must("subscriptions", "figures.match_s", must=1.5, aim=0.75),
    Must("webhooks", "figures.per_s", must=400, aim=1_500),
    Must("sleepers", "figures.s", must=2, aim=1.2),
    Must("cluster", "ratios.cluster_of_processes", must=0.85, aim=1, needs="pyspark"),
    Must("lake", "figures.ducklake_per_s", must=150_000, aim=300_000, needs="deltalake"),
    Must("lake", "figures.read_per_s", must=400_000, aim=600_000, needs="deltalake"),
    Must("spark", "ratios.of_jdbc", must=1.5, aim=2),
    Must("spark", "figures.reader_per_s", must=400_000, aim=600_000),
    Must("spark", "figures.export_per_s", must=120_000, aim=250_000),
    Must("spark", "figures.events_per_s", must=250_000, aim=500_000),
    Must("spark", "figures.enqueue_per_s", must=70_000, aim=150_000),
    Must("spark", "figures.stream_p50_s", must=2, aim=1),
    Must("spark", "figures.report_s", must=20, aim=10),
    Must("spark", "figures.simulation_error", must=0.2, aim=0.1),
    Must("spark", "figures.driver_gb", must=1.5, aim=1),
    Must("events", "figures.publish_per_s", must=80_000, aim=200_000),
    Must("events", "figures.publish_1k_per_s", must=30_000, aim=50_000),
    Must("events", "figures.group_per_s", must=30_000, aim=80_000),
    Must("events", "ratios.of_ceiling", must=0.5, aim=0.8),
    # What PGMB published of two cores; the aim is twice that.
    Must("events", "figures.in_per_s", must=27_300, aim=54_600),
    Must("events", "figures.out_per_s", must=16_200, aim=32_400),
    Must("events", "figures.publish_to_handler_p50_ms", must=6, aim=3),
    Must("events", "ratios.publish_of_enqueue", must=0.9, aim=1),
    Must("events", "figures.append_if_per_s", must=2_000, aim=4_000),
    Must("events", "ratios.last_of_first", must=0.9, aim=1, is_lasting=True),
    Must("search", "figures.indexed_p95_ms", must=300, aim=100),
    Must("search", "figures.bounded_p95_ms", must=300, aim=150),
    Must("sse", "figures.p50_ms", must=15, aim=5),
    Must("sse", "figures.p99_ms", must=60, aim=20),
    Must("sse", "figures.rss_per_client_kb", must=100, aim=40),
    Must("sse", "figures.lost", must=0, aim=0),
    Must("events", "ratios.of_poll", must=0.8, aim=1.2, feed="wal"),
    Must("recovery", "figures.child_s", must=1, aim=1),
    Must("recovery", "figures.worker_s", must=LEASE_S + 1, aim=LEASE_S + 1),
)


def musts_of(report: Report) -> dict[str, Must]:
    """Return what a report must reach, by metric."""
    return {must.metric: must for must in MUSTS if _is_about(must, report)}


def _is_about(must: Must, report: Report) -> bool:
    is_so = (must.is_lasting, must.feed) == (bool(report.minutes), report.feed)
    return is_so and must.benchmark == report.benchmark


def missed(report: Report, *, musts: Iterable[Must] = MUSTS) -> list[str]:
    """Return a line for each must that a report misses, also for want of the metric."""
    asked = [must for must in musts if _is_about(must, report) and must.is_asked]
    lines = []
    for must in asked:
        value = report.metrics.get(must.metric)
        if value is None:
            lines.append(f"{report.benchmark}: {must.metric} was not measured.")
        elif must.judge(value) is Verdict.MISSED:
            bound = f"{must.sign} {must.must:g}"
            lines.append(f"{report.benchmark}: {must.metric} is {value:g}, and must be {bound}.")
    return lines
