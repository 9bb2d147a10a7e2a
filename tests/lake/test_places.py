"""The place of a lake: its folder, and its catalog, which are of one lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgqueue.arrow.errors import InvalidOption
from pgqueue.arrow.extensions import duckdb_with
from pgqueue.database.connections import conninfo
from pgqueue.lake import CatalogUnreachable, opened
from pgqueue.lake.copies import copy
from pgqueue.lake.formats import LakePlace
from tests.factories import Connection, ended
from tests.lake.lakes import InDelta, InDuckLake, InIceberg, OurLake
from tests.lake.test_exporting import all_ids


@pytest.fixture
def ducklake(url: str, connection: Connection, tmp_path: Path) -> Iterator[OurLake]:
    """A DuckLake with the default catalog."""
    yield InDuckLake(url, tmp_path / "lake")
    connection.execute("DROP SCHEMA IF EXISTS pgqueue_lake CASCADE")


class TestADuckLake:
    def test_keeps_the_files_of_other_lakes_below_its_folder(
        self, ducklake: OurLake, connection: Connection
    ) -> None:
        ended(connection, 2)
        ducklake.export()
        below = InDelta(ducklake.url, ducklake.folder / "main" / "delta")
        below.export()
        beside = ducklake.folder / "notes.parquet"
        parquet.write_table(pa.table({"a": [1]}), beside)

        ducklake.export(compact=True, expire=timedelta())

        assert below.values("history", "id") == all_ids(connection)
        assert beside.exists()

    @pytest.mark.django_db(transaction=True, databases=["default", "second"])
    def test_is_refused_in_a_folder_that_has_one_of_another_catalog(
        self, ducklake: OurLake, connection: Connection
    ) -> None:
        ended(connection, 2)
        ducklake.export()
        catalog = conninfo("second")

        with pytest.raises(
            CatalogUnreachable, match=f"{ducklake.folder} has files of another DuckLake"
        ):
            ducklake.export(catalog=catalog)

        with psycopg.connect(catalog) as second:
            row = second.execute("SELECT to_regnamespace('pgqueue_lake')").fetchone()
        assert row == (None,)
        assert ducklake.values("history", "id") == all_ids(connection)

    def test_is_refused_in_another_folder_than_its_catalog_has(
        self, ducklake: OurLake, tmp_path: Path
    ) -> None:
        ducklake.export()
        other = InDuckLake(ducklake.url, tmp_path / "other")

        with pytest.raises(
            CatalogUnreachable,
            match=f"of {other.folder} does not open: .* in {ducklake.folder}/. .*own: another",
        ):
            other.export()

        assert not other.folder.exists()

    def test_begins_a_table_again_that_was_dropped(
        self, ducklake: OurLake, connection: Connection
    ) -> None:
        ended(connection, 2)
        ducklake.export()
        db = duckdb_with("ducklake", "postgres_scanner")
        db.execute(
            f"ATTACH 'ducklake:postgres:{ducklake.url}' AS lake (METADATA_SCHEMA 'pgqueue_lake')"
        )
        db.execute("DROP TABLE lake.history")
        db.close()
        ended(connection)

        ducklake.export()

        assert ducklake.values("history", "id") == all_ids(connection)


@pytest.mark.parametrize(("first", "second"), [(InDelta, InIceberg), (InIceberg, InDelta)])
def test_a_folder_with_an_export_of_another_format_is_refused(
    url: str, connection: Connection, tmp_path: Path, first: type[OurLake], second: type[OurLake]
) -> None:
    ended(connection)
    first(url, tmp_path).export()

    with pytest.raises(InvalidOption, match=f"has an export of the format {first.name}: export"):
        second(url, tmp_path).export()

    first(url, tmp_path).export()


class TestAnIcebergLake:
    def test_is_refused_where_the_catalog_of_its_tables_is_gone(
        self, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        lake = InIceberg(url, tmp_path / "lake")
        ended(connection)
        lake.export()
        (lake.folder / "catalog.db").rename(tmp_path / "kept.db")

        with pytest.raises(CatalogUnreachable, match="the folder has tables of another catalog"):
            lake.export()

        lake.export(catalog=f"sqlite:///{tmp_path}/kept.db")

    def test_is_refused_in_another_folder_than_its_catalog_has(
        self, url: str, tmp_path: Path
    ) -> None:
        catalog = f"sqlite:///{tmp_path}/both.db"
        first, other = (InIceberg(url, tmp_path / name) for name in ("first", "other"))
        first.export(catalog=catalog)

        with pytest.raises(
            CatalogUnreachable,
            match=f"of {other.folder} .* history of another lake, in file://{first.folder}/",
        ):
            other.export(catalog=catalog)

    def test_refuses_a_catalog_that_is_no_url_without_its_text(self, tmp_path: Path) -> None:
        place = LakePlace(str(tmp_path), "postgresql://me@server:hunter2/db")

        with pytest.raises(InvalidOption, match="no URL that SQLAlchemy reads") as raised:
            opened("iceberg", place)

        assert "hunter2" not in str(raised.value)

    def test_makes_no_file_where_it_is_only_read(self, tmp_path: Path) -> None:
        catalog = f"sqlite:///{tmp_path}/catalog it's.db"

        with pytest.raises(CatalogUnreachable):
            opened("iceberg", LakePlace(str(tmp_path), catalog, is_read_only=True))
        before = [*tmp_path.iterdir()]
        opened("iceberg", LakePlace(str(tmp_path), catalog)).close()
        with closing(
            opened("iceberg", LakePlace(str(tmp_path), catalog, is_read_only=True))
        ) as lake:
            found = lake.columns("history")

        assert (before, found) == ([], None)
        assert [each.name for each in tmp_path.iterdir()] == ["catalog it's.db"]


@pytest.mark.parametrize("name", ["a b", "it's", "%20", "{}"])
def test_each_row_is_read_again_from_a_folder_with_this_name(
    lake: OurLake, connection: Connection, tmp_path: Path, name: str
) -> None:
    ended(connection, 2)
    lake.folder = tmp_path / "lakes" / name
    if (lake.name, name) == ("delta", "%20"):
        with pytest.raises(InvalidOption, match="delta-rs writes to no folder with '%'"):
            lake.export()
        return

    lake.export()
    ended(connection, 1)
    lake.export()

    assert read(lake, tmp_path / "copy") == all_ids(connection)
    assert [each.name for each in (tmp_path / "lakes").iterdir()] == [name]


def read(lake: OurLake, into: Path) -> list[Any]:
    """Return the ids in the history of a lake, in the order of their text."""
    copy(
        url=lake.url,
        of=str(lake.folder),
        tables_format=lake.name,
        tables={"history": ("id",)},
        into=into,
    )
    return sorted(parquet.read_table(into / "history")["id"].to_pylist(), key=str)


@pytest.mark.parametrize(
    ("tables_format", "name"),
    [
        ("iceberg", "a#b"),
        ("iceberg", "a?b"),
        ("delta", "a[b"),
        ("delta", "a|b"),
        ("ducklake", "a\\b"),
    ],
)
def test_a_folder_that_the_writer_reads_in_another_way_is_refused(
    tables_format: str, name: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match=r"writes to no folder with '.+' in its path"):
        opened(tables_format, LakePlace(str(tmp_path / name)))

    assert [*tmp_path.iterdir()] == []


def test_a_delta_lake_without_rows_may_be_of_another_database(tmp_path: Path) -> None:
    """An export that is killed before its first rows has only named its database."""
    rows = pa.table({"id": [1], "day": pa.array([0], pa.date32())})
    with closing(opened("delta", LakePlace(str(tmp_path)))) as lake:
        lake.create("history", rows.schema)
        lake._describe(lake._open("history"), "first")  # type: ignore[attr-defined]
        known = dict(lake.databases("history"))
        position = {"database": "other", "txid": 1, "id": 1, "marker": None}

        lake.append("history", rows, position, after=None)

        assert known == {}
        assert lake.position("history") == position
        assert lake.databases("history") == {"": "other"}
