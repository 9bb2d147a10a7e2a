"""Several databases export to one lake, each as a source: each row is there once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pgqueue.arrow.errors import InvalidOption, OtherCluster
from pgqueue.database.connections import conninfo
from pgqueue.engine import identity
from pgqueue.lake import CommitConflict, Lake, LakeExport, OtherSource, export, opened
from pgqueue.lake.formats import LakePlace, check_after, retried
from tests.eventually import eventually
from tests.factories import Connection, bury, ended
from tests.lake.lakes import OurLake
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import store
from tests.stepping import is_waited_for

EU, US = "eu", "us"
ALIASES = {EU: "default", US: "second"}
TABLE = "history"
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("source", pa.string())])
YESTERDAY = datetime.now(UTC).date() - timedelta(days=1)


def catalog_of(lake: OurLake) -> str | None:
    return lake.url if lake.name == "ducklake" else None


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgqueue.lake.formats.LONGEST_PAUSE", 0.01)


@pytest.fixture
def both(lake: OurLake) -> Iterator[dict[str, Lake]]:
    """The writers of two sources, by source."""
    with ExitStack() as stack:
        yield {
            source: stack.enter_context(
                closing(
                    opened(
                        lake.name,
                        LakePlace(str(lake.folder), catalog_of(lake), source=source),
                    )
                )
            )
            for source in (EU, US)
        }


def rows_of(source: str, ids: Sequence[int], day: date) -> pa.Table:
    rows = [{"id": each, "day": day, "source": source} for each in ids]
    return pa.Table.from_pylist(rows, SCHEMA)


def position_of(source: str, last: int) -> dict[str, Any]:
    return {"database": f"database of {source}", "txid": last, "id": last, "marker": 5}


def append(
    both: dict[str, Lake], source: str, *ids: int, after: int = 0, day: date = YESTERDAY
) -> None:
    """Append rows of a source as an export does, which makes the table at first."""
    retried(partial(both[source].create, TABLE, SCHEMA))
    retried(
        partial(
            both[source].append,
            TABLE,
            rows_of(source, ids, day),
            position_of(source, ids[-1]),
            after=position_of(source, after) if after else None,
        )
    )


def found(lake: OurLake, table: str = TABLE, column: str = "id") -> dict[str, list[Any]]:
    """Return the values of a column by source; all engines must read the same."""
    by_engine = []
    for rows in lake.read(table).values():
        values: dict[str, list[Any]] = {}
        for row in sorted(rows.to_pylist(), key=lambda row: row[column]):
            values.setdefault(row["source"], []).append(row[column])
        by_engine.append(values)
    assert all(each == by_engine[0] for each in by_engine)
    return by_engine[0]


class TestASource:
    def test_has_its_own_position_in_a_table(self, lake: OurLake, both: dict[str, Lake]) -> None:
        append(both, EU, 1, 2)
        append(both, US, 1, 2, 3)
        append(both, EU, 4, after=2)

        assert found(lake) == {EU: [1, 2, 4], US: [1, 2, 3]}
        assert both[EU].position(TABLE) == position_of(EU, 4)
        assert both[US].position(TABLE) == position_of(US, 3)
        assert both[EU].databases(TABLE) == {EU: "database of eu", US: "database of us"}
        columns = both[EU].columns(TABLE)
        assert columns is not None and columns.names == SCHEMA.names
        assert both[EU].columns("events") is None

    def test_replaces_its_own_rows(self, lake: OurLake, both: dict[str, Lake]) -> None:
        append(both, EU, 1, 2)
        append(both, US, 1, 2, 3)

        both[EU].replace(TABLE, rows_of(EU, [7], YESTERDAY))
        first = found(lake)
        both[EU].replace(TABLE, rows_of(EU, [], YESTERDAY))
        both[US].replace(TABLE, rows_of(US, [8], YESTERDAY))

        assert first == {EU: [7], US: [1, 2, 3]}
        assert found(lake) == {US: [8]}

    def test_appends_each_row_once_while_another_source_appends(
        self, lake: OurLake, both: dict[str, Lake], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(both, EU, 1)
        append(both, US, 1)
        met: list[str] = []

        def check_and_meet(table: str, *positions: Any) -> None:
            if not met:
                met.append(table)
                # The commit of `eu` has begun, and has read the table.
                append(both, US, 2, after=1)
            check_after(table, *positions)

        monkeypatch.setattr(f"pgqueue.lake.{lake.name}.check_after", check_and_meet)
        append(both, EU, 2, 3, after=1)

        assert met == [TABLE]
        assert found(lake) == {EU: [1, 2, 3], US: [1, 2]}
        assert both[US].position(TABLE) == position_of(US, 2)

    def test_shares_a_table_that_another_source_makes_meanwhile(
        self, lake: OurLake, both: dict[str, Lake], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partitions = LakePlace.partitions
        met: list[str] = []

        def meet(place: LakePlace, table: str) -> list[str]:
            if not met:
                met.append(table)
                # The commit that makes the table for `eu` has begun.
                append(both, US, 1)
            return partitions(place, table)

        monkeypatch.setattr(LakePlace, "partitions", meet)
        append(both, EU, 1, 2)

        assert met == [TABLE]
        assert found(lake) == {EU: [1, 2], US: [1]}
        assert both[EU].databases(TABLE) == {EU: "database of eu", US: "database of us"}

    def test_compacts_the_rows_of_all_sources(self, lake: OurLake, both: dict[str, Lake]) -> None:
        append(both, EU, 1)
        append(both, US, 1)
        append(both, EU, 2, after=1)

        both[EU].compact()
        both[EU].expire(timedelta(days=1))

        assert lake.files(TABLE) == 1
        assert found(lake) == {EU: [1, 2], US: [1]}
        assert both[US].position(TABLE) == position_of(US, 1)


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_a_compaction_loses_no_row_that_another_source_appends_meanwhile(
    lake: OurLake, both: dict[str, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.table import Transaction

    append(both, EU, 1)
    append(both, US, 1)
    overwrite = Transaction.overwrite
    met: list[int] = []

    def meet(*given: Any, **named: Any) -> None:
        if not met:
            met.append(1)
            # The compaction of `eu` has read the rows, and has not replaced them.
            append(both, US, 2, after=1)
        overwrite(*given, **named)

    monkeypatch.setattr(Transaction, "overwrite", meet)
    retried(both[EU].compact)

    assert found(lake) == {EU: [1], US: [1, 2]}
    assert lake.files(TABLE) == 1


@pytest.mark.parametrize("lake", ["ducklake"], indirect=True)
def test_an_export_goes_on_where_another_source_sets_an_option_of_the_catalog_first(
    lake: OurLake, both: dict[str, Lake]
) -> None:
    append(both, EU, 1)
    create = threading.Thread(target=partial(append, both, EU, 2, after=1))

    with psycopg.connect(lake.url) as first:
        first.execute(
            "UPDATE pgqueue_lake.ducklake_metadata SET value = value "
            "WHERE key = 'data_inlining_row_limit'"
        )
        create.start()
        with psycopg.connect(lake.url, autocommit=True) as observer:
            eventually(lambda: is_waited_for(observer, first), within=30)
    create.join()

    assert found(lake) == {EU: [1, 2]}


@pytest.fixture
def us(url: str) -> Iterator[Connection]:
    """A connection to the second database."""
    with psycopg.connect(conninfo(ALIASES[US]), autocommit=True) as connection:
        yield connection


def export_as(lake: OurLake, source: str, *, alias: str | None = None) -> LakeExport:
    """Export the database of a source."""
    url = conninfo(alias or ALIASES.get(source, "default"))
    wait_for_horizon(url)
    return export(url=url, to=str(lake.folder), tables_format=lake.name, source=source)


def ids(connection: Connection) -> list[int]:
    rows = connection.execute("SELECT id FROM pgqueue_history ORDER BY id").fetchall()
    return [pk for (pk,) in rows]


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
class TestAnExport:
    def test_goes_on_from_the_position_of_its_source(
        self, delta: OurLake, connection: Connection, us: Connection
    ) -> None:
        ended(connection, 3)
        letters = {EU: bury(connection, 2, channel="other"), US: bury(us, 1, channel="other")}
        store(connection, 2)
        ended(us, 2)
        store(us, 5)

        export_as(delta, EU)
        export_as(delta, US)
        ended(connection, 2)
        connection.execute("DELETE FROM pgqueue_message WHERE id = %s", [letters[EU].pop()])
        again = export_as(delta, EU)

        assert (again.rows["history"], again.rows["events"]) == (2, 0)
        assert found(delta) == {EU: ids(connection), US: ids(us)}
        assert found(delta, "events", "position") == {EU: [1, 2], US: [1, 2, 3, 4, 5]}
        assert found(delta, "deadletters") == letters

    def test_is_refused_for_a_database_that_is_not_the_one_of_its_source(
        self, delta: OurLake, connection: Connection, us: Connection
    ) -> None:
        ended(connection, 2)
        ended(us, 2)
        export_as(delta, EU)

        with pytest.raises(OtherSource, match=r"has rows of several databases.*--source NAME"):
            delta.export()
        with pytest.raises(OtherSource, match="has this database already, as the source 'eu'"):
            export_as(delta, "typo")
        with pytest.raises(OtherCluster, match="source 'eu', does not .*as another source"):
            export_as(delta, EU, alias=ALIASES[US])
        export_as(delta, US)
        identity.renew(us)
        with pytest.raises(OtherCluster, match="The table history of .*, source 'us',"):
            export_as(delta, US)
        export_as(delta, EU)

        assert found(delta) == {EU: ids(connection), US: ids(us)}

    def test_with_a_source_is_refused_where_the_lake_has_none(
        self, delta: OurLake, connection: Connection
    ) -> None:
        ended(connection, 2)
        delta.export()

        with pytest.raises(OtherSource, match="table history was begun without a source.*'eu'"):
            export_as(delta, EU)

        assert delta.values("history", "id") == ids(connection)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": "E U", "catalog": "x"}, "source='E U': it may have small letters"),
        ({}, "source='eu': give the URL of the catalog"),
        ({"catalog": "x", "expire": timedelta(hours=1)}, "expire=3600: .* a day"),
    ],
)
def test_an_option_that_does_not_fit_several_sources_is_refused(
    given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    options = {"source": EU, **given}

    with pytest.raises(InvalidOption, match=message):
        export(url="x", to=str(tmp_path), tables_format="ducklake", **options)


def test_a_commit_is_repeated_until_none_comes_first() -> None:
    tried: list[int] = []

    def commit(refused: int) -> Callable[[], int]:
        tried.clear()

        def commit() -> int:
            tried.append(1)
            if len(tried) <= refused:
                raise CommitConflict("Another export has changed the table")
            return len(tried)

        return commit

    assert retried(commit(19)) == 20
    with pytest.raises(CommitConflict):
        retried(commit(20))
