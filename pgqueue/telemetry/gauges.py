"""Gauges of the whole queue: the figures for Prometheus, as OpenTelemetry has them."""

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
from pgqueue.exceptions import PGQueueError
from pgqueue.values.escaping import logger_of
from pgqueue.values.version import VERSION

logger = logger_of("pgqueue")

UNITS: Mapping[str, str] = {
    "messages": "{message}",
    "oldest_ready_age_seconds": "s",
    "channel_paused": "1",
    "workers": "{process}",
    "duty_late_seconds": "s",
    "schedule_late_seconds": "s",
    "flows": "{flow}",
    "flows_stopped": "{flow}",
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
    "wal_lag_bytes": "By",
    "wal_feed_active": "1",
    "scrape_failed": "1",
    "scrape_left_out": "1",
}
"""The gauges of `metrics.fleet`, without their prefix."""
FRESH = 1.0
"""Seconds for which what was read is good: all gauges of a collection are asked within that."""

_observed: set[str] = set()


def observe_queue(
    *, database: str | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Have this process report depth, age and lag of the whole queue; doing it again is fine.

    The figures are those of `pgqueue.metrics`, which names and explains them, with dots:
    `pgqueue.messages`, `pgqueue.oldest_ready_age`. They are read from the tables, on a connection
    of its own, whenever the exporter collects. Where several processes do, take the greatest.

    Args:
        database: the alias of the queue's database, if not the one of `PGQUEUE`.
        meter_provider: None: OpenTelemetry's global one.

    Raises:
        ImportError: prometheus_client is not installed, which the figures are made with.
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


def forget() -> None:
    """Have all gauges report nothing any more: OpenTelemetry can't remove them."""
    _observed.clear()


class _Figures:
    """Reads the figures of a queue once for all gauges that are asked together."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._reading = threading.Lock()
        self._read_at = float("-inf")
        self._found: Mapping[str, list[Observation]] = {}

    def teller_of(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return what tells one gauge."""

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
            logger.warning("The figures of the queue can't be told: %s", error)
        self._read_at = monotonic()


def _read(alias: str) -> Mapping[str, list[Observation]]:
    # Others need no prometheus_client.
    from pgqueue.metrics.exposition import PATIENCE
    from pgqueue.metrics.fleet import Fleet

    found: dict[str, list[Observation]] = defaultdict(list)
    with closing(connect(alias, name="metrics")) as connection, connection.transaction():
        connection.execute("SELECT set_config('statement_timeout', %s, true)", [PATIENCE])
        for family in Fleet(connection).collect():
            for sample in family.samples:
                found[sample.name].append(Observation(sample.value, sample.labels))
    return found
