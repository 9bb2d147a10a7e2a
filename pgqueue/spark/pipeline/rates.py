"""How messages ended, how long they waited and ran: of all, and by channel, task, hour and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected
from pgqueue.spark.pipeline.percentiles import spread, values_of

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import Column, DataFrame

KEYS = 200
"""Keys that are told of, those with most messages."""
SLOWEST = 20
"""Tasks that are told of, those that ran longest in total."""
OUTCOMES = ("succeeded", "dead", "cancelled", "discarded", "expired")
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_PERCENTILES = {
    "wait": {f"wait_{name}_s": share for name, share in _SHARES.items()},
    "run": {f"run_{name}_s": share for name, share in _SHARES.items()},
    "total": {"total_p99_s": 0.99},
}
RATES = ("success_rate", "retry_rate", "death_rate", "loss_rate")
GROUPED = (
    *("messages", "succeeded", "dead", *RATES),
    *_PERCENTILES["wait"],
    *_PERCENTILES["run"],
    "run_total_s",
)
SUMMARY = (
    *("messages", *OUTCOMES, "per_s", *RATES),
    *_PERCENTILES["wait"],
    *_PERCENTILES["run"],
    "total_p99_s",
)


def make(given: Material) -> Made:
    """Make the tables summary, by_channel, by_task, by_hour and slowest_tasks."""
    found = collected(rates(given.runs, exact=given.exact))
    summary = found[found["by"] == "all"].reset_index(drop=True)
    summary["per_s"] = summary["messages"] / max(given.period.seconds, 1)
    tables = {"summary": summary[list(SUMMARY)]}
    for by in ("channel", "task", "hour"):
        rows = found[found["by"] == by]
        rows = rows.sort_values("hour") if by == "hour" else _by_messages(rows, by)
        rows = rows[[by, *GROUPED]].reset_index(drop=True)
        tables[f"by_{by}"] = rows.astype({"hour": "int64"}) if by == "hour" else rows
    return Made({**tables, "slowest_tasks": _slowest(tables["by_task"])})


def make_by_key(given: Material) -> Made:
    """Make the table by_key."""
    rows = _by_messages(collected(by_key(given.runs, exact=given.exact)), "key")
    return Made({"by_key": rows[["key", *GROUPED]].reset_index(drop=True)})


def _by_messages(rows: Pandas, name: str) -> Pandas:
    return rows.sort_values(["messages", name], ascending=[False, True])


def _slowest(tasks: Pandas) -> Pandas:
    """Return the tasks that ran longest in total."""
    rows = tasks.sort_values(["run_total_s", "task"], ascending=[False, True]).head(SLOWEST)
    rows = rows.assign(share=rows["run_total_s"] / max(tasks["run_total_s"].sum(), 1e-9))
    columns = ["task", "messages", "run_p50_s", "run_p99_s", "run_total_s", "share"]
    return rows[columns].reset_index(drop=True)


def rates(runs: DataFrame, *, exact: bool) -> DataFrame:
    """Aggregate all runs, and those of each channel, task and hour of the day (UTC).

    Returns:
        One row for all and one for each group, told apart by the column `by`: "all", "channel",
        "task" or "hour"; and what `GROUPED` and `SUMMARY` name, except per_s.
    """
    grouped = runs.withColumn("hour", _hour(F.col("ended_at")))
    sets = grouped.groupingSets([[], ["channel"], ["task"], ["hour"]], "channel", "task", "hour")
    # Which of the columns a set leaves out, as bits: channel 4, task 2, hour 1.
    names = {7: "all", 3: "channel", 5: "task", 6: "hour"}
    by = F.element_at(
        F.create_map(*[F.lit(x) for pair in names.items() for x in pair]), _left_out()
    )
    return _finished(sets.agg(by.alias("by"), *_aggregates(exact)))


def by_key(runs: DataFrame, *, exact: bool, keys: int = KEYS) -> DataFrame:
    """Aggregate the runs of each of the keys with most messages."""
    keyed = runs.where(F.col("key") != "")
    most = keyed.groupBy("key").agg(F.count("*").alias("n")).orderBy(F.desc("n"), "key").limit(keys)
    chosen = keyed.join(F.broadcast(most.select("key")), "key")
    return _finished(chosen.groupBy("key").agg(*_aggregates(exact)))


def _left_out() -> Column:
    return F.grouping_id("channel", "task", "hour").cast("int")


def _hour(time: Column) -> Column:
    """Return the hour of the day in UTC, whatever the session's time zone."""
    return ((F.unix_micros(time) / 3_600_000_000).cast("long") % 24).cast("int")


def _aggregates(exact: bool) -> list[Column]:
    def number(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    return [
        F.count("*").alias("messages"),
        *[number(F.col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES],
        number(F.col("is_retried")).alias("retried"),
        number(F.col("lost") > 0).alias("lost"),
        F.coalesce(F.sum("run_s"), F.lit(0.0)).alias("run_total_s"),
        *[values_of(F.col(f"{name}_s"), exact=exact).alias(name) for name in _PERCENTILES],
    ]


def _finished(frame: DataFrame) -> DataFrame:
    rated = frame
    counted = ("succeeded", "retried", "dead", "lost")
    for rate, count in zip(RATES, counted, strict=True):
        rated = rated.withColumn(rate, F.try_divide(F.col(count), F.col("messages")))
    return spread(rated.drop("retried", "lost"), _PERCENTILES)
