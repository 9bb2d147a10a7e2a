"""Gauges of the whole queue: the Prometheus figures for OpenTelemetry."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from time import monotonic

import psycopg
from django.db import Error
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from pgqueue.conf import settings
from pgqueue.database.connections import connect
from pgqueue.database.transactions import answer_within
from pgqueue.exceptions import PGQueueError
from pgqueue.values.escaping import logger_of
from pgqueue.values.version import VERSION

logger = logger_of("pgqueue")

UNITS: Mapping[str, str] = {
    "messages": "{message}",
    "tenant_messages": "{message}",
    "oldest_ready_age_seconds": "s",
    "channel_paused": "1",
    "breakers_open": "{breaker}",
    "workers": "{process}",
    "duty_late_seconds": "s",
    "schedule_late_seconds": "s",
    "flows": "{flow}",
    "flows_stopped": "{flow}",
    "suspended": "{message}",
    "longest_wait_seconds": "s",
    "group_lag_events": "{event}",
    "group_lag_seconds": "s",
    "group_stopped_partitions": "{partition}",
    "subscription_lag_events": "{event}",
    "webhook_stopped": "1",
    "webhook_failing_seconds": "s",
    "lock_held_seconds": "s",
    "rows_left_out": "{row}",
    "duty_failing_seconds": "s",
    "history_days_ahead": "d",
    "notification_queue_usage": "1",
    "export_age_seconds": "s",
    "export_lag_messages": "{message}",
    "export_lag_events": "{event}",
    "export_lag_seconds": "s",
    "history_days_kept": "d",
    "wal_lag_bytes": "By",
    "wal_feed_active": "1",
    "scrape_failed": "1",
    "scrape_left_out": "1",
}
"""The gauges of `metrics.fleet`, without the prefix of their names."""
COUNTERS: Mapping[str, str] = {"tenant_runs": "{run}"}
"""The counters of `metrics.fleet` that no instrument of a process counts, likewise."""
FRESH = 1.0
"""Seconds for which the read figures hold. One collection asks all gauges within this time."""

_observed: set[str] = set()


def observe_queue(
    *, database: str | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Report depth, age and lag of the whole queue from this process; a repeated call is harmless.

    `pgqueue.metrics` explains the figures; here their names have dots: `pgqueue.messages`,
    `pgqueue.oldest_ready_age`. The process reads them from the tables, on a separate connection,
    whenever the exporter collects. If several processes report them, use the maximum.

    Args:
        database: the alias of the queue's database, if it is not the one of `PGQUEUE`.
        meter_provider: OpenTelemetry's provider of meters; None: the global one.

    Raises:
        ImportError: prometheus_client, which makes the figures, is not installed.
    """
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "observe_queue() needs prometheus_client, too: "
            "pip install 'pgqueue[opentelemetry,prometheus]'."
        ) from error
    alias = database or settings().database
    if alias in _observed:
        return
    _observed.add(alias)
    figures = _Figures(alias)
    meter = metrics.get_meter("pgqueue", VERSION, meter_provider)
    for name, unit in UNITS.items():
        meter.create_observable_gauge(
            f"pgqueue.{name.removesuffix('_seconds').removesuffix('_bytes')}",
            callbacks=[figures.teller_of(f"pgqueue_{name}")],
            unit=unit,
        )
    for name, unit in COUNTERS.items():
        meter.create_observable_counter(
            f"pgqueue.{name}",
            callbacks=[figures.teller_of(f"pgqueue_{name}_total")],
            unit=unit,
        )


def forget() -> None:
    """Make all gauges report no more values, since OpenTelemetry cannot remove gauges."""
    _observed.clear()


class _Figures:
    """Reads the figures of a queue once for all gauges of a collection."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._reading = threading.Lock()
        self._read_at = float("-inf")
        self._found: Mapping[str, list[Observation]] = {}

    def teller_of(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return the callback of one gauge."""

        def tell(options: CallbackOptions) -> Iterable[Observation]:
            if self._alias not in _observed:
                return []
            with self._reading:
                if monotonic() - self._read_at > FRESH:
                    self._read()
                return self._found.get(name, [])

        return tell

    def _read(self) -> None:
        self._found = {}
        try:
            self._found = _read(self._alias)
        except (Error, psycopg.Error, PGQueueError) as error:
            logger.warning("Reading the figures of the queue failed: %s", error)
        self._read_at = monotonic()


def _read(alias: str) -> Mapping[str, list[Observation]]:
    # Imported here, as only this function needs prometheus_client.
    from pgqueue.metrics.exposition import PATIENCE
    from pgqueue.metrics.fleet import Fleet

    found: dict[str, list[Observation]] = defaultdict(list)
    with closing(connect(alias, name="metrics")) as connection, connection.transaction():
        answer_within(connection, PATIENCE)
        for family in Fleet(connection).collect():
            for sample in family.samples:
                found[sample.name].append(Observation(sample.value, sample.labels))
    return found
