"""Tables of a lake as files of Parquet: exactly the rows of its last snapshot."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from psycopg.conninfo import conninfo_to_dict
from pyarrow import parquet

from pgqueue.lake import CatalogUnreachable, Lake, NoTable, OtherSource, opened
from pgqueue.lake.copies import copy
from pgqueue.lake.formats import LakePlace
from tests import programs
from tests.factories import Connection
from tests.lake.lakes import OurLake
from tests.lake.test_exporting import place_of
from tests.lake.test_sources import EU, TABLE, US, YESTERDAY, append, both, rows_of

__all__ = ["both"]

EARLIER = YESTERDAY - timedelta(days=9)


def copied(lake: OurLake, into: Path, **given: Any) -> list[int]:
    """Return the ids in the copy of a table."""
    copy(
        url=lake.url,
        of=str(lake.folder),
        tables_format=lake.name,
        tables={TABLE: ("id", "unheard_of")},
        into=into,
        **{"catalog": place_of(lake).catalog, **given},
    )
    found = parquet.read_table(into / TABLE)
    assert found.column_names == ["id", "day"]
    return sorted(found["id"].to_pylist())


class TestACopy:
    def test_has_the_rows_of_one_source_and_of_some_days(
        self, lake: OurLake, both: dict[str, Lake], tmp_path: Path
    ) -> None:
        append(both, EU, 1, 2)
        append(both, US, 3, day=EARLIER)
        both[EU].replace(TABLE, rows_of(EU, [7, 8], EARLIER))
        append(both, EU, 9, after=2)
        append(both, EU, 10, after=9, day=EARLIER - timedelta(days=1))

        found = copied(lake, tmp_path / "some", source=EU, since=EARLIER, until=EARLIER)

        assert found == [7, 8]
        with pytest.raises(OtherSource, match="has rows of several databases"):
            copied(lake, tmp_path / "refused")

    def test_of_a_lake_without_sources_has_all_rows(self, lake: OurLake, tmp_path: Path) -> None:
        rows = rows_of("", [1, 2], YESTERDAY).drop_columns(["source"])
        with closing(opened(lake.name, place_of(lake))) as ours:
            ours.create(TABLE, rows.schema)
            ours.append(TABLE, rows, {"database": "d", "txid": 1, "id": 2, "marker": 3}, after=None)

        assert copied(lake, tmp_path / "all") == [1, 2]

    def test_of_no_lake_is_refused(
        self, lake: OurLake, connection: Connection, tmp_path: Path
    ) -> None:
        with pytest.raises(NoTable, match="There is no folder .*: export to it first"):
            copied(lake, tmp_path)
        lake.folder.mkdir()
        with pytest.raises((NoTable, CatalogUnreachable), match=r"has no table history|catalog"):
            copied(lake, tmp_path)
        assert connection.execute("SELECT to_regnamespace('pgqueue_lake')").fetchone() == (None,)
        assert [*lake.folder.iterdir()] == []

    def test_makes_no_catalog_of_iceberg_in_a_database(
        self, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        catalog = f"postgresql:///{given.pop('dbname')}?{urlencode(given)}"

        with pytest.raises(CatalogUnreachable, match="has no table iceberg_tables. Export to it"):
            opened("iceberg", LakePlace(str(tmp_path), catalog, is_read_only=True))

        assert connection.execute("SELECT to_regclass('iceberg_tables')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--from-format=delta", "--from-format delta needs --from DIR"),
        ("--catalog=env:X", "--catalog needs --from-format ducklake, delta or iceberg"),
        ("--source=eu", "--source needs --from-format ducklake, delta or iceberg"),
    ],
)
def test_a_report_refuses_an_option_that_lacks_another(option: str, message: str, url: str) -> None:
    if not programs.have("pyspark"):
        pytest.skip("PySpark is missing")

    with pytest.raises(CommandError, match=message):
        call_command("pgqueue_report", option)
