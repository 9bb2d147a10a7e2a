"""Arrivals, ends, backlog and concurrency over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected
from pgqueue.spark.pipeline.percentiles import spread, values_of

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import Column, DataFrame

    from pgqueue.spark.pipeline.periods import Period

COLUMNS = (
    *("at", "arrived", "ended", "failed_attempts", "backlog", "running"),
    *("wait_p50_s", "wait_p99_s"),
)


def make(given: Material) -> Made:
    """Make the table over_time."""
    found = over_time(given.attempts, given.period, exact=given.exact)
    return Made({"over_time": table(collected(found), given.period)})


def over_time(attempts: DataFrame, period: Period, *, exact: bool) -> DataFrame:
    """Aggregate attempts by the bucket in which something happened to them.

    Returns:
        bucket (-1: before the period), arrived, ended, failed_attempts, due, begun (or ended
        without), busy_s (seconds of running) and percentiles of the waits that ended there.
    """
    happened = attempts.select(F.explode(_events(period)).alias("event")).select("event.*")
    summed = ("arrived", "ended", "failed_attempts", "due", "begun", "busy_s")
    grouped = happened.groupBy("bucket").agg(
        *[F.sum(name).alias(name) for name in summed],
        values_of(F.col("wait_s"), exact=exact).alias("wait"),
    )
    return spread(grouped, {"wait": {"wait_p50_s": 0.5, "wait_p99_s": 0.99}})


def table(found: Pandas, period: Period) -> Pandas:
    """Turn what `over_time` found into a row for each bucket."""
    import pandas

    rows = found.set_index("bucket").reindex(range(-1, period.buckets))
    sums = ["arrived", "ended", "failed_attempts", "due", "begun", "busy_s"]
    rows[sums] = rows[sums].fillna(0)
    rows["backlog"] = (rows["due"] - rows["begun"]).cumsum()
    rows = rows.loc[0:]
    ends = [*period.starts[1:], period.until]
    widths = [
        max((end - start).total_seconds(), 1e-6)
        for start, end in zip(period.starts, ends, strict=True)
    ]
    rows["running"] = rows["busy_s"] / widths
    rows["at"] = pandas.to_datetime(period.starts, utc=True)
    counts = ["arrived", "ended", "failed_attempts", "backlog"]
    rows[counts] = rows[counts].astype("int64")
    return rows[list(COLUMNS)].reset_index(drop=True)


def _events(period: Period) -> Column:
    """Return an array of what happened to an attempt, each with the bucket in which it did."""
    last, failed = F.col("is_last"), F.col("is_failed")
    begun = F.coalesce("started_at", "ended_at")
    ended = F.coalesce(F.col("ended_at"), F.lit(period.until))
    once = F.array(
        _event(period.bucket(F.col("arrived_at")), arrived=last),
        _event(period.bucket(F.col("due_at")), due=F.lit(True)),
        _event(period.bucket(begun), begun=F.lit(True), wait_s=F.col("wait_s")),
        _event(period.bucket(F.col("ended_at")), ended=last, failed_attempts=failed),
    )
    first = F.greatest(F.lit(0), period.bucket(F.col("started_at")))
    has_begun = F.col("started_at").isNotNull()
    through = F.least(F.lit(period.buckets - 1), period.bucket(ended))
    stretches = F.when(has_begun & (first <= through), F.sequence(first, through)).otherwise(
        F.array()
    )

    def ran(bucket: Column) -> Column:
        begin = F.greatest(period.place(F.col("started_at")), bucket * period.width)
        end = F.least(period.place(ended), (bucket + 1) * period.width)
        return _event(bucket, busy_s=F.greatest(F.lit(0.0), end - begin))

    events = F.concat(once, F.transform(F.coalesce(stretches, F.array()), ran))
    return F.filter(events, lambda event: event.bucket < period.buckets)


def _event(bucket: Column, **what: Column) -> Column:
    counts = ("arrived", "ended", "failed_attempts", "due", "begun")
    sums = ("busy_s", "wait_s")
    return F.struct(
        bucket.alias("bucket"),
        *[what.get(name, F.lit(0)).cast("int").alias(name) for name in counts],
        *[what.get(name, F.lit(None)).cast("double").alias(name) for name in sums],
    )
