"""The report of a few messages that a person can count."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import pytest
from django.core.management import CommandError, call_command

from pgqueue.lake import export as export_to_lake
from pgqueue.management.commands.pgqueue_report import Command, source_of
from pgqueue.spark import NoExport
from pgqueue.spark.pipeline import METRICS
from pgqueue.spark.pipeline.material import Objective
from pgqueue.spark.pipeline.sources import Folder, Live
from pgqueue.spark.report import Report, build
from pgqueue.spark.summary import text
from tests.factories import Connection, bury, ended, enqueue
from tests.spark.conftest import wait_for_horizon
from tests.spark.messages import at, error, export, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY = timedelta(days=1)
ROWS = [
    message(0, 1, 2, id=1),
    message(10, 5, 10, id=2, key="a"),
    message(10, 20, 10, id=3, channel="slow", task="shop.count"),
    message(20, 1, 2, id=4, errors=[error(1, 5)], created_at=at(0)),
    message(30, 1, 1, id=5, errors=[error(1, 32)], outcome="dead"),
    message(0, None, 40, id=6, outcome="expired"),
]


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(spark, ROWS, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def report(spark: SparkSession, folder: Path) -> Report:
    return build(
        spark,
        Folder(str(folder)),
        since=at(0),
        until=at(60),
        objectives={"": Objective(20, 0.5), "slow": Objective(5, 0.9)},
    )


def test_every_metric_has_its_tables(report: Report) -> None:
    names = [name for metric in METRICS.values() for name in metric.tables]

    assert list(report.tables) == names
    assert all(metric.title and metric.says for metric in METRICS.values())


def test_facts(report: Report, folder: Path) -> None:
    facts = report.facts

    assert (facts["messages"], facts["percentiles"]) == (6, "exact")
    assert (facts["source"], facts["bucket_s"]) == (str(folder), 1)
    assert (facts["since"], facts["until"]) == (at(0), at(60))


def test_the_summary_counts(report: Report) -> None:
    [row] = report.tables["summary"].to_dict("records")

    assert (row["messages"], row["succeeded"], row["dead"], row["expired"]) == (6, 4, 1, 1)
    assert row["per_s"] == pytest.approx(0.1)
    assert row["retry_rate"] == pytest.approx(1 / 6)
    assert row["wait_p50_s"] == 1


def test_an_export_says_nothing_of_the_backlog_and_the_rest_of_what_happened(
    report: Report,
) -> None:
    rows = report.tables["over_time"]

    assert report.facts["has_live"] is False
    assert rows["backlog"].isna().all()
    assert not len(report.tables["forecast"])
    assert list(rows["arrived"][[0, 10, 30]]) == [3, 2, 1]
    assert (rows["ended"].sum(), rows["failed_attempts"].sum()) == (6, 2)


def test_running_is_how_many_ran_at_once(report: Report) -> None:
    rows = report.tables["over_time"]

    # 2 runs from 15 to 25, and 4 from 21 to 23.
    assert [float(rows["running"][second]) for second in (14, 16, 21, 24, 59)] == [0, 1, 2, 1, 0]
    assert rows["running"].sum() == pytest.approx(2 + 10 + 10 + 2 + 2 + 1)  # of 4, both


def test_objectives(report: Report) -> None:
    slo = report.tables["slo"].set_index("channel")

    # Of mail: 1, 2 and 4 would be in 20 seconds, but 4 took 23 from when it was created.
    assert (slo["messages"]["mail"], slo["within"]["mail"]) == (5, 2)
    assert slo["budget_left"]["mail"] == pytest.approx(1 - (3 / 5) / 0.5)
    assert (slo["within"]["slow"], slo["worst_burn"]["slow"]) == (0, pytest.approx(10))


def test_times_select_what_ended_then(spark: SparkSession, folder: Path) -> None:
    report = build(spark, Folder(str(folder)), since=at(23), until=at(40), exact_below=1)

    # 1 ended at 3, 6 at 40.
    assert report.facts["messages"] == 3
    assert report.facts["percentiles"] == "approximate"


def test_a_folder_without_an_export_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NoExport, match=f"{tmp_path} has no history: export to it first"):
        build(spark, Folder(str(tmp_path)))


def test_a_live_queue_without_messages_has_a_report(spark: SparkSession, url: str) -> None:
    report = build(spark, Live(url))

    assert report.facts["messages"] == 0
    assert len(report.tables["summary"]) == 0
    assert text(report).endswith("No message ended in this time.")


def test_the_backlog_of_a_live_queue_has_what_waited_when_the_report_began(
    spark: SparkSession, url: str, connection: Connection
) -> None:
    ended(connection, 2)
    bury(connection)
    enqueue(connection, 3)

    def go_on(title: str) -> None:
        if title != "Reading":
            connection.execute("DELETE FROM pgqueue_message WHERE state = 'ready'")

    report = build(spark, Live(url), progress=go_on)

    assert report.facts["messages"] == 3
    assert report.tables["over_time"]["backlog"].iloc[-1] == 3


def test_a_report_of_a_live_queue_about_the_past_has_no_backlog(
    spark: SparkSession, url: str, connection: Connection
) -> None:
    now = datetime.now(UTC)
    enqueue(connection, 3)
    connection.execute("UPDATE pgqueue_message SET created_at = %s, run_at = %s", [now - DAY] * 2)

    report = build(spark, Live(url), since=now - 2 * DAY, until=now - DAY / 2)

    over_time = report.tables["over_time"]
    assert report.facts["has_live"] is False
    assert over_time["arrived"].sum() == 0
    assert over_time["backlog"].isna().all()


class TestTheCommand:
    def test_prints_a_summary_and_writes_tables_and_a_page(
        self,
        spark: SparkSession,
        url: str,
        folder: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        page = tmp_path / "report.html"

        call_command(
            *("pgqueue_report", "--from", str(folder)),
            *("--tables", str(tmp_path), "--html", str(page)),
        )

        out = capsys.readouterr().out
        assert out.splitlines()[-1] == f"The report as a page: {page}"
        assert page.is_file()
        assert "6 messages ended" in out
        assert "shop.send" in out
        for metric in METRICS.values():
            for name in metric.tables:
                assert (tmp_path / f"{name}.csv").is_file()
        assert pandas.read_csv(tmp_path / "summary.csv")["messages"][0] == 6

    def test_reads_the_queue_itself(
        self,
        spark: SparkSession,
        url: str,
        connection: Connection,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        ended(connection, 3)

        call_command(
            *("pgqueue_report", "--live", "--tables", str(tmp_path), "--tables-format", "parquet")
        )

        assert "3 messages ended" in capsys.readouterr().out
        call_command("pgqueue_report", "--live", "--format", "json")
        tables = json.loads(capsys.readouterr().out)
        assert tables["summary"][0]["succeeded"] == 3
        assert pandas.read_parquet(tmp_path / "summary.parquet")["succeeded"][0] == 3

    def test_reads_the_last_rows_of_a_lake(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        ended(connection, 3)
        bury(connection, 1)
        wait_for_horizon(url)
        export_to_lake(url=url, to=str(tmp_path), tables_format="delta", source="eu")
        words = ["--from", str(tmp_path), "--from-format", "delta", "--source", "eu"]
        options = vars(Command().create_parser("manage.py", "pgqueue_report").parse_args(words))

        with source_of(url, options) as source:
            tables = source.read(spark, datetime.now(UTC) - timedelta(days=2), None)

            assert [each.count() for each in tables] == [3, 1, 0]
            assert str(source) == str(tmp_path)

    def test_says_in_one_line_what_is_wrong(
        self, spark: SparkSession, url: str, tmp_path: Path
    ) -> None:
        with pytest.raises(CommandError, match="has no history: export to it first"):
            call_command("pgqueue_report", "--from", str(tmp_path))

    @pytest.mark.parametrize(
        "words",
        [
            *(["--since", "yesterday"], ["--from", ""], ["--from", "x", "--live"]),
            *(["--objective", "mail"], ["--objective", "mail=1:1"], ["--tables-format", "xls"]),
        ],
        ids=" ".join,
    )
    def test_refuses_what_can_not_be(self, words: list[str], capsys: Any) -> None:
        with pytest.raises(CommandError):
            call_command("pgqueue_report", *words)
