"""Each row is in the tables of a lake once, wherever an export was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pgqueue.arrow.copying import arrow_schema
from pgqueue.arrow.errors import DataLoss, ExportConflict, OtherCluster
from pgqueue.arrow.tables import TABLES
from pgqueue.engine import identity
from pgqueue.lake import EventTable, Lake, LakeFailed, UnknownFormat, export, opened
from pgqueue.lake.formats import LakePlace
from pgqueue.models import Export
from pgqueue.redaction import Redaction
from tests.factories import Connection, bury, ended
from tests.lake.lakes import InDelta, InDuckLake, InIceberg, OurLake
from tests.spark.log import positions, publish, store

LOCK = "SELECT pg_advisory_lock(hashtextextended('pgqueue_export' || chr(31) || %s, 0))"
STEP = {"name": "pay", "number": 1, "kind": "step", "state": "done"}


def all_ids(connection: Connection) -> list[int]:
    rows = connection.execute("SELECT id FROM pgqueue_history ORDER BY id::text").fetchall()
    return [pk for (pk,) in rows]


def place_of(lake: OurLake) -> LakePlace:
    catalogs = {"ducklake": lake.url}
    return LakePlace(str(lake.folder), catalogs.get(lake.name))


@pytest.fixture
def two(lake: OurLake) -> Iterator[tuple[Lake, Lake]]:
    """Two writers of one lake, which has tables."""
    lake.export()
    with (
        closing(opened(lake.name, place_of(lake))) as one,
        closing(opened(lake.name, place_of(lake))) as other,
    ):
        yield one, other


def meet(
    lake: OurLake, one: Lake, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Act once `one` has read a position, and before it commits."""
    name = "_position_in" if lake.name == "ducklake" else "_position_of"
    found = getattr(one, name)

    def acting(*given: Any) -> Any:
        position = found(*given)
        act()
        return position

    monkeypatch.setattr(one, name, acting)


class TestAnExport:
    @pytest.mark.usefixtures("all_tables")
    def test_goes_on_where_the_tables_are(self, lake: OurLake, connection: Connection) -> None:
        ended(connection, 9)
        store(connection, 7)
        letters = bury(connection, 2, channel="other")

        first = lake.export(batch=4)
        ended(connection, 4)
        ended(connection, at=datetime.now(UTC) - timedelta(days=1))
        publish(connection, 2)
        connection.execute("DELETE FROM pgqueue_message WHERE id = %s", [letters[0]])
        second = lake.export(batch=4)
        third = lake.export()

        counts = [
            (each.rows["history"], each.rows["events"], each.rows["deadletters"])
            for each in (first, second, third)
        ]
        assert counts == [(9, 7, 2), (5, 2, 1), (0, 0, 1)]
        assert lake.values("history", "id") == all_ids(connection)
        assert lake.values("events", "position") == positions(connection)
        assert lake.values("deadletters", "id") == letters[1:]

    @pytest.mark.usefixtures("all_tables")
    def test_writes_attempts_and_steps_of_ended_messages_and_flows(
        self, lake: OurLake, connection: Connection
    ) -> None:
        ended(connection, 3)
        connection.execute(
            "UPDATE pgqueue_history SET started_at = finished_at, steps = %s",
            [json.dumps({"signals": [], "steps": [STEP]})],
        )
        connection.execute("INSERT INTO pgqueue_flow (name, names) VALUES ('checkout', '{}')")

        lake.export(batch=2)
        lake.export()

        assert lake.values("attempts", "message_id") == all_ids(connection)
        assert {each["outcome"] for each in lake.rows("attempts")} == {"succeeded"}
        assert lake.values("steps", "message_id") == all_ids(connection)
        assert {(each["name"], each["state"]) for each in lake.rows("steps")} == {("pay", "done")}
        assert lake.values("flows", "name") == ["checkout"]

    def test_has_the_values_and_the_day_of_each_row(
        self, lake: OurLake, connection: Connection
    ) -> None:
        old = datetime(1960, 5, 4, 23, 59, 59, 999999, tzinfo=UTC)
        connection.execute(
            "INSERT INTO pgqueue_event_inbox (topic, key, payload, created_at) "
            "VALUES ('order.paid', 'é', '{\"a\": [1, null]}', %s)",
            [old],
        )

        lake.export()

        for rows in lake.read("events").values():
            [row] = rows.to_pylist()
            assert (row["topic"], row["key"], row["created_at"]) == ("order.paid", "é", old)
            assert json.loads(row["payload"]) == {"a": [1, None]}
            assert row["day"] == date(1960, 5, 4)

    def test_redacts_as_every_export_does(self, delta: OurLake, connection: Connection) -> None:
        store(connection, payload={"password": "hunter2", "total": 3})

        delta.export(redact=Redaction())

        assert "hunter2" not in str(delta.rows("events"))
        assert '"total": 3' in delta.rows("events")[0]["payload"]

    def test_partitions_by_channel_and_topic_if_it_is_asked_to(
        self, lake: OurLake, connection: Connection
    ) -> None:
        ended(connection, 2, channel="mail")
        ended(connection, 2, channel="slow")

        lake.export(by_channel=True)

        assert lake.files("history") == 2
        assert lake.values("history", "id") == all_ids(connection)

    def test_keeps_no_row_twice_if_it_was_killed_before_it_noted_its_progress(
        self, lake: OurLake, connection: Connection
    ) -> None:
        ended(connection, 6)
        store(connection, 3)
        lake.export(batch=3)
        noted = Export.objects.values_list("txid", "message_id", "event_position")
        before = noted.get()
        Export.objects.update(txid=0, message_id=0, event_position=0)

        done = lake.export()

        assert (done.rows["history"], done.rows["events"]) == (0, 0)
        assert noted.get() == before
        assert before[2] == 3
        assert lake.values("history", "id") == all_ids(connection)

    @pytest.mark.usefixtures("all_tables")
    def test_notes_no_row_that_one_of_the_tables_lacks(
        self, lake: OurLake, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ended(connection, 6)
        module = type(opened(lake.name, place_of(lake)))
        append = module.append

        def fail(self: Lake, table: str, *given: Any, **named: Any) -> None:
            if table == "steps":
                raise OSError("No space left on device")
            append(self, table, *given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(module, "append", fail)
            with pytest.raises(OSError, match="No space"):
                lake.export(batch=3)
        noted = [each.message_id for each in Export.objects.all()]
        lake.export(batch=3)

        assert noted == [0]
        assert Export.objects.get().message_id == max(all_ids(connection))
        assert lake.values("history", "id") == all_ids(connection)

    def test_notes_at_once_how_far_a_table_is_that_was_added(
        self, delta: OurLake, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Retention would remove events that the new table lacks."""
        store(connection, 3)
        delta.export()
        noted = Export.objects.values_list("event_position", flat=True)
        before = noted.get()

        def fail(*_: Any, **__: Any) -> None:
            raise OSError("No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("pgqueue.lake.delta.DeltaLake.append", fail)
            with pytest.raises(OSError, match="No space"):
                delta.export(events=[EventTable("order.paid", ())])
        ahead = noted.get()
        delta.export(events=[EventTable("order.paid", ())])

        assert (before, ahead, noted.get()) == (3, 0, 3)

    def test_notes_no_time_of_an_export_that_appends_nothing(
        self, delta: OurLake, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The check `export` of pgqueue_health would not notice that an export fails."""
        store(connection, 3)
        delta.export()
        store(connection, 3)
        times = Export.objects.values_list("exported_at", flat=True)
        before = times.get()

        def fail(*_: Any, **__: Any) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr("pgqueue.lake.delta.DeltaLake.append", fail)
        with pytest.raises(OSError, match="No space"):
            delta.export()

        assert times.get() == before

    def test_finds_the_position_although_the_database_has_forgotten_the_target(
        self, delta: OurLake, connection: Connection
    ) -> None:
        ended(connection, 6)
        delta.export()
        Export.objects.all().delete()

        assert delta.export().rows["history"] == 0


class TestARefusal:
    def test_of_a_database_with_another_identity_names_the_table(
        self, delta: OurLake, connection: Connection
    ) -> None:
        ended(connection, 2)
        delta.export()
        identity.renew(connection)

        with pytest.raises(OtherCluster, match=f"The table history of {delta.folder} .*another"):
            delta.export()

        assert Export.objects.get().message_id == max(all_ids(connection))

    def test_of_a_table_whose_next_rows_retention_has_removed(
        self, delta: OurLake, connection: Connection
    ) -> None:
        ended(connection, 2)
        delta.export()
        connection.execute(
            "INSERT INTO pgqueue_log_floor (log, position) "
            "SELECT 'history', max(txid) + 5 FROM pgqueue_history "
            "ON CONFLICT (log) DO UPDATE SET position = excluded.position"
        )
        ended(connection)

        with pytest.raises(DataLoss, match="The table history of .*Retention has removed"):
            delta.export()

    def test_goes_on_though_retention_had_removed_later_rows_before_it_began(
        self, lake: OurLake, connection: Connection
    ) -> None:
        for _ in range(3):
            ended(connection)
        ended(connection, channel="sums")
        connection.execute(
            "INSERT INTO pgqueue_log_floor (log, position) "
            "SELECT 'history', txid FROM pgqueue_history WHERE channel = 'sums' "
            "ON CONFLICT (log) DO UPDATE SET position = excluded.position"
        )
        connection.execute("DELETE FROM pgqueue_history WHERE channel = 'sums'")

        lake.export(batch=1)
        ended(connection)
        lake.export()

        assert lake.values("history", "id") == all_ids(connection)
        assert len(all_ids(connection)) == 4

    def test_of_a_position_without_a_marker_goes_on(
        self, lake: OurLake, connection: Connection
    ) -> None:
        store(connection, 2)
        lake.export(batch=1)
        store(connection, 2)
        *_, removed, _ = positions(connection)
        connection.execute("DELETE FROM pgqueue_event WHERE position = %s", [removed])

        lake.export(batch=1)

        assert lake.values("events", "position") == positions(connection)

    def test_of_two_exports_at_once(self, delta: OurLake) -> None:
        with psycopg.connect(delta.url) as other:
            other.execute(LOCK, [str(delta.folder)])

            with pytest.raises(ExportConflict, match=f"writes to {delta.folder} now"):
                delta.export()

    @pytest.mark.parametrize("moment", ["before", "within"])
    def test_of_an_append_after_another_export_has_appended(
        self,
        lake: OurLake,
        connection: Connection,
        two: tuple[Lake, Lake],
        moment: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Both have read the same position, since one of them has lost its lock."""
        ended(connection, 2)
        lake.export()
        rows = lake.read("history")
        same = next(iter(rows.values()))
        one, other = two
        after = one.position("history")
        assert after
        append = partial(
            other.append, "history", same, {**after, "id": after["id"] + 1}, after=after
        )
        if moment == "before":
            append()
        else:
            meet(lake, one, append, monkeypatch)

        with pytest.raises(
            ExportConflict, match="Another export has .* the table history meanwhile"
        ):
            one.append("history", same, {**after, "id": after["id"] + 2}, after=after)

        assert len(lake.values("history", "id")) == 4
        assert other.position("history") == {**after, "id": after["id"] + 1}
        one.close()
        other.close()

    @pytest.mark.parametrize("case", ["first", "empty"])
    def test_of_an_append_within_an_append_of_another_export(
        self, lake: OurLake, two: tuple[Lake, Lake], case: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first batch of a table, and a batch without rows."""
        one, other = two
        schema = one.columns("history")
        rows = pa.Table.from_pylist([{"id": 1, "day": date(2026, 11, 1)}], schema)
        after = None
        if case == "empty":
            after = {"database": "d", "txid": 1, "id": 1, "marker": None}
            one.append("history", rows, after, after=None)
            rows = rows.slice(0, 0)
        theirs, ours = ({"database": "d", "txid": 7, "id": last, "marker": None} for last in (9, 8))
        meet(lake, one, partial(other.append, "history", rows, theirs, after=after), monkeypatch)

        with pytest.raises(
            ExportConflict, match="Another export has .* the table history meanwhile"
        ):
            one.append("history", rows, ours, after=after)

        assert len(lake.values("history", "id")) == 1
        assert other.position("history") == theirs

    def test_of_an_unknown_format_names_the_known(self, url: str, tmp_path: Path) -> None:
        with pytest.raises(UnknownFormat, match="no format 'delto'. Did you mean 'delta'"):
            export(url=url, to=str(tmp_path), tables_format="delto")


class TestATable:
    def test_of_an_earlier_release_gets_the_columns_that_it_lacks(
        self, lake: OurLake, connection: Connection
    ) -> None:
        older = arrow_schema([each for each in TABLES["history"].columns if each.name != "weight"])
        before = opened(lake.name, place_of(lake))
        before.create("history", older.append(pa.field("day", pa.date32())))
        before.close()
        ended(connection, 2)

        lake.export()

        assert lake.values("history", "id") == all_ids(connection)
        assert {each["weight"] for each in lake.rows("history")} == {1}

    def test_of_a_later_release_keeps_its_columns(
        self, lake: OurLake, connection: Connection
    ) -> None:
        newer = arrow_schema(TABLES["history"].columns)
        later = opened(lake.name, place_of(lake))
        fields = [pa.field("day", pa.date32()), pa.field("mood", pa.string())]
        later.create("history", pa.schema([*newer, *fields]))
        later.close()
        ended(connection, 2)

        lake.export()

        assert [each["mood"] for each in lake.rows("history")] == [None, None]

    def test_is_read_as_it_was_before_its_last_commit(
        self, lake: OurLake, connection: Connection
    ) -> None:
        store(connection, 3)
        lake.export()
        store(connection, 2)
        lake.export()

        assert sorted(lake.earlier("events")["position"].to_pylist()) == [1, 2, 3]

    def test_has_fewer_files_and_the_same_rows_after_it_was_compacted(
        self, lake: OurLake, connection: Connection
    ) -> None:
        for _ in range(4):
            ended(connection, 2, at=datetime.now(UTC) - timedelta(days=1))
            lake.export()
        before = lake.files("history")

        lake.export(compact=True, expire=timedelta())
        ended(connection)
        lake.export()

        assert before == 4
        assert lake.files("history") == 2
        assert lake.values("history", "id") == all_ids(connection)


def test_a_day_that_one_commit_has_written_is_not_compacted_again(
    url: str, connection: Connection, tmp_path: Path
) -> None:
    lake = InIceberg(url, tmp_path / "lake")
    lake.export()
    table = lake._table("history")
    with table.transaction() as change:
        change.set_properties({"write.target-file-size-bytes": "2000"})
    for _ in range(2):
        ended(connection, 20, at=datetime.now(UTC) - timedelta(days=1))
        lake.export()
    lake.export(compact=True)
    before = table.refresh().metadata.current_snapshot_id

    lake.export(compact=True)

    assert table.refresh().metadata.current_snapshot_id == before
    assert lake.files("history") > 1


def test_a_delta_table_remembers_removed_files_until_they_expire(
    delta: OurLake, connection: Connection
) -> None:
    ended(connection)
    for days in (1, 30, 30):
        delta.export(expire=timedelta(days=days))

    found = delta._table("history").metadata().configuration  # type: ignore[attr-defined]
    assert found["delta.deletedFileRetentionDuration"] == "interval 720 hours"


@pytest.mark.parametrize("description", ["Queue history", "", "7"])
def test_a_delta_table_with_another_description_is_named(
    delta: OurLake, connection: Connection, description: str
) -> None:
    ended(connection)
    delta.export()
    delta._table("history").alter.set_table_description(description)  # type: ignore[attr-defined]

    with pytest.raises(LakeFailed, match="The description of the table .*history.* was changed"):
        delta.export()


def test_each_format_is_tested() -> None:
    from pgqueue.lake import FORMATS

    assert tuple(each.name for each in (InDuckLake, InDelta, InIceberg)) == FORMATS
