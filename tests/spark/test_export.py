"""Each message that ended is in the Parquet files once, wherever an export was interrupted."""

from __future__ import annotations

import json
import logging
import re
import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pandas
import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgqueue.arrow.targets import Progress, alone, forget, held_back
from pgqueue.database.connections import connect as open_connection
from pgqueue.engine.values import Position
from pgqueue.models import Export
from pgqueue.spark import ExportConflict
from pgqueue.spark.export import Exported, _by_day, _files, export
from tests import factories
from tests.factories import Connection, bury, ended, past
from tests.spark.conftest import wait_for_horizon
from tests.spark.test_parquet import codecs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORY = "history/day=*/batch_id=*/*.parquet"
LOCK = "SELECT pg_advisory_lock(hashtextextended('pgqueue_export' || chr(31) || %s, 0))"
LETTERS = "deadletters/day=*/*.parquet"


def exported(folder: Path, pattern: str = HISTORY) -> list[int]:
    """Return the ids, as any reader of Parquet finds them by the documented glob."""
    files = [pandas.read_parquet(path) for path in sorted(folder.glob(pattern))]
    return sorted(pk for each in files for pk in each["id"])


def run(spark: SparkSession, url: str, to: object, **given: Any) -> Exported:
    """Export all that is committed."""
    wait_for_horizon(url)
    return export(spark, url=url, to=str(to), **given)


def all_ids(connection: Connection) -> list[int]:
    rows = connection.execute("SELECT id FROM pgqueue_history ORDER BY id").fetchall()
    return [pk for (pk,) in rows]


def test_it_goes_on_where_it_was(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    said: list[Progress] = []
    name = past(connection, 3)
    ended(connection, 9)
    letters = bury(connection, 2, channel="other")

    first = run(spark, url, tmp_path, batch=4, progress=said.append)
    ended(connection, 4)
    ended(connection, at=datetime.now(UTC) - timedelta(days=3))
    connection.execute("DELETE FROM pgqueue_message WHERE id = %s", [letters[0]])
    second = run(spark, url, f"{tmp_path}/", batch=4)
    third = run(spark, url, tmp_path)

    days = [len([*path.iterdir()]) for path in sorted((tmp_path / "history").glob("day=*"))]
    mine = exported(tmp_path)
    expected = all_ids(connection)
    connection.execute(f"DROP TABLE {name}")
    assert (first, second, third) == (Exported(10, 2), Exported(5, 1), Exported(0, 1))
    assert mine == expected
    assert days == [1, 4]  # a day that is over is compacted, and today is not
    assert exported(tmp_path, LETTERS) == letters[1:]
    for each in ("history/day=*/batch_id=*", "history/day=*", "deadletters"):
        for folder in tmp_path.glob(each):
            assert {codec for every in codecs(folder).values() for codec in every} == {"ZSTD"}
    assert said[-1] == Progress(10, 10)
    record = Export.objects.get(target=str(tmp_path))
    assert record.batch == 4


@pytest.mark.spark
def test_a_day_before_1970_is_the_day_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    times = ("1969-12-30 23:59:59.999999Z", "1969-12-31 00:00:00Z", "1970-01-01 12:00:00Z")
    rows = [(datetime.fromisoformat(each),) for each in times]

    _by_day(spark.createDataFrame(rows, "died_at timestamp_ltz"), "died_at").parquet(str(tmp_path))

    days = sorted(each.name for each in tmp_path.glob("day=*"))
    assert days == ["day=1969-12-30", "day=1969-12-31", "day=1970-01-01"]


def test_a_target_is_known_before_anything_has_ended(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    done = run(spark, url, tmp_path)

    assert done == Exported(0, 0)
    assert [each.target for each in Export.objects.all()] == [str(tmp_path)]


@pytest.mark.spark
def test_a_batch_that_was_interrupted_is_written_again_in_its_place(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    ended(connection, 6)
    run(spark, url, tmp_path, batch=3)
    # As if it was killed after it wrote the last batch, and before Spark noted that.
    (tmp_path / "_checkpoint" / "commits" / "1").unlink()
    (tmp_path / "_checkpoint" / "commits" / ".1.crc").unlink()
    Export.objects.update(batch=0)
    [left] = (tmp_path / "history").glob("day=*/batch_id=1")
    (left / "part-of-a-broken-write.parquet").write_bytes(b"PAR1")
    ended(connection, 2)

    run(spark, url, tmp_path, batch=3)

    assert exported(tmp_path) == all_ids(connection)


@pytest.mark.spark
def test_a_target_whose_record_is_behind_is_noted_although_nothing_is_new(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    ended(connection, 6)
    run(spark, url, tmp_path, batch=3)
    noted = Export.objects.values_list("batch", "txid", "message_id")
    before = noted.get()
    # As if it was killed after Spark noted the last batch; then as if it was forgotten.
    Export.objects.update(batch=0, txid=0, message_id=0)
    run(spark, url, tmp_path)
    after_a_kill = noted.get()
    forget(url=url, to=str(tmp_path))
    run(spark, url, tmp_path)

    assert before[0] == 1
    assert (after_a_kill, noted.get()) == (before, before)
    assert exported(tmp_path) == all_ids(connection)


@pytest.mark.spark
def test_a_checkpoint_that_is_gone_is_an_error(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    ended(connection, 6)
    run(spark, url, tmp_path, batch=3)
    before = exported(tmp_path)
    shutil.rmtree(tmp_path / "_checkpoint")

    with pytest.raises(Exception, match="has the batches up to 1, .* begins at batch 0"):
        run(spark, url, tmp_path, batch=3)

    assert exported(tmp_path) == before


@pytest.mark.spark
def test_two_at_once_to_one_folder_are_refused(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    with psycopg.connect(url) as other:
        other.execute(LOCK, [str(tmp_path)])

        with pytest.raises(ExportConflict, match=f"Another export writes to {tmp_path} now"):
            run(spark, url, tmp_path)


def test_over_spark_connect_it_says_that_days_are_not_compacted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = cast("SparkSession", SimpleNamespace())

    with caplog.at_level(logging.WARNING, "pgqueue"):
        assert _files(client, "/lake") is None

    assert caplog.messages[0].startswith("/lake is not compacted: Spark Connect")


class TestForgetting:
    """It starts no Spark."""

    def test_a_target_lets_retention_go_on(
        self, url: str, connection: Connection, capsys: pytest.CaptureFixture[str]
    ) -> None:
        factories.exported(connection, Position(3, 4), name="/lake")
        factories.exported(connection, Position(3, 4), name="s3a://lake/queue")

        call_command("pgqueue_export", "--forget", "s3a://lake/queue/", "--format", "json")

        assert json.loads(capsys.readouterr().out) == {"forgotten": "s3a://lake/queue"}
        assert [each.target for each in Export.objects.all()] == ["/lake"]

    def test_a_folder_is_the_same_from_everywhere(
        self, url: str, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        factories.exported(connection, Position(3, 4), name=f"{tmp_path}/lake")
        monkeypatch.chdir(tmp_path)

        call_command("pgqueue_export", "--forget", "there/../lake/")

        assert not Export.objects.exists()

    def test_an_unknown_target_is_an_error_that_names_the_known(
        self, url: str, connection: Connection
    ) -> None:
        with pytest.raises(CommandError, match="to /lake. There are no others."):
            call_command("pgqueue_export", "--forget", "/lake")
        factories.exported(connection, Position(3, 4), name="/lakes")
        with pytest.raises(CommandError, match="to /lake. Did you mean '/lakes'?"):
            call_command("pgqueue_export", "--forget", "/lake")

    def test_waits_for_no_running_export(self, url: str, connection: Connection) -> None:
        factories.exported(connection, Position(3, 4), name="/lake")
        with psycopg.connect(url) as other:
            other.execute(LOCK, ["/lake"])

            with pytest.raises(CommandError, match="Another export writes to /lake now"):
                call_command("pgqueue_export", "--forget", "/lake")

        assert Export.objects.exists()


@pytest.mark.spark
class TestTheCommand:
    def test_exports(
        self,
        spark: SparkSession,
        url: str,
        connection: Connection,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        ended(connection, 3)
        wait_for_horizon(url)

        call_command("pgqueue_export", to=str(tmp_path))

        assert exported(tmp_path) == all_ids(connection)
        assert f"3 messages that ended, 0 events and 0 dead letters are in {tmp_path}.\n" in (
            capsys.readouterr().out
        )
        call_command("pgqueue_export", to=str(tmp_path), format="json")
        counts = {"history": 0, "events": 0, "deadletters": 0, "held": 0, "held_by": ""}
        counts["unreadable"] = 0
        assert json.loads(capsys.readouterr().out) == {"to": str(tmp_path), **counts}

    def test_says_in_one_line_what_is_wrong(
        self, spark: SparkSession, connection: Connection, tmp_path: Path
    ) -> None:
        ended(connection, 3)
        (tmp_path / "file").write_text("")

        with pytest.raises(CommandError) as raised:
            call_command("pgqueue_export", to=str(tmp_path / "file"))

        assert "\n" not in str(raised.value)
        assert "file" in str(raised.value)

    @pytest.mark.parametrize("given", ["master=local", "spark.master", ""])
    def test_refuses_what_is_no_option_of_spark(self, given: str, capsys: Any) -> None:
        with pytest.raises(CommandError, match="it must be NAME=VALUE"):
            call_command("pgqueue_export", "--to", "x", "--conf", given)


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
def test_it_knows_what_another_database_s_transaction_holds_back(
    url: str, connection: Connection
) -> None:
    ended(connection, 2)
    wait_for_horizon(url)
    with closing(open_connection("second", name="elsewhere")) as other, other.transaction():
        other.execute("SELECT pg_current_xact_id()")
        ended(connection, 3)

        count, by = held_back(connection)

    # Those of tests beside this one may be older.
    assert count >= 3
    assert re.search(r"transaction of pid \d+ \(.*\) in the database \w+, open for", by)
    wait_for_horizon(url)
    assert held_back(connection) == (0, "")


def test_a_target_is_free_although_the_session_of_its_last_export_has_not_ended_yet(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[psycopg.Connection[Any]] = []
    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "close", lambda self: sessions.append(self))
        for _ in range(2):
            with alone(url, "/lake"):
                pass
        with alone(url, "/lake"), pytest.raises(ExportConflict), alone(url, "/lake"):
            pass

    assert not any(each.closed for each in sessions)
    for each in sessions:
        each.close()
