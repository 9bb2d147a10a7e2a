"""A row with values that Spark can't show stops no read, no export and no report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.sql import SQL, Identifier

from pgqueue.arrow import copying
from pgqueue.arrow.tables import TABLES, Column, Type
from pgqueue.spark.export import export
from pgqueue.spark.pipeline.runs import runs
from pgqueue.spark.pipeline.sources import Folder
from tests.factories import Connection, bury, ended
from tests.spark.conftest import Read, wait_for_horizon
from tests.spark.log import store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, LAST = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
NEAREST = {
    "infinity": LAST,
    "-infinity": FIRST,
    "0044-03-15 12:00+00 BC": FIRST,
    "10000-01-01 00:00+00": LAST,
}
TABLES_OF_ROWS = ("pgqueue_message", "pgqueue_history", "pgqueue_event")


@pytest.fixture
def unchecked(connection: Connection) -> Iterator[None]:
    """Tables as they were before they had constraints."""
    checks = connection.execute(
        """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
           WHERE conrelid = ANY (%s::regclass[]) AND contype = 'c' AND conislocal""",
        [list(TABLES_OF_ROWS)],
    ).fetchall()
    for table, name, _ in checks:
        connection.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
    yield
    for table in TABLES_OF_ROWS:
        connection.execute(SQL("DELETE FROM {}").format(Identifier(table)))
    for table, name, definition in checks:
        connection.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}')


@pytest.fixture
def odd(unchecked: None, connection: Connection) -> None:
    """Store a row of history, an event and a dead letter for each time that Spark can't show."""
    ended(connection, len(NEAREST) + 1)
    store(connection, len(NEAREST) + 1)
    dead = bury(connection, 3)
    for number, value in enumerate(NEAREST):
        connection.execute(
            """UPDATE pgqueue_history SET created_at = %s, claimed_at = %s, started_at = %s
               WHERE id = (SELECT id FROM pgqueue_history ORDER BY id OFFSET %s LIMIT 1)""",
            [value, value, value, number],
        )
        connection.execute(
            "UPDATE pgqueue_event SET created_at = %s "
            "WHERE position = (SELECT min(position) FROM pgqueue_event) + %s",
            [value, number],
        )
    for id, errors in zip(dead, ('[{"at": "never"}]', '[{"at": "infinity"}]'), strict=False):
        connection.execute("UPDATE pgqueue_message SET errors = %s WHERE id = %s", [errors, id])


@pytest.mark.usefixtures("odd")
def test_a_time_is_the_nearest_that_spark_can_show(read: Read) -> None:
    history = read("history", columns="id, created_at, claimed_at, started_at").to_pylist()
    history.sort(key=lambda row: row["id"])
    for row, nearest in zip(history, NEAREST.values(), strict=False):
        assert (row["created_at"], row["claimed_at"], row["started_at"]) == (nearest,) * 3
    logged = read("events", columns="created_at").to_pylist()
    assert [row["created_at"] for row in logged][: len(NEAREST)] == [*NEAREST.values()]
    letters = read("deadletters", columns="id, died_at").to_pylist()
    died = [row["died_at"] for row in sorted(letters, key=lambda row: row["id"])]
    assert died[:2] == [None, LAST]
    assert FIRST < died[2] < LAST
    for table in TABLES:
        read(table)


def test_errors_that_are_no_list_have_no_attempts(
    unchecked: None, connection: Connection, read: Read
) -> None:
    ended(connection, 2)
    connection.execute(
        """UPDATE pgqueue_history SET errors = '{"a": 7}', started_at = created_at"""
    )

    assert [row["outcome"] for row in read("attempts").to_pylist()] == ["succeeded"] * 2


@pytest.mark.usefixtures("odd")
def test_an_export_goes_on_and_counts_the_rows(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    wait_for_horizon(url)

    first = export(spark, url=url, to=str(tmp_path))
    ended(connection, 1)
    wait_for_horizon(url)
    second = export(spark, url=url, to=str(tmp_path))

    assert first._replace(held=0, held_by="") == (5, 3, 5, 0, "", 4 + 4 + 2)
    # Dead letters are written each time.
    assert second._replace(held=0, held_by="") == (1, 3, 0, 0, "", 2)
    assert spark.read.parquet(f"{tmp_path}/history").count() == 6
    tables = Folder(str(tmp_path)).read(spark, None, None)
    assert len(runs(tables.history, tables.deadletters).collect()) == 9


@pytest.mark.parametrize(
    ("type", "given", "shown"),
    [
        (Type.TEXT, b'"a\xffb"', "a\ufffdb"),
        (Type.TEXT, b'""', ""),
        (Type.BIGINT, b"99999999999999999999", None),
        (Type.INT, b"7", 7),
        (Type.BOOLEAN, b"maybe", None),
        (Type.BOOLEAN, b"f", False),
        (Type.TIMESTAMP, b"44-03-15 BC", None),
        (
            Type.TIMESTAMP,
            b"2026-11-24 10:00:00.5+00",
            datetime(2026, 11, 24, 10, 0, 0, 500_000, UTC),
        ),
        (Type.BINARY, b"\\x00ff", b"\x00\xff"),
        (Type.TEXT, b"", None),
    ],
)
def test_what_arrow_refuses_costs_one_value(type: Type, given: bytes, shown: Any) -> None:
    columns = [
        Column("id", Type.BIGINT, ""),
        Column("value", type, ""),
        Column("bad", Type.INT, ""),
    ]
    rows = [b"1,1," + given + b",5\n", b"2,2,,x\n"]

    found = [row for batch in copying._parsed(rows, columns) for row in batch.to_pylist()]

    assert found == [
        {"id": 1, "value": shown, "bad": 5},
        {"id": 2, "value": None, "bad": None},
    ]
