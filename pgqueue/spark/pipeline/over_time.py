"""Arrivals, ends, backlog and concurrency over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected
from pgqueue.spark.pipeline.percentiles import counted_values, spread

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import Column, DataFrame

    from pgqueue.spark.pipeline.periods import Period

COLUMNS = (
    *("at", "arrived", "ended", "failed_attempts", "backlog", "running"),
    *("wait_p50_s", "wait_p99_s"),
)
_COUNTS = ("arrived", "ended", "failed_attempts", "due", "begun", "started", "finished")


def make_over_time(given: Material) -> Made:
    """Make the table over_time."""
    found = over_time(given.attempts, given.period, exact=given.exact)
    return Made({"over_time": table(collected(found), given.period)})


def over_time(attempts: DataFrame, period: Period, *, exact: bool) -> DataFrame:
    """Aggregate attempts by the bucket of each of their events.

    Returns:
        bucket (-1: before the period), arrived, ended, failed_attempts, due, begun (or ended
        without a begin), started and finished (of runs). Also left_s: the seconds from each start
        to the end of its bucket, minus the seconds from each finish to the end of its bucket.
        Also wait and wait_count: the waits that ended there (see `percentiles.counted_values`).
    """
    happened = attempts.select(F.explode(_events(period)).alias("event")).select("event.*")
    return (
        happened.where(F.col("bucket") < period.buckets)
        .groupBy("bucket")
        .agg(
            *[F.sum(name).alias(name) for name in (*_COUNTS, "left_s")],
            *counted_values({"wait": F.col("wait_s")}, exact=exact),
        )
    )


def table(found: Pandas, period: Period) -> Pandas:
    """Turn the result of `over_time` into a row for each bucket."""
    import pandas

    found = spread(found, {"wait": {"wait_p50_s": 0.5, "wait_p99_s": 0.99}})
    rows = found.set_index("bucket").reindex(range(-1, period.buckets))
    sums = [*_COUNTS, "left_s"]
    rows[sums] = rows[sums].fillna(0)
    rows["backlog"] = (rows["due"] - rows["begun"]).cumsum()
    ran_before = (rows["started"] - rows["finished"]).cumsum().shift(fill_value=0)
    ends = [*period.starts[1:], period.until]
    widths = [
        max((end - start).total_seconds(), 1e-6)
        for start, end in zip(period.starts, ends, strict=True)
    ]
    rows, ran_before = rows.loc[0:], ran_before.loc[0:]
    # A message that runs at the begin of a bucket counts for the whole bucket. A message that
    # starts in it counts from its start. After its finish, a message does not count.
    rows["running"] = (ran_before * widths + rows["left_s"]).clip(lower=0) / widths
    rows["at"] = pandas.to_datetime(period.starts, utc=True)
    counts = ["arrived", "ended", "failed_attempts", "backlog"]
    rows[counts] = rows[counts].astype("int64")
    return rows[list(COLUMNS)].reset_index(drop=True)


def _events(period: Period) -> Column:
    """Return an array of the events of an attempt, each with its bucket."""
    last, failed = F.col("is_last"), F.col("is_failed")
    started, ended = F.col("started_at"), F.col("ended_at")
    ran = started.isNotNull()
    begun = F.coalesce(started, ended)
    # The JVM compiles arrays of structs, but interprets functions of arrays.
    return F.array(
        _event(period.bucket(F.col("arrived_at")), arrived=last),
        _event(period.bucket(F.col("due_at")), due=F.lit(True)),
        _event(
            period.bucket(begun),
            begun=F.lit(True),
            started=ran,
            left_s=F.when(ran, _left(period, started)),
            wait_s=F.col("wait_s"),
        ),
        _event(
            period.bucket(ended),
            ended=last,
            failed_attempts=failed,
            finished=ran,
            left_s=F.when(ran, -_left(period, ended)),
        ),
    )


def _left(period: Period, time: Column) -> Column:
    """Return the seconds from a time to the end of its bucket; 0 before the period."""
    end = F.least((period.bucket(time) + 1) * period.width, F.lit(period.seconds))
    return F.when(period.bucket(time) >= 0, end - period.place(time)).otherwise(0.0)


def _event(bucket: Column, **what: Column) -> Column:
    return F.struct(
        bucket.alias("bucket"),
        *[what.get(name, F.lit(0)).cast("int").alias(name) for name in _COUNTS],
        *[what.get(name, F.lit(None)).cast("double").alias(name) for name in ("left_s", "wait_s")],
    )
