"""Figures of streaming queries for Prometheus. Their lag is measured at each scrape.

So the lag of a query grows while a batch hangs, and after the query has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import psycopg
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pgqueue.arrow.errors import PipelineError
from pgqueue.arrow.lag import lags
from pgqueue.spark.followed import FollowedQuery
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)


class QueryFigures(Collector):
    """Collects the figures of the queries of one listener.

    Args:
        url: the database of the queries, see `arrow.urls.resolve`.
        followed: The function returns the queries.
    """

    def __init__(self, url: str, followed: Callable[[], Sequence[FollowedQuery]]) -> None:
        self._url = url
        self._followed = followed

    def describe(self) -> Iterable[Metric]:
        """Return the figures without values, so that a registry refuses them a second time."""
        return self._families([])

    def collect(self) -> Iterable[Metric]:
        """Return the figures."""
        return self._families(self._followed())

    def _families(self, queries: Sequence[FollowedQuery]) -> list[Metric]:
        running = GaugeMetricFamily(
            "pgqueue_stream_running",
            "Whether a query runs; 0: it has ended with an error.",
            labels=["query"],
        )
        rows = CounterMetricFamily(
            "pgqueue_stream_rows", "Rows that a query has read.", labels=["query"]
        )
        size = CounterMetricFamily(
            "pgqueue_stream_bytes",
            "The sum of the metric `bytes` that a query observes.",
            labels=["query"],
        )
        seconds = GaugeMetricFamily(
            "pgqueue_stream_batch_seconds", "Duration of a query's last batch.", labels=["query"]
        )
        position = GaugeMetricFamily(
            "pgqueue_stream_position",
            "The last position of events, or the last transaction of history, that a query has "
            "read.",
            labels=["query", "log"],
        )
        for each in queries:
            running.add_metric([each.name], each.is_running)
            rows.add_metric([each.name], each.rows)
            if each.size is not None:
                size.add_metric([each.name], each.size)
            if each.batch is not None:
                seconds.add_metric([each.name], each.seconds)
            for log, place in each.places.items():
                position.add_metric([each.name, log], place)
        return [running, rows, size, seconds, position, *self._lags(queries)]

    def _lags(self, queries: Sequence[FollowedQuery]) -> list[Metric]:
        rows = GaugeMetricFamily(
            "pgqueue_stream_lag_rows",
            "Rows of a log after the last one that a query has read, up to 100 000 of history.",
            labels=["query", "log"],
        )
        seconds = GaugeMetricFamily(
            "pgqueue_stream_lag_seconds",
            "Waiting time of the next row that a query will read; 0: no row waits.",
            labels=["query", "log"],
        )
        places = [
            (each.name, log, offset) for each in queries for log, offset in each.offsets.items()
        ]
        try:
            found = lags(self._url, [offset for _, _, offset in places]) if places else []
        except (psycopg.Error, PipelineError) as error:
            logger.warning("The lag of streams is unknown: %s", error)
            found = []
        for (name, log, _), lag in zip(places, found, strict=False):
            if lag is not None:
                rows.add_metric([name, log], lag.rows)
                seconds.add_metric([name, log], lag.seconds)
        return [rows, seconds]
