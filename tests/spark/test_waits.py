"""The waits of durable runs, in Spark and in the report."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pgqueue.durable import signal
from pgqueue.models import History
from pgqueue.spark.page import render
from pgqueue.spark.pipeline import waits
from pgqueue.spark.pipeline.sources import Live
from pgqueue.spark.report import build
from pgqueue.spark.summary import text
from pgqueue.testing import run_all
from tests.durable import tasks
from tests.factories import Connection
from tests.spark.conftest import Read
from tests.spark.messages import BEGIN, message, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def step(name: str, kind: str, seconds: float | None, **changed: Any) -> dict[str, Any]:
    ended = None if seconds is None else (BEGIN + timedelta(seconds=seconds)).isoformat()
    return {
        "name": name,
        "kind": kind,
        "started_at": BEGIN.isoformat(),
        "finished_at": ended,
        **changed,
    }


class TestTheTable:
    def test_has_the_steps_of_live_and_ended_messages_without_results(
        self, read: Read, connection: Connection
    ) -> None:
        live, ended = tasks.asks_late.enqueue(2), tasks.asks_late.enqueue(7)
        run_all(raise_errors=True)
        signal(ended, "go", 81818181818)
        run_all(raise_errors=True)

        rows = read("steps").to_pylist()

        assert {row["message_id"] for row in rows} == {int(live.id), int(ended.id)}
        found = {(row["message_id"], row["name"]): row for row in rows}
        assert len(found) == 6
        open_, over = (found[int(each.id), "wait:go"] for each in (live, ended))
        assert (open_["state"], open_["finished_at"]) == ("waiting", None)
        assert over["finished_at"] > over["started_at"]
        assert (over["task"], over["kind"]) == (tasks.asks_late.name, "signal")
        assert "81818181818" not in str(rows) + str(read("history").column("steps").to_pylist())

    def test_is_narrowed_by_its_columns(self, read: Read, connection: Connection) -> None:
        tasks.naps.enqueue()
        tasks.asks.enqueue()
        run_all(raise_errors=True)

        assert read("steps", state="waiting", task=tasks.naps.name).num_rows == 1
        assert read("steps", since="2999-01-01").num_rows == 0


@pytest.mark.spark
class TestTheReport:
    def test_counts_waits_by_step(self, spark: SparkSession) -> None:
        rows = [
            message(steps=json.dumps(steps))
            for steps in (
                [step("night", "sleep", 60), step("add", "step", 5), step("wait:a", "signal", 10)],
                [step("night", "sleep", 120), step("night#2", "sleep", 180), step("x", "call", 1)],
                [step("wait:a", "signal", None), step("uuid", "value", 0)],
            )
        ]

        found = waits.waited(runs(spark, [*rows, message()])).collect()

        assert sorted((row["step"], row["kind"], row["wait_s"]) for row in found) == [
            ("night", "sleep", 60.0),
            ("night", "sleep", 120.0),
            ("night", "sleep", 180.0),
            ("wait:a", "signal", 10.0),
            ("x", "call", 1.0),
        ]

    def test_tells_them_on_its_page_and_in_its_summary(
        self, spark: SparkSession, url: str, connection: Connection
    ) -> None:
        result = tasks.asks_late.enqueue(2)
        run_all(raise_errors=True)
        signal(result, "go", 1)
        run_all(raise_errors=True)
        steps = History.objects.get().steps
        waited = step("wait:go", "signal", 3 * 3600)
        steps["steps"] = [each for each in steps["steps"] if each["name"] != "wait:go"]
        steps["steps"].append({**waited, "number": 3, "state": "done", "tries": 1})
        connection.execute("UPDATE pgqueue_history SET steps = %s", [json.dumps(steps)])

        report = build(spark, Live(url))

        [row] = report.tables["waits"].to_dict("records")
        assert (row["step"], row["kind"], row["waits"], row["wait_max_s"], row["share"]) == (
            "wait:go", "signal", 1, 3 * 3600.0, 1.0,
        )  # fmt: skip
        assert "waited for a signal longest, at wait:go" in render(report)
        assert "asks_late, wait:go" in text(report)
