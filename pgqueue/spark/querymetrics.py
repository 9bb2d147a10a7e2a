"""A listener of streaming queries: figures for Prometheus, and a line of the log for each batch."""

from __future__ import annotations

import logging
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pgqueue.arrow.errors import InvalidOption, PipelineError
from pgqueue.arrow.lag import StreamLag, lags
from pgqueue.arrow.urls import DEFAULT, resolve
from pgqueue.spark.errors import reason
from pgqueue.spark.followed import FollowedQuery
from pgqueue.values.escaping import logger_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logger_of(__name__)


class QueryMetrics(StreamingQueryListener):
    """Gives figures of a session's streaming queries to Prometheus, and logs each batch.

    `spark.streams.addListener` adds it to a session.

    The figures have rows, positions, and the lag in rows and seconds of queries that read history
    or events. Queries with other sources have the rest. A query that is stopped, or has read
    everything, leaves the figures; a query that has failed stays.

    Args:
        url: the database whose tables the queries read, like the option `url` of a read.
        registry: the registry of the figures; None: `prometheus_client.REGISTRY`.

    Raises:
        ImportError: prometheus_client is not installed.
        InvalidOption: the URL is missing, or the registry has the figures of another listener.
    """

    def __init__(self, *, url: str = DEFAULT, registry: CollectorRegistry | None = None) -> None:
        try:
            # Imported here, as only this listener needs prometheus_client.
            from prometheus_client import REGISTRY

            from pgqueue.spark.queryfigures import QueryFigures
        except ImportError as error:
            raise ImportError(
                "QueryMetrics() needs prometheus_client, too: "
                "pip install 'pgqueue[spark,prometheus]'."
            ) from error
        resolve(url)
        self._url = url
        self._lock = Lock()
        self._queries: dict[Any, FollowedQuery] = {}
        self._registry = REGISTRY if registry is None else registry
        self._figures: QueryFigures | None = QueryFigures(url, self.followed)
        try:
            self._registry.register(self._figures)
        except ValueError:
            raise InvalidOption(
                "The registry has the figures of another QueryMetrics. Add that one to this "
                "session, too, or call its close() first."
            ) from None

    def close(self) -> None:
        """Take the figures out of the registry; a repeated call is harmless."""
        figures, self._figures = self._figures, None
        if figures is not None:
            self._registry.unregister(figures)

    def followed(self) -> list[FollowedQuery]:
        """Return the queries that run, and those that have failed."""
        with self._lock:
            return list(self._queries.values())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Follow a query; forget a failed one of the same name."""
        name = event.name or str(event.id)
        with self._lock:
            known = self._queries.get(event.id, FollowedQuery(name))
            self._queries = {
                id: each for id, each in self._queries.items() if each.name != name
            } | {event.id: replace(known, is_running=True)}

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Count a batch, and log it."""
        progress = event.progress
        name = progress.name or str(progress.id)
        with self._lock:
            # A query may be older than this listener.
            query = self._queries.get(progress.id, FollowedQuery(name)).after(progress)
            self._queries[progress.id] = query
        if progress.numInputRows and logger.isEnabledFor(logging.INFO):
            self._log(query, progress.numInputRows)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget a query that has ended; log the error of a query that has failed."""
        with self._lock:
            query = self._queries.pop(event.id, FollowedQuery(str(event.id)))
            if event.exception:
                self._queries[event.id] = replace(query, is_running=False)
        if event.exception:
            logger.error(
                "query %s has failed: %s",
                query.name,
                reason(event.exception),
                extra={"query": query.name, "batch": query.batch},
            )

    def _log(self, query: FollowedQuery, rows: int) -> None:
        lag = self._lag(query)
        places = ", ".join(f"{log} {place}" for log, place in query.places.items())
        logger.info(
            "query %s, batch %s: %s rows in %.1f s%s%s",
            query.name,
            query.batch,
            rows,
            query.seconds,
            f", up to {places}" if places else "",
            f"; {lag.rows} rows behind, the first for {lag.seconds:.0f} s" if lag else "",
            extra={
                "query": query.name,
                "batch": query.batch,
                "rows": rows,
                "position": query.places,
                "lag_rows": lag and lag.rows,
                "lag_seconds": lag and lag.seconds,
            },
        )

    def _lag(self, query: FollowedQuery) -> StreamLag | None:
        """Return the lag of the log that is furthest behind; None: it is unknown."""
        if not query.offsets:
            return None
        try:
            found = [each for each in lags(self._url, list(query.offsets.values())) if each]
        except (psycopg.Error, PipelineError) as error:
            logger.warning("The lag of the query %s is unknown: %s", query.name, error)
            return None
        return max(found, key=lambda each: each.seconds, default=None)
