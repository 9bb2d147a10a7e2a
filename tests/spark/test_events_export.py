"""Each event is in the Parquet files once, wherever an export was interrupted."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from django.core.management import call_command

from pgqueue.arrow.targets import Progress, forget
from pgqueue.engine import identity
from pgqueue.engine.values import Position
from pgqueue.models import Export
from pgqueue.spark import ExportConflict, OtherCluster
from pgqueue.spark.compaction import EVENTS, compact, recover
from pgqueue.spark.export import Exported, _LogExport
from pgqueue.spark.files import Files
from tests import factories
from tests.factories import Connection, ended
from tests.spark.log import positions, publish, raise_floor, store
from tests.spark.test_export import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERN = "events/day=*/batch_id=*/*.parquet"


def exported(folder: Path) -> list[int]:
    """Return the positions, as any reader of Parquet finds them by the documented pattern."""
    if not [*folder.glob(PATTERN)]:
        return []
    rows = duckdb.read_parquet(f"{folder}/{PATTERN}").project("position").order("position")
    return [position for (position,) in rows.fetchall()]


def recorded() -> tuple[int, int]:
    return Export.objects.values_list("event_batch", "event_position").get()


def test_it_goes_on_where_it_was(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    said: list[Progress] = []
    over = datetime.now(UTC) - timedelta(days=3)
    ended(connection, 2)
    publish(connection, 9, at=over, key="é", payload={"a": [1, None]})

    first = run(spark, url, tmp_path, batch=4, event_progress=said.append)
    after_the_first = recorded()
    publish(connection, 4)
    publish(connection, 1, at=over)
    second = run(spark, url, tmp_path, batch=100)
    third = run(spark, url, tmp_path)

    assert (first, second, third) == (Exported(2, 0, 9), Exported(0, 0, 5), Exported(0, 0, 0))
    assert exported(tmp_path) == positions(connection) == list(range(1, 15))
    assert said[-1] == Progress(9, 9)
    assert (after_the_first, recorded()) == ((2, 9), (3, 14))
    assert Export.objects.get().batch == 0  # history counts its own
    days = {path.name: len([*path.iterdir()]) for path in (tmp_path / "events").glob("day=*")}
    assert days == {f"day={over.date()}": 1, f"day={datetime.now(UTC).date()}": 1}
    first_row = duckdb.read_parquet(f"{tmp_path}/{PATTERN}").order("position").limit(1)
    [(position, topic, key, payload, *_)] = first_row.fetchall()
    assert (position, topic, key) == (1, "order.paid", "é")
    assert json.loads(payload) == {"a": [1, None]}


def test_where_nothing_is_new_no_stream_is_started(
    url: str, connection: Connection, tmp_path: Path
) -> None:
    def is_done() -> bool:
        return _LogExport(connection, {"target": "/lake"}, EVENTS, redact=None).is_done

    factories.exported(connection, Position(3, 4))
    assert is_done()
    publish(connection)
    assert not is_done()
    Export.objects.update(event_position=1)
    assert is_done()
    # What retention has removed, or another log, is for the stream to refuse.
    raise_floor(connection, 5)
    assert not is_done()
    connection.execute("DELETE FROM pgqueue_log_floor")
    Export.objects.update(event_position=9)
    assert not is_done()


@pytest.mark.spark
class TestAnInterruptedExport:
    def test_is_written_again_in_its_place(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        publish(connection, 6)
        run(spark, url, tmp_path, batch=3)
        # As if it was killed after it wrote the last batch, and before Spark noted that.
        for name in ("1", ".1.crc"):
            (tmp_path / "_checkpoint_events" / "commits" / name).unlink()
        Export.objects.update(event_batch=0, event_position=3)
        [left] = (tmp_path / "events").glob("day=*/batch_id=1")
        (left / "part-of-a-broken-write.parquet").write_bytes(b"PAR1")
        (tmp_path / "events" / ".spark-staging-x").mkdir()
        publish(connection, 2)

        run(spark, url, tmp_path, batch=3)

        assert exported(tmp_path) == positions(connection)
        assert recorded() == (2, 8)
        assert not (tmp_path / "events" / ".spark-staging-x").exists()

    @pytest.mark.nightly
    def test_whose_record_is_behind_is_noted_although_nothing_is_new(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        publish(connection, 6)
        run(spark, url, tmp_path, batch=3)
        forget(url=url, to=str(tmp_path))
        run(spark, url, tmp_path)

        assert recorded() == (1, 6)
        assert exported(tmp_path) == positions(connection)

    @pytest.mark.nightly
    def test_whose_checkpoint_is_gone_is_an_error(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        publish(connection, 6)
        run(spark, url, tmp_path, batch=3)
        shutil.rmtree(tmp_path / "_checkpoint_events")
        publish(connection)

        with pytest.raises(Exception, match=f"Restore {tmp_path}/_checkpoint_events, or") as raised:
            run(spark, url, tmp_path, batch=3)

        assert ExportConflict.__name__ in str(raised.value)
        assert exported(tmp_path) == list(range(1, 7))

    @pytest.mark.nightly
    def test_of_another_database_is_refused_although_nothing_is_new(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        publish(connection, 6)
        run(spark, url, tmp_path)
        identity.renew(connection)

        with pytest.raises(OtherCluster, match="another one, or one that was restored"):
            run(spark, url, tmp_path)

        assert recorded() == (0, 6)

    def test_whose_database_was_restored_and_has_caught_up_is_refused(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        publish(connection, 6)
        run(spark, url, tmp_path)
        connection.execute("DELETE FROM pgqueue_event WHERE position > 4")
        store(connection, 2)

        with pytest.raises(OtherCluster, match="position 6 is not the one that was read"):
            run(spark, url, tmp_path)

    @pytest.mark.nightly
    def test_that_retention_did_not_wait_for_is_an_error(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        publish(connection, 6)
        run(spark, url, tmp_path)
        raise_floor(connection, 7)

        with pytest.raises(Exception, match="removed events up to position 7"):
            run(spark, url, tmp_path)


@pytest.mark.spark
def test_the_command_says_how_many(
    spark: SparkSession,
    url: str,
    connection: Connection,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(connection, 3)

    call_command("pgqueue_export", to=str(tmp_path))

    assert ", 3 events and 0 dead letters are in" in capsys.readouterr().out


@pytest.mark.spark
def test_a_replacement_of_files_is_completed(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    publish(connection, 9)
    run(spark, url, tmp_path, batch=3)
    files = Files(spark, str(tmp_path))
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)

    class Killed(Exception):
        pass

    def kill(name: str) -> None:
        raise Killed

    files.delete = kill  # type: ignore[method-assign]
    with pytest.raises(Killed):
        compact(spark, files, EVENTS, today=tomorrow)
    del files.delete
    assert [*tmp_path.glob("events/_compacted/*.json")]

    recover(files, EVENTS)

    assert exported(tmp_path) == positions(connection)
    assert len([*tmp_path.glob(PATTERN)]) == 1
