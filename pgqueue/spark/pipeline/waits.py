"""Where durable runs waited: for a time, a signal, an event or other messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material
from pgqueue.spark.pipeline.percentiles import spread, with_values
from pgqueue.spark.pipeline.runs import seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("sleep", "signal", "event", "call")
"""The kinds of steps that wait."""
ROWS = 200
"""The most rows of the table: those with the longest total wait."""
DURATIONS = {"wait": {"wait_p50_s": 0.5, "wait_p95_s": 0.95, "wait_max_s": 1.0}}
COLUMNS = ("task", "step", "kind", "waits", *DURATIONS["wait"], "wait_total_s", "share")
_STEPS = "array<struct<name: string, kind: string, started_at: string, finished_at: string>>"


def make_waits(given: Material) -> Made:
    """Make the table waits."""
    waits = waited(given.runs)
    by = ("task", "step", "kind")
    groups = (
        waits.groupBy(*by)
        .agg(F.count("*").alias("waits"), F.sum("wait_s").alias("wait_total_s"))
        .orderBy(F.desc("wait_total_s"), "task", "step")
        .limit(ROWS)
    )
    rows = spread(with_values(groups, waits, by, {"wait": "wait_s"}, exact=given.exact), DURATIONS)
    rows["share"] = rows["wait_total_s"] / (rows["wait_total_s"].sum() or 1.0)
    return Made({"waits": rows[list(COLUMNS)]})


def waited(runs: DataFrame) -> DataFrame:
    """Return one row for each wait that is over, of messages that ended.

    Returns:
        The columns task, step (its name without a number), kind and wait_s.
    """
    each = runs.where(F.col("steps").isNotNull()).select(
        "task", F.explode(F.from_json("steps", _STEPS)).alias("each")
    )
    began, ended = (
        F.col(f"each.{name}").try_cast("timestamp_ltz") for name in ("started_at", "finished_at")
    )
    return (
        each.where(F.col("each.kind").isin(*KINDS))
        .where(ended.isNotNull())
        .select(
            "task",
            F.regexp_replace("each.name", "#[0-9]+$", "").alias("step"),
            F.col("each.kind").alias("kind"),
            F.greatest(seconds(began, ended), F.lit(0.0)).alias("wait_s"),
        )
    )
