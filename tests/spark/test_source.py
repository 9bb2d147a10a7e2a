"""The data source inside Spark: in one session, with its planner and its workers as processes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from pgqueue.arrow.tables import TABLES
from pgqueue.engine import flows, steps
from pgqueue.engine.steps import StoredStep
from pgqueue.spark import InvalidOption, session
from tests.factories import Connection, bury, ended, enqueue, register, run
from tests.spark.conftest import Load
from tests.spark.log import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KEPT_BY_USERS = {
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.session.timeZone": "Europe/Berlin",
}


@pytest.fixture
def _everything(connection: Connection) -> None:
    bury(connection)
    (claim,) = run(connection, key="é\n")
    steps.store(connection, claim, StoredStep("charge", 1, "step", result="7"))
    ended(connection, 10)
    ended(connection, 5, channel="other", outcome="expired")
    register(connection)
    publish(connection)
    flows.begin(connection, 1, "import")
    flows.depend(connection, 1, [(3, 1), (3, 2)])


@pytest.mark.usefixtures("_everything")
class TestATable:
    def test_has_every_column_in_its_type(self, load: Load) -> None:
        for name, table in TABLES.items():
            frame = load(name)

            assert dict(frame.dtypes) == {
                each.name: each.type.value.removesuffix("_ltz") for each in table.columns
            }
            assert len(frame.collect()) > 0

    def test_is_read_in_a_session_whose_timestamps_have_no_zone(
        self, spark: SparkSession, load: Load
    ) -> None:
        spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
        try:
            for name in TABLES:
                assert len(load(name).collect()) > 0
        finally:
            spark.conf.unset("spark.sql.timestampType")

    def test_gives_what_postgresql_has(self, load: Load, connection: Connection) -> None:
        columns = "id, channel, key, task, payload, priority, attempt, ordered, created_at"

        rows = load("messages", columns=columns).collect()

        expected = connection.execute(
            f"SELECT {columns} FROM pgqueue_message WHERE state = 'running'"  # noqa: S608
        ).fetchall()
        assert [
            tuple(
                json.loads(each) if name == "payload" else _utc(each)
                for name, each in row.asDict().items()
            )
            for row in rows
        ] == expected

    def test_in_partitions_has_each_row_once(self, load: Load) -> None:
        frame = load("history", numPartitions="3")

        assert frame.count() == frame.select("id").distinct().count() == 15

    def test_that_changes_in_place_is_read_in_partitions(
        self, load: Load, connection: Connection
    ) -> None:
        enqueue(connection, 300)

        assert load("messages", numPartitions="2").select("id").distinct().count() == 301
        # Spark's planner has it held for a minute.
        held = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'pgqueue spark snapshot'"
        )
        assert held.fetchall() == [(True,)]

    def test_filtered_twice_gives_each_its_rows(self, load: Load) -> None:
        # With pushFilters, Spark 4.3 gives the last filter's rows to all of them.
        frame = load("history")
        a, b = frame.filter("channel = 'other'"), frame.filter("channel <> 'other' AND id > 0")

        assert (a.count(), frame.count(), b.count()) == (5, 15, 10)
        assert a.union(b).count() == 15
        assert frame.join(a, "id").count() == 5
        assert (a.count(), frame.count()) == (5, 15)

    def test_can_be_asked_in_sql(self, load: Load, spark: SparkSession) -> None:
        load("history").createOrReplaceTempView("history")

        rows = spark.sql("SELECT outcome, count(*) AS n FROM history GROUP BY 1 ORDER BY 1")

        assert [tuple(row) for row in rows.collect()] == [("expired", 5), ("succeeded", 10)]

    def test_comes_by_the_name_of_the_format_alone(self, spark: SparkSession) -> None:
        # A new session knows only what Spark finds by itself.
        frame = (
            spark.newSession()
            .read.format("pgqueue")
            .option("table", "history")
            .option("url", "env:NOWHERE")
        )

        with pytest.raises(AnalysisException, match="NOWHERE, but that variable is not set"):
            frame.load().count()


def _utc(value: object) -> object:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def test_what_is_wrong_is_said_in_one_line(load: Load) -> None:
    with pytest.raises(AnalysisException) as raised:
        load("histroy")

    assert "InvalidOption: The data source has no table 'histroy'" in str(raised.value)
    assert "Did you mean 'history'?" in str(raised.value)


def test_a_database_that_is_away_is_named(spark: SparkSession) -> None:
    frame = spark.read.format("pgqueue").option("url", "postgresql://u:s3cret@127.0.0.1:1/db")

    with pytest.raises(Exception, match="127.0.0.1") as raised:
        frame.option("table", "history").load().count()

    assert "s3cret" not in str(raised.value)


def test_the_password_is_in_no_plan_and_no_log(
    spark: SparkSession, url: str, connection: Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    ended(connection)
    frame = (
        spark.read.format("pgqueue")
        .options(url=f"{url} password=s3cret-w0rd", table="history")
        .load()
    )

    frame.explain(extended=True)
    frame.groupBy("channel").count().explain("formatted")
    assert frame.count() == 1

    out, err = capfd.readouterr()
    assert "pgqueue" in out
    assert "s3cret-w0rd" not in out + err
    folder = Path(str(spark.conf.get("spark.eventLog.dir")).removeprefix("file://"))
    logs = [path for path in folder.rglob("*") if path.is_file()]
    assert logs
    for path in logs:
        assert b"s3cret-w0rd" not in path.read_bytes()


def test_a_session_refuses_what_is_no_option_of_spark() -> None:
    with pytest.raises(InvalidOption, match="no option 'master'"):
        session(master="local[4]")


def test_a_session_is_on_this_machine_in_utc_and_may_be_changed(spark: SparkSession) -> None:
    again = session(**{"spark.sql.shuffle.partitions": 3})

    assert again.conf.get("spark.sql.shuffle.partitions") == "3"
    assert again.conf.get("spark.sql.session.timeZone") == "UTC"
    assert again.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    again.conf.set("spark.sql.shuffle.partitions", "4")


def test_a_session_that_exists_keeps_what_its_user_has_set(spark: SparkSession) -> None:
    before = {name: spark.conf.get(name) for name in KEPT_BY_USERS}
    try:
        for name, value in KEPT_BY_USERS.items():
            spark.conf.set(name, value)

        again = session()

        assert {name: again.conf.get(name) for name in KEPT_BY_USERS} == KEPT_BY_USERS
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
