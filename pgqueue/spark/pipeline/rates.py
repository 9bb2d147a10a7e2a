"""Ends, waits and run times of messages: in total, and by channel, task, hour and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected
from pgqueue.spark.pipeline.percentiles import Part, percentiles, with_values

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import Column, DataFrame

HOUR = 3_600_000_000
KEYS = 200
"""The most keys in the table: the keys with the most messages."""
SLOWEST = 20
"""The most tasks in the table: the tasks with the longest total run time."""
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


_COUNTS = ("messages", *OUTCOMES, "retried", "lost", "run_total_s")


def make_rates(given: Material) -> Made:
    """Make the tables summary, by_channel, by_task, by_hour, by_key and slowest_tasks."""
    parts = rates(given.runs, exact=given.exact)
    summary = rolled_up(parts)
    summary["per_s"] = summary["messages"] / max(given.period.seconds, 1)
    tables = {"summary": summary[list(SUMMARY)]}
    for by in ("channel", "task", "hour", "key"):
        rows = rolled_up(parts, by)
        rows = rows.sort_values("hour") if by == "hour" else _by_messages(rows, by)
        rows = rows[[by, *GROUPED]].reset_index(drop=True)
        tables[f"by_{by}"] = rows.astype({"hour": "int64"}) if by == "hour" else rows
    return Made({**tables, "slowest_tasks": _slowest(tables["by_task"])})


def _by_messages(rows: Pandas, name: str) -> Pandas:
    return rows.sort_values(["messages", name], ascending=[False, True])


def _slowest(tasks: Pandas) -> Pandas:
    """Return the tasks with the longest total run time."""
    rows = tasks.sort_values(["run_total_s", "task"], ascending=[False, True]).head(SLOWEST)
    rows = rows.assign(share=rows["run_total_s"] / max(tasks["run_total_s"].sum(), 1e-9))
    columns = ["task", "messages", "run_p50_s", "run_p99_s", "run_total_s", "share"]
    return rows[columns].reset_index(drop=True)


def rates(runs: DataFrame, *, exact: bool, keys: int = KEYS) -> Pandas:
    """Aggregate runs by channel, task, hour and key together; `rolled_up` joins these groups.

    So each value is collected once.

    Returns:
        channel, task, hour (of the day, in UTC), key (NULL: "", or a key with few messages).
        Also messages, a column for each of `OUTCOMES`, retried, lost, run_total_s, wait,
        wait_count and so on (see `percentiles.with_values`).
    """
    most = collected(
        runs.where(F.col("key") != "")
        .groupBy("key")
        .agg(F.count("*").alias("n"))
        .orderBy(F.desc("n"), "key")
        .limit(keys)
    )
    told = F.when(F.col("key").isin(most["key"].tolist()), F.col("key"))
    by = ("channel", "task", "hour", "told")
    rows = runs.withColumn("told", told).withColumn("hour", _hour(F.col("ended_at")))
    groups = rows.groupBy(*by).agg(*_aggregates())
    columns = {name: f"{name}_s" for name in _PERCENTILES}
    return with_values(groups, rows, by, columns, exact=exact).rename(columns={"told": "key"})


def rolled_up(parts: Pandas, by: str | None = None) -> Pandas:
    """Join the result of `rates` into the groups of one column; None: into a single row.

    Returns:
        The column `by`, and the columns of `GROUPED` and `SUMMARY`, except per_s.
    """
    import pandas

    groups = parts.groupby(by) if by else [(None, parts)] if len(parts) else []
    rows = pandas.DataFrame([{by: name, **_joined(group)} for name, group in groups])
    if rows.empty:
        rows = pandas.DataFrame(columns=[by, *_joined(parts)])
    for rate, count in zip(RATES, ("succeeded", "retried", "dead", "lost"), strict=True):
        rows[rate] = rows[count] / rows["messages"]
    return rows


def _joined(group: Pandas) -> dict[str, float]:
    row = {name: group[name].sum() for name in _COUNTS}
    for name, shares in _PERCENTILES.items():
        found = percentiles(map(Part, group[name], group[f"{name}_count"]), [*shares.values()])
        row |= dict(zip(shares, found, strict=True))
    return row


def _hour(time: Column) -> Column:
    """Return the hour of the day in UTC, in any time zone of the session."""
    of_day = F.pmod(F.unix_micros(time), F.lit(24 * HOUR))
    return F.floor(of_day / HOUR).cast("int")


def _aggregates() -> list[Column]:
    def number(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    return [
        F.count("*").alias("messages"),
        *[number(F.col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES],
        number(F.col("is_retried")).alias("retried"),
        number(F.col("lost") > 0).alias("lost"),
        F.coalesce(F.sum("run_s"), F.lit(0.0)).alias("run_total_s"),
    ]
