"""`pgqueue_export --tables-format`, and the errors of its options."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgqueue.lake import CatalogUnreachable, MissingPackage, opened
from pgqueue.lake.formats import LakePlace
from pgqueue.models import Export
from tests import programs
from tests.factories import Connection, ended
from tests.lake.lakes import OurLake
from tests.lake.test_exporting import all_ids
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import store

PACKAGES = {"ducklake": "duckdb", "delta": "deltalake", "iceberg": "pyiceberg"}


@pytest.mark.usefixtures("all_tables")
def test_it_says_how_many_rows_are_new(
    lake: OurLake, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(connection, 3)
    store(connection, 2)
    wait_for_horizon(lake.url)
    arguments = ("pgqueue_export", "--to", str(lake.folder), "--tables-format", lake.name)

    call_command(*arguments, "--format", "json")
    first = json.loads(capsys.readouterr().out)
    call_command(
        *(*arguments, "--compact", "--expire", "0", "--by-channel", "--unredacted"),
        *("--events", "tests.lake.test_event_tables.Paid"),
    )
    second = capsys.readouterr().out

    assert {name: first[name] for name in ("history", "events", "deadletters", "held")} == {
        "history": 3,
        "events": 2,
        "deadletters": 0,
        "held": 0,
    }
    assert "0 messages that ended, 0 attempts, 0 steps, 0 events, 0 dead letters" in second
    assert "Typed events: 0 in events_lake_paid." in second
    assert lake.values("history", "id") == all_ids(connection)
    call_command("pgqueue_export", "--forget", str(lake.folder))
    assert not Export.objects.exists()


@pytest.mark.parametrize(
    "option",
    [
        "--catalog=env:X",
        "--source=eu",
        "--events=all",
        "--by-channel",
        "--compact",
        "--expire=9",
        "--expire=0",
    ],
)
def test_an_option_of_lakes_is_refused_for_parquet(option: str, url: str) -> None:
    if not programs.have("pyspark"):
        pytest.skip("PySpark is missing")
    name = option.partition("=")[0]

    with pytest.raises(CommandError, match=f"{name} needs --tables-format ducklake, delta or"):
        call_command("pgqueue_export", "--to=/lake", option)


def test_a_catalog_is_refused_for_delta(url: str) -> None:
    with pytest.raises(CommandError, match="Delta has no catalog: leave out --catalog"):
        call_command("pgqueue_export", "--to=/lake", "--tables-format=delta", "--catalog=env:X")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_is_named_with_its_extra(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == PACKAGES[name]]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, PACKAGES[name], None)

    with pytest.raises(MissingPackage, match=rf"needs {PACKAGES[name]}: .*pgqueue\[{name}\]"):
        opened(name, LakePlace(str(tmp_path)))


def test_an_extension_of_another_duckdb_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from pgqueue.arrow.extensions import duckdb_with

    with pytest.raises(MissingPackage, match="needs the package duckdb-extension-spatial of the"):
        duckdb_with("spatial")


def test_an_error_of_a_catalog_has_no_password(tmp_path: Path, url: str) -> None:
    secret = "postgresql://somebody:hunter2@127.0.0.1:1/nowhere"
    for name in ("ducklake", "iceberg"):
        with pytest.raises(CatalogUnreachable) as caught:
            opened(name, LakePlace(str(tmp_path / name), secret))
        assert "hunter2" not in str(caught.value)


def test_an_iceberg_in_an_object_store_needs_a_catalog() -> None:
    with pytest.raises(CatalogUnreachable, match="s3://lake need a catalog elsewhere"):
        opened("iceberg", LakePlace("s3://lake"))


def test_iceberg_takes_a_catalog_in_postgresql(
    url: str, connection: Connection, tmp_path: Path
) -> None:
    from psycopg.conninfo import conninfo_to_dict

    from pgqueue.lake import export

    given = conninfo_to_dict(url)
    catalog = (
        f"postgresql://{given['user']}@/{given['dbname']}?host={given['host']}&port={given['port']}"
    )
    ended(connection, 2)
    wait_for_horizon(url)
    try:
        for _ in range(2):
            export(url=url, to=str(tmp_path), tables_format="iceberg", catalog=catalog)
        opened_again = opened("iceberg", LakePlace(str(tmp_path), catalog))

        assert opened_again.position("history")
        opened_again.close()
    finally:
        connection.execute(
            "DROP TABLE IF EXISTS iceberg_tables, iceberg_namespace_properties CASCADE"
        )
