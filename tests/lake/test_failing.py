"""Exports to a lake that fails: the error, and the export after it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from pgqueue.arrow.targets import Progress
from pgqueue.lake import LakeFailed, opened
from pgqueue.lake.copies import copy
from pgqueue.lake.formats import LakePlace
from tests.factories import Connection, ended
from tests.lake.lakes import OurLake
from tests.lake.test_exporting import all_ids
from tests.spark.conftest import wait_for_horizon


@contextmanager
def full_disk() -> Iterator[None]:
    """Let this process write no file beyond its first bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_line_and_the_next_export_goes_on(
    lake: OurLake, connection: Connection
) -> None:
    ended(connection, 2)
    lake.export()
    ended(connection, 3)
    wait_for_horizon(lake.url)
    words = ("pgqueue_export", "--to", str(lake.folder), "--tables-format", lake.name)

    with full_disk(), pytest.raises(CommandError) as raised:
        call_command(*words)

    assert str(raised.value).startswith(f"The lake {lake.folder} has failed: ")
    assert "no row is lost or doubled" in str(raised.value)
    lake.export()
    assert lake.values("history", "id") == all_ids(connection)


def test_a_file_in_the_place_of_a_folder_is_named(lake: OurLake, connection: Connection) -> None:
    ended(connection, 2)
    lake.folder.write_text("a file")

    with pytest.raises(CommandError, match=str(lake.folder)):
        call_command("pgqueue_export", "--to", str(lake.folder), "--tables-format", lake.name)


def test_the_error_of_a_lost_catalog_has_no_password(
    url: str, connection: Connection, tmp_path: Path
) -> None:
    name = "lost_catalog"
    connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    given = conninfo_to_dict(url)
    secret = make_conninfo("", **{**given, "dbname": name, "password": "hunter2"})
    with closing(opened("ducklake", LakePlace(str(tmp_path), secret))) as lake:
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))

        with pytest.raises(LakeFailed) as raised:
            lake.create("history", pa.schema([("day", pa.date32())]))

    assert "hunter2" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_an_error_of_the_function_that_shows_progress_is_not_of_the_lake(
    delta: OurLake, connection: Connection
) -> None:
    def show(progress: Progress) -> None:
        raise BrokenPipeError("Broken pipe")

    ended(connection)

    with pytest.raises(BrokenPipeError):
        delta.export(progress=show)


@pytest.mark.parametrize("is_of_the_lake", [True, False], ids=["lake", "copy"])
def test_a_copy_that_fails_names_the_lake_only_if_it_cannot_be_read(
    delta: OurLake,
    connection: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_of_the_lake: bool,
) -> None:
    ended(connection, 2)
    delta.export()
    if is_of_the_lake:
        for file in delta.folder.glob("history/day=*/*.parquet"):
            file.write_bytes(b"no Parquet")

    def fail(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_batch", fail)

    with pytest.raises(LakeFailed if is_of_the_lake else OSError) as raised:
        copy(
            url=delta.url,
            of=str(delta.folder),
            tables_format=delta.name,
            tables={"history": ("id",)},
            into=tmp_path / "copy",
        )

    assert ("Parquet" in str(raised.value)) == is_of_the_lake


@pytest.mark.parametrize("lake", ["ducklake"], indirect=True)
def test_a_catalog_that_refuses_a_commit_is_no_conflict(
    lake: OurLake, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckLake's error is the same as for a conflict, except for its text."""
    ended(connection)
    lake.export()
    connection.execute(
        "CREATE FUNCTION pgqueue_lake.full() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN RAISE disk_full USING MESSAGE = 'No space left on device'; END $$;"
        "CREATE TRIGGER full_disk BEFORE INSERT ON pgqueue_lake.ducklake_snapshot "
        "FOR EACH ROW EXECUTE FUNCTION pgqueue_lake.full()"
    )
    ended(connection)
    pauses: list[float] = []
    # For this module alone: other code of the process sleeps, too.
    monkeypatch.setattr("pgqueue.lake.formats.time", SimpleNamespace(sleep=pauses.append))

    with pytest.raises(LakeFailed, match="No space left on device") as raised:
        lake.export()

    assert pauses == []
    assert "\n" not in str(raised.value)
    connection.execute("DROP TRIGGER full_disk ON pgqueue_lake.ducklake_snapshot")
    lake.export()
    assert lake.values("history", "id") == all_ids(connection)
    # DuckDB keeps the session whose commit has failed, also after it is closed.
    connection.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = '' AND query = 'DISCARD ALL'"
    )
