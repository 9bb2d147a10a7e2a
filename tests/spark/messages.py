"""Messages that ended, made by hand, with times in seconds after `BEGIN`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pgqueue.arrow.tables import TABLES
from pgqueue.spark.pipeline.runs import DEADLETTERS, HISTORY, MESSAGES
from pgqueue.spark.pipeline.runs import runs as derive

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FLOW = (
    *("flow_id", "flow_name", "flow_created_at", "flow_ended_at"),
    *("freed_by", "freed_at"),
)
BEGIN = datetime(2026, 11, 24, 10, 0, tzinfo=UTC)
Row = dict[str, Any]


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def error(attempt: int, seconds: float, **changed: Any) -> Row:
    """An attempt that failed."""
    given = {"class": "shop.Oops", "message": "Oops", "traceback": "", **changed}
    return {"attempt": attempt, "worker": "w", "at": at(seconds).isoformat(), **given}


def message(
    due: float = 0,
    wait: float | None = 1,
    run: float = 2,
    *,
    outcome: str = "succeeded",
    errors: list[Row] | None = None,
    **changed: Any,
) -> Row:
    """A message whose last attempt was due, waited and ran so long; `wait` None: it had none."""
    began = None if wait is None else at(due + wait)
    failures = changed.pop("failures", len(errors or []))
    return {
        "id": 1,
        "channel": "mail",
        "key": "",
        "task": "shop.send",
        "priority": 0,
        "worker_id": None if outcome == "dead" or began is None else "w",
        "attempt": max(1, failures + (outcome == "succeeded")),
        "failures": failures,
        "lost": 0,
        "created_at": at(due),
        "run_at": at(due),
        "claimed_at": began,
        "started_at": began,
        "errors": json.dumps(errors or []),
        **dict.fromkeys(FLOW),
        "steps": None,
        "outcome": outcome,
        "ended_at": at(due + (wait or 0) + run),
        **changed,
    }


def frames(spark: SparkSession, rows: list[Row]) -> tuple[DataFrame, DataFrame]:
    """Return these rows as history and as dead letters."""
    history = [{**row, "finished_at": row["ended_at"]} for row in rows if row["outcome"] != "dead"]
    letters = [{**row, "died_at": row["ended_at"]} for row in rows if row["outcome"] == "dead"]
    return (
        _frame(spark, "history", HISTORY, history),
        _frame(spark, "deadletters", DEADLETTERS, letters),
    )


def runs(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """Return what the pipeline derives of these rows."""
    return derive(*frames(spark, rows))


def live(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """Return these rows as live messages, each with its state."""
    return _frame(spark, "messages", MESSAGES, rows)


def export(spark: SparkSession, rows: list[Row], folder: Path) -> Path:
    """Write these rows into a folder, as an export does."""
    for frame, name, time in zip(
        frames(spark, rows), ("history", "deadletters"), ("finished_at", "died_at"), strict=True
    ):
        dated = frame.withColumn("day", F.to_date(time)).withColumn("batch_id", F.lit(0))
        by = ("day", "batch_id") if name == "history" else ("day",)
        dated.coalesce(1).write.partitionBy(*by).parquet(str(folder / name))
    return folder


def _frame(spark: SparkSession, table: str, names: tuple[str, ...], rows: list[Row]) -> DataFrame:
    columns = [TABLES[table].column(name) for name in names]
    schema = ", ".join(f"`{column.name}` {column.type.value}" for column in columns)
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)
