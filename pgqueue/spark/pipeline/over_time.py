"""Arrivals, ends, backlog and concurrency over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material
from pgqueue.spark.pipeline.percentiles import spread, with_values

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
    return Made({"over_time": table(found, given.period)})


def over_time(attempts: DataFrame, period: Period, *, exact: bool) -> Pandas:
    """Aggregate attempts by the bucket of each of their events.

    Returns:
        bucket (-1: before the period), arrived, ended, failed_attempts, due, begun (or ended
        without a begin), started and finished (of runs). Also left_s: the seconds from each start
        to the end of its bucket, minus the seconds from each finish to the end of its bucket.
        Also wait and wait_count: the waits that ended there (see `percentiles.with_values`).
    """
    happened = _together(attempts, period).select(F.explode(_events()).alias("event"))
    buckets = (
        happened.select("event.*")
        .where(F.col("bucket") < period.buckets)
        .groupBy("bucket")
        .agg(*[F.sum(name).alias(name) for name in (*_COUNTS, "left_s")])
    )
    begun = attempts.select(period.bucket(_begun()).alias("bucket"), "wait_s")
    return with_values(buckets, begun, ["bucket"], {"wait": "wait_s"}, exact=exact)


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


def _together(attempts: DataFrame, period: Period) -> DataFrame:
    """Count the attempts whose events are in the same buckets.

    Most attempts begin and end soon after they are due, so many have all events in equal buckets.

    Returns:
        The buckets arrived, due, begun and ended; is_last, is_failed and ran (it has begun); number
        (of attempts), started_s and ended_s (sums of `_left`).
    """
    started, ended = F.col("started_at"), F.col("ended_at")
    ran = started.isNotNull()
    return (
        attempts.select(
            period.bucket(F.col("arrived_at")).alias("arrived"),
            period.bucket(F.col("due_at")).alias("due"),
            period.bucket(_begun()).alias("begun"),
            period.bucket(ended).alias("ended"),
            *("is_last", "is_failed"),
            ran.alias("ran"),
            F.when(ran, _left(period, started)).alias("started_s"),
            F.when(ran, _left(period, ended)).alias("ended_s"),
        )
        .groupBy("arrived", "due", "begun", "ended", "is_last", "is_failed", "ran")
        .agg(
            F.count("*").alias("number"),
            F.sum("started_s").alias("started_s"),
            F.sum("ended_s").alias("ended_s"),
        )
    )


def _events() -> Column:
    """Return an array of the events of attempts (see `_together`), each with its bucket."""
    number = F.col("number")

    def where(is_so: str) -> Column:
        return F.when(F.col(is_so), number).otherwise(0)

    # The JVM compiles arrays of structs, but interprets functions of arrays.
    return F.array(
        _event("arrived", arrived=where("is_last")),
        _event("due", due=number),
        _event("begun", begun=number, started=where("ran"), left_s=F.col("started_s")),
        _event(
            "ended",
            ended=where("is_last"),
            failed_attempts=where("is_failed"),
            finished=where("ran"),
            left_s=-F.col("ended_s"),
        ),
    )


def _begun() -> Column:
    """Return the begin of an attempt; or its end, if it never began."""
    return F.coalesce("started_at", "ended_at")


def _left(period: Period, time: Column) -> Column:
    """Return the seconds from a time to the end of its bucket; 0 before the period."""
    end = F.least((period.bucket(time) + 1) * period.width, F.lit(period.seconds))
    return F.when(period.bucket(time) >= 0, end - period.place(time)).otherwise(0.0)


def _event(bucket: str, **what: Column) -> Column:
    return F.struct(
        F.col(bucket).alias("bucket"),
        *[what.get(name, F.lit(0)).cast("long").alias(name) for name in _COUNTS],
        what.get("left_s", F.lit(None)).cast("double").alias("left_s"),
    )
