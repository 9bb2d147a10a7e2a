"""DuckDB reads the same rows as COPY does; COPY reads those that it refuses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from types import ModuleType
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

from pgqueue.arrow import copying, eventstream, extensions, scanning, streaming
from pgqueue.arrow.options import EARLIEST, StreamOptions, read_options
from pgqueue.arrow.planning import plan
from pgqueue.arrow.reading import batches
from pgqueue.arrow.tables import TABLES
from pgqueue.redaction import Redaction
from tests.eventually import eventually
from tests.factories import Connection, bury, ended, enqueue, register
from tests.spark.conftest import Read, wait_for_horizon
from tests.spark.log import store

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
    "errors": '[{"at": "2026-11-24T08:30:00+00:00", "class": "Oops", "attempt": 0}, '
    '{"at": "2026-11-24T08:31:00+00:00", "class": "Oops", "attempt": 1}]',
    "steps": '{"steps": [{"name": "pay", "number": 1, "kind": "step", "state": "done"}]}',
}
SCANNING = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%spark scan'"
THREADS = "SELECT current_setting('threads')"


@pytest.fixture(autouse=True)
def _duckdb_reads_few_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "LEAST", 0)
    monkeypatch.setattr(scanning, "SAMPLE", 1)


@pytest.fixture
def _no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the test fail where COPY reads more than the first row."""
    read = copying.read

    def read_first(connection: Any, query: Any, columns: Any) -> Any:
        assert "FETCH FIRST 1 ROWS ONLY" in query.as_string(connection), "COPY has read all rows"
        return read(connection, query, columns)

    monkeypatch.setattr(copying, "read", read_first)


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have DuckDB give each row by itself."""
    monkeypatch.setattr(scanning, "BATCH", 1)
    monkeypatch.setattr(scanning, "BLOCK", 0)


def by_copy(read: Callable[[], pa.Table]) -> pa.Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "LEAST", float("inf"))
        return read()


def options_of(url: str, name: str, redact: str = "") -> StreamOptions:
    columns = TABLES[name].columns
    return StreamOptions(url=url, name=name, columns=columns, start=EARLIEST, redact=redact)


def followed(follow: ModuleType, options: StreamOptions) -> Iterator[pa.RecordBatch]:
    """Read all rows of a stream."""
    start = follow.first(options)
    end = follow.next_after(start, options, limit=None)
    [part] = follow.divide(options, start, end)
    return follow.read(options, start, part)  # type: ignore[no-any-return]


def fill(connection: Connection) -> None:
    """Store rows in each table, and odd values in some."""
    ended(connection, 5)
    changed = ", ".join(f"{column} = %({column})s" for column in ODD)
    connection.execute(
        f"UPDATE pgqueue_history SET {changed}, started_at = finished_at WHERE id %% 2 = 0",  # noqa: S608
        ODD,
    )
    register(connection)
    bury(connection)
    enqueue(connection, key='"quoted",\nkey')
    store(connection, 3, payload={"é": [None, 1.5, "\n"], "token": "secret"}, key="k")


@pytest.mark.parametrize("redact", ["", Redaction().to_json()], ids=["unredacted", "redacted"])
@pytest.mark.parametrize(("name", "follow"), FOLLOWED, ids=[name for name, _ in FOLLOWED])
def test_it_follows_the_same_as_copy(
    name: str,
    follow: ModuleType,
    redact: str,
    url: str,
    connection: Connection,
    request: pytest.FixtureRequest,
) -> None:
    fill(connection)
    wait_for_horizon(url)
    options = options_of(url, name, redact)
    copied = by_copy(lambda: pa.Table.from_batches(followed(follow, options)))

    request.getfixturevalue("_no_copy")
    scanned = pa.Table.from_batches(followed(follow, options))

    assert scanned.num_rows > 1
    assert scanned.equals(copied)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"redact": "true"},
        {"since": "1970-01-01T00:00:00Z", "until": "2999-01-01T00:00:00Z", "numPartitions": "2"},
        {"columns": "key, id"},
    ],
    ids=["all", "redacted", "times", "columns"],
)
@pytest.mark.parametrize("name", TABLES)
def test_it_reads_the_same_as_copy(
    name: str,
    given: dict[str, str],
    read: Read,
    connection: Connection,
    request: pytest.FixtureRequest,
) -> None:
    if not {each.strip() for each in given.get("columns", "").split(",")} <= {
        "",
        *TABLES[name].names,
    }:
        given = {"columns": TABLES[name].columns[0].name}
    fill(connection)
    copied = by_copy(lambda: read(name, **given))

    request.getfixturevalue("_no_copy")
    scanned = read(name, **given)

    assert scanned.equals(copied)
    assert scanned.num_rows or name in ("flows", "dependencies")


@pytest.mark.usefixtures("_no_copy")
@pytest.mark.parametrize(
    ("name", "given", "count"),
    [
        ("messages", {"key": "it's"}, 2),
        ("messages", {"channel": '["b", "c"]'}, 2),
        ("messages", {"since": "2999-01-01T00:00:00Z"}, 0),
        ("events", {"topic": '["it\'s.*", "b"]'}, 2),
    ],
    ids=str,
)
def test_it_has_the_values_that_a_query_reads(
    name: str, given: dict[str, str], count: int, read: Read, connection: Connection
) -> None:
    for key, channel in (("it's", "c"), ("it's", "ab"), ("other", "b"), ("other", "a")):
        enqueue(connection, key=key, channel=channel)
    for topic in ("it's.one", "b", "other"):
        store(connection, topic=topic)

    assert read(name, **given).num_rows == count


@pytest.mark.usefixtures("_no_copy")
def test_it_sees_the_rows_that_the_reader_sees(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(connection)
    options = read_options({"url": url, "table": "messages", "numPartitions": "1"})
    [part] = plan(options)
    is_worthwhile = scanning.is_worthwhile

    def commit_another(*given: Any) -> bool:
        enqueue(connection)
        return is_worthwhile(*given)

    monkeypatch.setattr(scanning, "is_worthwhile", commit_another)

    assert sum(each.num_rows for each in batches(options, part)) == 1


@pytest.mark.usefixtures("_no_copy")
def test_its_session_has_the_settings_of_the_reader(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        *("jit", "enable_seqscan", "enable_bitmapscan", "statement_timeout", "TimeZone"),
        *("transaction_isolation", "transaction_read_only", "lock_timeout"),
    ]
    ended(connection)
    wait_for_horizon(url)
    seen: list[dict[str, str]] = []

    def settings(name: str, *_: object) -> str:
        shown = ", ".join(f"current_setting('{each}')" for each in names)
        columns = ", ".join(f'"{each}"' for each in names)
        query = f"SELECT * FROM (SELECT {shown}) AS s ({columns})"  # noqa: S608
        return f"SELECT * FROM postgres_query('{name}', {extensions.quoted(query)})"  # noqa: S608

    def keep(found: Iterator[pa.Table]) -> Iterator[pa.Table]:
        seen.extend(row for rows in found for row in rows.to_pylist())
        yield from ()

    monkeypatch.setattr(scanning, "_scan", settings)
    monkeypatch.setattr(scanning, "_whole_places", keep)

    assert list(followed(streaming, options_of(url, "history"))) == []

    values = ("off", "off", "off", "0", "UTC", "repeatable read", "on", "1s")
    assert seen == [dict(zip(names, values, strict=True))]


def test_the_rows_of_a_place_stay_together(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a read that goes on after an outage would leave some attempts of a message out."""
    fill(connection)
    wait_for_horizon(url)
    one_by_one(monkeypatch)

    found = [
        each["message_id"].to_pylist() for each in followed(streaming, options_of(url, "attempts"))
    ]

    assert max(map(len, found)) > 1
    assert len(found) == len({each for ids in found for each in ids})


def cut(monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception], *, after: int = 2) -> None:
    """Have DuckDB fail after its first rows."""
    start = scanning._batches

    def fail_later(*given: Any) -> Iterator[pa.RecordBatch]:
        with scanning.closing(start(*given)) as found:
            yield from islice(found, after)
            raise error()

    monkeypatch.setattr(scanning, "_batches", fail_later)
    one_by_one(monkeypatch)


@pytest.mark.parametrize("name", ["history", "attempts", "events"])
def test_copy_reads_the_rows_that_duckdb_refuses(
    name: str,
    url: str,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(connection)
    wait_for_horizon(url)
    options = options_of(url, name)
    follow = dict(FOLLOWED)[name]
    copied = by_copy(lambda: pa.Table.from_batches(followed(follow, options)))
    duckdb = extensions.needed("duckdb", "ducklake")
    cut(monkeypatch, lambda: duckdb.InvalidInputException("no UTF-8"))

    with caplog.at_level(logging.WARNING, "pgqueue"):
        rows = pa.Table.from_batches(followed(follow, options))

    assert rows.equals(copied)
    assert caplog.messages == [f"DuckDB does not read {name}, so COPY does: no UTF-8"]


@pytest.mark.parametrize("after", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["history", "attempts"])
def test_copy_reads_the_other_blocks_of_a_table(
    name: str, after: int, read: Read, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both attempts of a message are in its block."""
    fill(connection)
    copied = by_copy(lambda: read(name))
    cut(monkeypatch, lambda: pa.ArrowInvalid("out of range"), after=after)

    assert read(name).equals(copied)


def test_the_error_that_it_logs_has_no_password(
    url: str,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended(connection, 3)
    wait_for_horizon(url)
    secret = make_conninfo(url, password="hunter2")  # the server trusts each connection
    duckdb = extensions.needed("duckdb", "ducklake")
    shown = scanning._conninfo(secret)
    cut(monkeypatch, lambda: duckdb.IOException(f'Unable to connect to "{shown}":\nit is gone'))

    rows = list(followed(streaming, options_of(secret, "history")))

    assert sum(each.num_rows for each in rows) == 3
    [said] = caplog.messages
    assert "hunter2" in shown
    assert said.endswith('so COPY does: Unable to connect to "…": it is gone')


def test_copy_reads_all_rows_where_duckdb_is_missing(
    url: str,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    ended(connection, 3)
    wait_for_horizon(url)
    monkeypatch.setattr(extensions, "find_spec", lambda name: None)
    scanning._duckdb.cache_clear()
    request.addfinalizer(scanning._duckdb.cache_clear)

    found = followed(streaming, options_of(url, "history"))

    assert sum(each.num_rows for each in found) == 3


def test_copy_reads_few_rows(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of DuckDB takes longer than a small read."""
    monkeypatch.setattr(scanning, "LEAST", 20_000)
    monkeypatch.setattr(scanning, "read", None)
    ended(connection, 3)
    wait_for_horizon(url)

    assert len(list(followed(streaming, options_of(url, "history")))) == 1


def test_copy_reads_large_rows(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vector of DuckDB has 2 048 rows."""
    monkeypatch.setattr(scanning, "read", None)
    ended(connection, 3)
    connection.execute(
        "UPDATE pgqueue_history SET payload = jsonb_build_object('text', repeat('x', 20000))"
    )
    wait_for_horizon(url)

    rows = followed(streaming, options_of(url, "history"))

    assert sum(each.num_rows for each in rows) == 3


def test_copy_goes_on_where_rows_become_large(
    url: str,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended(connection, 3)
    wait_for_horizon(url)
    one_by_one(monkeypatch)
    monkeypatch.setattr(scanning, "MOST", 100)

    rows = list(followed(streaming, options_of(url, "history")))

    assert [each.num_rows for each in rows] == [1, 2]
    assert caplog.messages == ["DuckDB does not read history, so COPY does: its rows are too large"]


def test_it_does_not_wait_for_who_waits_for_the_reader(
    url: str,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended(connection, 3)
    wait_for_horizon(url)
    is_worthwhile = scanning.is_worthwhile
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    altered = threading.Event()

    def alter() -> None:
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE pgqueue_history IN ACCESS EXCLUSIVE MODE")
        altered.set()

    def is_altered_meanwhile(*given: Any) -> bool:
        found = is_worthwhile(*given)  # the reader has locked the table since
        threading.Thread(target=alter).start()
        eventually(lambda: connection.execute(waits).fetchone() == (1,), within=20)
        return found

    monkeypatch.setattr(scanning, "is_worthwhile", is_altered_meanwhile)

    rows = list(followed(streaming, options_of(url, "history")))

    assert sum(each.num_rows for each in rows) == 3
    assert "so COPY does" in caplog.text
    assert altered.wait(20)


@pytest.mark.usefixtures("_no_copy")
def test_its_session_ends_with_the_read(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(connection, 5)
    wait_for_horizon(url)
    one_by_one(monkeypatch)
    found = followed(streaming, options_of(url, "history"))
    next(found)
    assert connection.execute(SCANNING).fetchone() == (1,)

    found.close()  # type: ignore[attr-defined]

    eventually(lambda: connection.execute(SCANNING).fetchone() == (0,), within=20)
    assert sum(each.num_rows for each in followed(streaming, options_of(url, "history"))) == 5


@pytest.mark.parametrize("name", ["history", "events", "attempts"])
def test_a_read_goes_on_after_an_outage(
    name: str, url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(connection)
    wait_for_horizon(url)
    one_by_one(monkeypatch)
    options = options_of(url, name)
    follow = dict(FOLLOWED)[name]
    copied = by_copy(lambda: pa.Table.from_batches(followed(follow, options)))
    found = followed(follow, options)
    rows = [next(found)]

    connection.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name LIKE '%spark stream read' OR application_name LIKE '%spark scan'"
    )

    assert pa.Table.from_batches([*rows, *found]).equals(copied)


@pytest.mark.usefixtures("_no_copy")
def test_two_reads_may_go_on_at_once(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(connection, 5)
    wait_for_horizon(url)
    one_by_one(monkeypatch)
    reads = [followed(streaming, options_of(url, "history")) for _ in range(2)]

    found = list(zip(*reads, strict=True))

    assert len(found) == 5
    assert all(one.equals(other) for one, other in found)


@pytest.mark.parametrize(("given", "threads"), [("1", 1), ("2", 2), ("0", None), ("many", None)])
def test_it_has_as_many_threads_as_spark_gives_its_tasks(
    monkeypatch: pytest.MonkeyPatch, given: str, threads: int | None
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    default = scanning._duckdb.__wrapped__(0).execute(THREADS).fetchall()
    monkeypatch.setenv("OMP_NUM_THREADS", given)

    db = scanning._duckdb.__wrapped__(0)

    assert db.execute(THREADS).fetchall() == ([(threads,)] if threads else default)
