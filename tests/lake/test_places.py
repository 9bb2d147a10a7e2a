"""The place of a lake: its folder, and its catalog, which are of one lake."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgqueue.database.connections import conninfo
from pgqueue.lake import CatalogUnreachable
from tests.factories import Connection, ended
from tests.lake.lakes import InDelta, InDuckLake, OurLake
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
