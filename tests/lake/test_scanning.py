"""DuckDB reads the same rows as COPY does; where it refuses, COPY reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

from pgqueue.arrow import eventstream, streaming
from pgqueue.arrow.errors import DataLoss
from pgqueue.arrow.options import EARLIEST, StreamOptions
from pgqueue.arrow.tables import TABLES
from pgqueue.lake.extensions import quoted
from pgqueue.lake.scanning import SETTINGS, Scanner
from pgqueue.redaction import Redaction
from tests.factories import Connection, ended
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import raise_floor, store

FOLLOWED: list[tuple[str, ModuleType]] = [
    *((name, streaming) for name in ("history", "attempts", "steps")),
    ("events", eventstream),
]
ODD = {
    "payload": '{"a": "é\\u2028", "password": "hunter2"}',
    "body": b"\x00\xff",
    "key": '"quoted",\nkey',
    "run_at": "9999-12-28 23:59:59.999999+00",
    "created_at": "1960-02-03 04:05:06.789012+00",
    "worker_id": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "result": "null",
    "priority": -7,
    "errors": '[{"at": "2026-11-24T08:30:00+00:00", "class": "Oops", "attempt": 0}]',
    "steps": '{"steps": [{"name": "pay", "number": 1, "kind": "step", "state": "done"}]}',
}


@pytest.fixture
def scanner(url: str) -> Iterator[Scanner]:
    with closing(Scanner(url)) as scanner:
        yield scanner


def options_of(url: str, name: str, redact: str = "") -> StreamOptions:
    columns = TABLES[name].columns
    return StreamOptions(url=url, name=name, columns=columns, start=EARLIEST, redact=redact)


def whole(follow: ModuleType, options: StreamOptions) -> tuple[Any, Any]:
    """Return the first offset, and the range of all rows."""
    start = follow.first(options)
    end = follow.next_after(start, options, limit=None)
    [part] = follow.divide(options, start, end)
    return start, part


@pytest.mark.parametrize("redact", ["", Redaction().to_json()], ids=["unredacted", "redacted"])
@pytest.mark.parametrize(("name", "follow"), FOLLOWED, ids=[name for name, _ in FOLLOWED])
def test_it_reads_the_same_as_copy(
    name: str,
    follow: ModuleType,
    redact: str,
    url: str,
    connection: Connection,
    scanner: Scanner,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended(connection, 5)
    changed = ", ".join(f"{column} = %({column})s" for column in ODD)
    connection.execute(
        f"UPDATE pgqueue_history SET {changed}, started_at = finished_at WHERE id %% 2 = 0",  # noqa: S608
        ODD,
    )
    store(connection, 3, payload={"é": [None, 1.5, "\n"], "token": "secret"}, key="k")
    wait_for_horizon(url)
    options = options_of(url, name, redact)
    start, part = whole(follow, options)

    with caplog.at_level(logging.WARNING, "pgqueue"):
        scanned = scanner.read(follow, options, start, part)

    copied = pa.Table.from_batches(follow.read(options, start, part))
    assert caplog.messages == []
    assert scanned.num_rows > 1
    assert scanned.equals(copied)


def test_copy_reads_the_rows_that_duckdb_refuses(
    url: str,
    connection: Connection,
    scanner: Scanner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended(connection, 3)
    wait_for_horizon(url)
    options = options_of(url, "history")
    start, part = whole(streaming, options)
    monkeypatch.setattr(scanner, "_query", lambda sql: scanner._db.execute("SELECT broken"))

    rows = scanner.read(streaming, options, start, part)

    assert rows.num_rows == 3
    assert caplog.messages[0].startswith("DuckDB does not read history, so COPY does: Binder")


def test_the_error_that_it_logs_has_no_password(
    url: str,
    connection: Connection,
    scanner: Scanner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended(connection)
    wait_for_horizon(url)
    options = options_of(url, "history")
    start, part = whole(streaming, options)
    secret = make_conninfo(url, password="hunter2")  # the server trusts each connection
    monkeypatch.setattr(scanner, "_url", secret)

    def fail(sql: str) -> None:
        raise OSError(f'Unable to connect to "{secret}":\nthe server is gone')

    monkeypatch.setattr(scanner, "_query", fail)

    scanner.read(streaming, options, start, part)

    [said] = caplog.messages
    assert said.endswith('so COPY does: Unable to connect to "…": the server is gone')


def test_copy_reads_all_rows_where_duckdb_is_missing(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(connection, 3)
    wait_for_horizon(url)
    options = options_of(url, "history")
    start, part = whole(streaming, options)
    monkeypatch.setattr("pgqueue.lake.extensions.find_spec", lambda name: None)

    with closing(Scanner(url)) as scanner:
        assert scanner.read(streaming, options, start, part).num_rows == 3


@pytest.mark.parametrize("name", ["history", "events"])
def test_rows_that_retention_removes_meanwhile_are_an_error(
    name: str, url: str, connection: Connection, scanner: Scanner
) -> None:
    follow = dict(FOLLOWED)[name]
    ended(connection, 6)
    store(connection, 6)
    wait_for_horizon(url)
    options = options_of(url, name)
    first = follow.next_after(follow.first(options), options, limit=2)
    end = follow.next_after(first, options, limit=None)
    [part] = follow.divide(options, first, end)
    raise_floor(connection, 4)
    connection.execute(
        "INSERT INTO pgqueue_log_floor (log, position) "
        "SELECT 'history', max(txid) + 1 FROM pgqueue_history"
    )

    with pytest.raises(DataLoss, match="Retention has removed"):
        scanner.read(follow, options, first, part)


def test_its_session_has_the_settings_of_every_read(scanner: Scanner, url: str) -> None:
    names = ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    columns = ", ".join(f"c{number}" for number in range(len(SETTINGS)))
    shown = f"SELECT * FROM (SELECT {names}) AS s ({columns})"  # noqa: S608
    query = f"SELECT * FROM postgres_query('queue', {quoted(shown)})"  # noqa: S608

    [row] = scanner._query(query).to_pylist()

    assert list(row.values()) == list(SETTINGS.values())
