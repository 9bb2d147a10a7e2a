"""A stream waits for a database that is away for some seconds, and not for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Json
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pgqueue.arrow import copying, outages
from pgqueue.arrow.errors import SnapshotGone
from pgqueue.arrow.options import read_options, stream_options
from pgqueue.arrow.planning import plan
from pgqueue.arrow.reading import batches
from pgqueue.spark.source import StreamReader
from tests.factories import Connection, bury, ended, enqueue
from tests.spark.conftest import Load, wait_for_horizon
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


@pytest.mark.slow
@pytest.mark.parametrize("table", ["history", "events"])
def test_each_step_of_a_stream_waits(
    gate: Gate, url: str, connection: Connection, table: str
) -> None:
    store_rows(connection, url)
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


@pytest.mark.slow
@pytest.mark.parametrize("table", ["history", "events"])
def test_a_query_that_is_killed_in_its_first_batch_reads_this_batch_again(
    url: str, connection: Connection, table: str
) -> None:
    def reader() -> StreamReader:
        return StreamReader(stream_options({"url": url, "table": table}))

    stream = reader()
    start = stream.initialOffset()
    store_rows(connection, url)
    end = stream.latestOffset(start, ReadAllAvailable())
    store_rows(connection, url)

    again = reader()
    # The checkpoint has only the end of the first batch.
    parts = again.partitions(again.initialOffset(), json.loads(json.dumps(end)))
    rest = again.partitions(end, again.latestOffset(end, ReadAllAvailable()))

    assert [len(rows_of(again, each)) for each in (parts, rest)] == [6, 6]


def store_rows(connection: Connection, url: str) -> None:
    ended(connection, 6)
    store(connection, 6)
    wait_for_horizon(url)


def rows_of(stream: StreamReader, parts: Iterable[Any]) -> list[dict[str, Any]]:
    return [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]


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


def test_a_connection_that_was_cut_before_the_copy_is_an_outage(
    url: str, connection: Connection
) -> None:
    with psycopg.connect(url, autocommit=True) as cut:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [cut.info.backend_pid])

        with pytest.raises(psycopg.OperationalError) as raised:
            list(copying.read(cut, SQL("SELECT 1, 2"), []))

    assert outages.is_away(raised.value)


def test_what_was_begun_goes_on_behind_the_last_row() -> None:
    places = []

    def read(place: int | None) -> Any:
        places.append(place)
        for number in range(place or 0, 3):
            yield number + 1, f"row {number + 1}"
            if len(places) < 3:
                raise psycopg.OperationalError

    assert list(outages.read_on(read)) == ["row 1", "row 2", "row 3"]
    assert places == [None, 1, 2]


def test_another_error_amid_the_rows_is_raised_at_once() -> None:
    def read(place: int | None) -> Any:
        yield 1, "row 1"
        raise psycopg.errors.QueryCanceled

    reading = outages.read_on(read)

    assert next(reading) == "row 1"
    with pytest.raises(psycopg.errors.QueryCanceled):
        next(reading)


READER = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() "
    "AND (application_name ~ 'pgqueue spark .*read' OR query LIKE 'COPY (SELECT m.%')"
)
CUTS = 3


def fill(connection: Connection, count: int) -> None:
    """Store as many rows of each table, so large that the server can't have sent all of them."""
    ended(connection, count)
    store(connection, count)
    bury(connection, 5)
    for table, column in (
        ("pgqueue_history", "result"),
        ("pgqueue_event", "payload"),
        ("pgqueue_message", "payload"),
    ):
        connection.execute(
            SQL("UPDATE {} SET {} = to_jsonb(repeat(md5(random()::text), 1000))").format(
                Identifier(table), Identifier(column)
            )
        )


def cut_off(batches: Iterable[Any], connection: Connection) -> list[dict[str, Any]]:
    """Read all rows, and end the backend that sends them after some of the blocks."""
    rows: list[dict[str, Any]] = []
    for number, batch in enumerate(batches):
        rows += batch.to_pylist()
        if number < CUTS:
            assert connection.execute(READER).fetchall()
    assert number >= CUTS
    return rows


@pytest.mark.parametrize("table", ["history", "events"])
def test_a_stream_that_is_cut_off_amid_a_partition_reads_each_row_once(
    url: str, connection: Connection, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(connection, 600)
    wait_for_horizon(url)
    monkeypatch.setattr(copying, "BLOCK", 1 << 20)
    given = {"url": url, "table": table, "startingOffsets": "earliest", "minPartitions": "1"}
    stream = StreamReader(stream_options(given))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    [part] = stream.partitions(start, end)

    rows = cut_off(stream.read(part), connection)

    if table == "history":
        assert sorted(row["id"] for row in rows) == sorted(all_ids(connection))
    else:
        assert [row["position"] for row in rows] == positions(connection)


@pytest.mark.parametrize("table", ["history", "events", "attempts"])
def test_a_read_that_is_cut_off_amid_a_partition_reads_each_row_once(
    url: str, connection: Connection, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(connection, 600)
    # A row of history has its two attempts in two blocks of rows.
    failed = {"attempt": 1, "class": "Oops", "message": "x" * 40_000, "traceback": ""}
    failed["at"] = "2026-11-24T10:00:00Z"
    connection.execute(
        "UPDATE pgqueue_history SET attempt = 2, errors = %s, started_at = created_at",
        [Json([failed])],
    )
    monkeypatch.setattr(copying, "BLOCK", 1 << 20)
    partitions = "2" if table == "attempts" else "1"
    options = read_options({"url": url, "table": table, "numPartitions": partitions})
    parts = plan(options)

    rows = cut_off(chain.from_iterable(batches(options, part) for part in parts), connection)

    if table == "history":
        assert sorted(row["id"] for row in rows) == sorted(all_ids(connection))
    elif table == "events":
        assert [row["position"] for row in rows] == positions(connection)
    else:
        ids = set(all_ids(connection))
        found = [(row["message_id"], row["attempt"]) for row in rows if row["message_id"] in ids]
        assert sorted(found) == sorted((id, n) for id in ids for n in (1, 2))


def test_rows_that_change_in_place_are_not_read_on(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(connection, 600, payloads=[json.dumps({"args": ["x" * 40_000], "kwargs": {}})] * 600)
    monkeypatch.setattr(copying, "BLOCK", 1 << 20)
    options = read_options({"url": url, "table": "messages"})
    [part] = plan(options)

    with pytest.raises(SnapshotGone, match="table that changes was lost: load it again"):
        cut_off(batches(options, part), connection)


def test_spark_reads_each_row_once_where_its_connections_are_cut_off(
    load: Load, url: str, connection: Connection
) -> None:
    fill(connection, 1500)
    cut: set[int] = set()
    is_over = threading.Event()

    def cut_each_once() -> None:
        with psycopg.connect(url, autocommit=True) as other:
            while not is_over.wait(0.02):
                found = (
                    "SELECT pid FROM pg_stat_activity "
                    "WHERE datname = current_database() AND query LIKE 'COPY (SELECT m.%'"
                )
                for (pid,) in other.execute(found).fetchall():
                    if len(cut) < CUTS and pid not in cut:
                        cut.add(pid)
                        other.execute("SELECT pg_terminate_backend(%s)", [pid])

    cutting = threading.Thread(target=cut_each_once)
    cutting.start()
    try:
        found = load("history", columns="id, result", numPartitions="2").select("id").collect()
    finally:
        is_over.set()
        cutting.join()

    assert cut
    assert sorted(row.id for row in found) == sorted(all_ids(connection))
