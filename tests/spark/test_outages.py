"""A stream waits for a database that is away for some seconds, and not for ever."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pgqueue.spark import outages
from pgqueue.spark.options import stream_options
from pgqueue.spark.source import StreamReader
from tests.factories import Connection, ended
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import positions, store
from tests.spark.test_streaming import all_ids


class Gate:
    """A way to the server's socket that can be closed: then there is no server there."""

    def __init__(self, url: str, folder: Path) -> None:
        given = conninfo_to_dict(url)
        name = f".s.PGSQL.{given.get('port', 5432)}"
        self._socket = Path(str(given["host"])) / name
        if not self._socket.is_absolute():
            pytest.skip("the server is reached by TCP")
        self._link = folder / name
        self.url = make_conninfo(url, host=str(folder))
        self.open()

    def open(self) -> None:
        self._link.symlink_to(self._socket)

    def close(self) -> None:
        self._link.unlink()

    def close_for(self, seconds: float) -> None:
        self.close()
        threading.Timer(seconds, self.open).start()


@pytest.fixture
def gate(url: str, tmp_path: Path) -> Gate:
    return Gate(url, tmp_path)


def reader(gate: Gate, table: str) -> StreamReader:
    given = {"url": gate.url, "table": table, "startingOffsets": "earliest", "minPartitions": "2"}
    return StreamReader(stream_options(given))


@pytest.mark.parametrize("table", ["history", "events"])
def test_each_step_of_a_stream_waits(
    gate: Gate, url: str, connection: Connection, table: str
) -> None:
    ended(connection, 6)
    store(connection, 6)
    wait_for_horizon(url)
    stream = reader(gate, table)
    start = stream.initialOffset()

    gate.close_for(0.5)
    stream.prepareForTriggerAvailableNow()
    gate.close_for(0.5)
    end = stream.latestOffset(start, ReadAllAvailable())
    rows: list[dict[str, Any]] = []
    for part in stream.partitions(start, end):
        gate.close_for(0.5)
        rows += [row for batch in stream.read(part) for row in batch.to_pylist()]

    if table == "history":
        assert sorted(row["id"] for row in rows) == sorted(all_ids(connection))
    else:
        assert [row["position"] for row in rows] == positions(connection)


def test_it_ends_where_the_database_stays_away(
    gate: Gate, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "BOUND", 0.3)
    stream = reader(gate, "events")
    start = stream.initialOffset()
    gate.close()

    with pytest.raises(psycopg.OperationalError, match="No such file"):
        stream.latestOffset(start, ReadAllAvailable())


def test_what_a_connection_that_came_first_says_is_not_waited_for(gate: Gate) -> None:
    gate.close()

    with pytest.raises(psycopg.OperationalError):
        reader(gate, "events").initialOffset()


def test_another_error_is_raised_at_once() -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise psycopg.errors.QueryCanceled

    with pytest.raises(psycopg.errors.QueryCanceled):
        outages.patiently(ask)

    assert asked == [1]


def test_what_was_begun_is_not_read_twice() -> None:
    def read() -> Any:
        yield 1
        raise psycopg.OperationalError

    reading = outages.read_patiently(read)

    assert next(reading) == 1
    with pytest.raises(psycopg.OperationalError):
        next(reading)
