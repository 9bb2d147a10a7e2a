"""The listener of streaming queries tells what they have read, and how far they are behind."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from pgqueue.arrow import eventstream, streaming
from pgqueue.arrow.options import stream_options
from pgqueue.engine import identity
from pgqueue.logs import JSONFormatter
from pgqueue.spark import InvalidOption, QueryMetrics
from tests.eventually import eventually
from tests.factories import Connection, ended, one
from tests.spark import log
from tests.spark.conftest import wait_for_horizon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY, RUN = uuid4(), uuid4()
NOW = "2026-11-24T08:30:00.000Z"
OF_KAFKA = '{"orders": {"0": 12}}'
OF_OTHERS = '{"position": {"0": 12}}'
Figure = Callable[..., float | None]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def listener(url: str, registry: CollectorRegistry) -> QueryMetrics:
    return QueryMetrics(url=url, registry=registry)


@pytest.fixture
def figure(registry: CollectorRegistry) -> Figure:
    """Return a function that scrapes one figure of the query `ended`."""

    def scrape(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"pgqueue_stream_{name}", {"query": "ended", **labels})

    return scrape


def started(listener: QueryMetrics, id: Any = QUERY) -> None:
    listener.onQueryStarted(QueryStartedEvent(id, RUN, "ended", NOW, set()))


def read(listener: QueryMetrics, *offsets: str, batch: int = 0, rows: int = 3) -> None:
    """Tell of a batch whose sources end at these offsets."""
    source = {
        "description": "source",
        "startOffset": "null",
        "latestOffset": "null",
        "numInputRows": rows,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
    }
    given = {
        "id": str(QUERY),
        "runId": str(RUN),
        "name": "ended",
        "timestamp": NOW,
        "batchId": batch,
        "batchDuration": 1500,
        "stateOperators": [],
        "sources": [{**source, "endOffset": each} for each in offsets],
        "sink": {"description": "sink", "numOutputRows": -1},
        "numInputRows": rows,
    }
    listener.onQueryProgress(QueryProgressEvent.fromJson({"progress": given}))


def ended_with(listener: QueryMetrics, error: str | None) -> None:
    listener.onQueryTerminated(QueryTerminatedEvent(QUERY, RUN, error, None))


def place_in_history(url: str) -> str:
    wait_for_horizon(url)
    found = streaming.first(stream_options({"url": url, "table": "history"}))
    return json.dumps(found.as_json())


class TestABatch:
    def test_is_told_with_its_place_and_the_rows_after_it(
        self, url: str, connection: Connection, listener: QueryMetrics, figure: Figure
    ) -> None:
        ended(connection)
        place = place_in_history(url)
        started(listener)
        read(listener, place)
        read(listener, place, batch=1, rows=2)
        before = figure("lag_rows", log="history"), figure("lag_seconds", log="history")

        ended(connection, 2, ago=timedelta(hours=1))  # No batch ends any more.

        [txid] = one(connection, "SELECT min(txid) FROM pgqueue_history")
        assert (figure("running"), figure("rows_total")) == (1, 5)
        assert figure("batch_seconds") == 1.5
        assert figure("position", log="history") == txid
        assert before == (0, 0)
        assert figure("lag_rows", log="history") == 2
        assert 3600 <= (figure("lag_seconds", log="history") or 0) < 3700

    def test_of_events_is_told_by_positions(
        self, connection: Connection, listener: QueryMetrics, figure: Figure
    ) -> None:
        log.store(connection, 3)
        at = eventstream.Offset(identity.of(connection), 1)

        read(listener, json.dumps(at.as_json()), json.dumps(at._replace(last=3).as_json()))

        assert figure("position", log="events") == 1
        assert figure("lag_rows", log="events") == 2
        assert figure("lag_rows", log="history") is None

    def test_of_another_source_or_database_has_no_lag(
        self, connection: Connection, listener: QueryMetrics, figure: Figure
    ) -> None:
        log.store(connection)
        elsewhere = json.dumps(eventstream.Offset("another", 0).as_json())

        read(
            listener, OF_KAFKA, OF_OTHERS, "null", "None", '"a text"', '{"database": 1}', elsewhere
        )

        assert figure("rows_total") == 3
        assert figure("position", log="events") == 0
        assert figure("lag_rows", log="events") is None

    def test_is_a_line_of_the_log_with_fields(
        self,
        url: str,
        connection: Connection,
        listener: QueryMetrics,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        place = place_in_history(url)
        ended(connection, 2)
        caplog.set_level(logging.INFO, "pgqueue")

        read(listener, place, batch=0)
        read(listener, OF_KAFKA, batch=1, rows=0)

        [record] = caplog.records
        line = json.loads(JSONFormatter().format(record))
        fields = ("query", "batch", "rows", "lag_rows")
        assert [line[name] for name in fields] == ["ended", 0, 3, 2]
        assert line["position"] == {"history": json.loads(place)["txid"]}
        assert "query ended, batch 0: 3 rows in 1.5 s, up to history" in record.message
        assert "2 rows behind, the first for 0 s" in record.message


class TestTheEnd:
    def test_with_an_error_leaves_the_figures_and_is_logged(
        self,
        connection: Connection,
        listener: QueryMetrics,
        figure: Figure,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        log.store(connection, 2)
        started(listener)
        read(listener, json.dumps(eventstream.Offset(identity.of(connection), 0).as_json()))

        ended_with(listener, "pgqueue.arrow.errors.DataLoss: Retention has removed events")

        assert (figure("running"), figure("lag_rows", log="events")) == (0, 2)
        said = [each.message for each in caplog.records if each.levelno == logging.ERROR]
        assert said == ["query ended has failed: Retention has removed events"]
        started(listener)
        assert (figure("running"), figure("rows_total")) == (1, 3)
        started(listener, uuid4())  # with another checkpoint
        assert (figure("running"), figure("rows_total")) == (1, 0)

    def test_without_one_removes_the_query(self, listener: QueryMetrics, figure: Figure) -> None:
        started(listener)
        ended_with(listener, None)

        assert figure("running") is None


def test_without_a_database_the_rest_is_told(
    registry: CollectorRegistry, figure: Figure, caplog: pytest.LogCaptureFixture
) -> None:
    listener = QueryMetrics(url="postgresql://127.0.0.1:1/none", registry=registry)

    read(listener, json.dumps(eventstream.Offset("any", 7).as_json()))

    assert figure("position", log="events") == 7
    assert figure("lag_rows", log="events") is None
    assert "The lag of streams is unknown: connection failed" in caplog.text


def test_a_registry_has_the_figures_of_one_listener(
    listener: QueryMetrics, url: str, registry: CollectorRegistry
) -> None:
    with pytest.raises(InvalidOption, match="call its close"):
        QueryMetrics(url=url, registry=registry)

    listener.close()
    listener.close()
    QueryMetrics(url=url, registry=registry)


def test_what_is_missing_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOption, match="that variable is not set"):
        QueryMetrics(url="env:NOT_SET", registry=CollectorRegistry())

    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r"pip install 'pgqueue\[spark,prometheus\]'"):
        QueryMetrics(url=url)


def test_spark_tells_it_of_its_queries(
    spark: SparkSession,
    url: str,
    connection: Connection,
    listener: QueryMetrics,
    figure: Figure,
    tmp_path: Path,
) -> None:
    ended(connection, 3)
    wait_for_horizon(url)
    spark.streams.addListener(listener)
    options = {"url": url, "table": "history", "startingOffsets": "earliest"}
    frame = spark.readStream.format("pgqueue").options(**options).load()
    sized = frame.observe("sizes", F.sum(F.length("task")).alias("bytes"))
    query = sized.writeStream.format("noop").queryName("ended").start()
    try:
        eventually(lambda: figure("rows_total") == 3, within=60)
        lag, size = figure("lag_rows", log="history"), figure("bytes_total")
    finally:
        query.stop()
        eventually(lambda: figure("running") is None, within=60)
        spark.streams.removeListener(listener)

    assert lag == 0
    assert size == 3 * len("tests.task")
