"""Every attempt with its times: measured for the last attempt, estimated for earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.runs import LOST, failed_before

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEPT = ("id", "channel", "key", "task", "priority")
_TIMES = ("due_at", "started_at", "ended_at", "is_failed")
_BY = ("worker_id", "is_lost")


def attempts(runs: DataFrame) -> DataFrame:
    """Derive one row for each attempt.

    History has only the end of an earlier attempt. Its estimated wait and run time equal the last
    attempt's. Its begin is never before the previous attempt's end. Some attempts are unknown: of
    messages with more than ten errors, and of deferred messages.

    Returns:
        The columns id, channel, key, task, priority, due_at, started_at (NULL: it never began),
        ended_at (NULL: not yet), and
        `is_failed`: whether it failed or was lost;
        `is_only`: whether the message has no other attempt;
        `is_last`: whether it is the last attempt.
        The last attempt also has
        `arrived_at`: when the message was first due;
        `wait_s`: the measured wait;
        `worker_id`: the worker; NULL: unknown;
        `is_lost`: whether its worker died, or lost its connection;
        `claimed_at`: when it was claimed;
        `is_exact`: whether its begin and end are measured. A failed run ends when this is stored.
    """
    nothing = F.lit(None)
    last = runs.select(
        *_KEPT,
        *("due_at", "started_at", "ended_at"),
        (F.col("outcome") == "dead").alias("is_failed"),
        F.col("errors").isNull().alias("is_only"),
        F.lit(True).alias("is_last"),
        *("arrived_at", "wait_s", "worker_id"),
        F.lit(False).alias("is_lost"),
        "claimed_at",
        (F.col("outcome") == "succeeded").alias("is_exact"),
    )
    earlier = (
        runs.where(F.col("errors").isNotNull())
        .withColumn("failed_before", failed_before())
        .select(*_KEPT, F.explode(_estimated(F.col("failed_before"))).alias("each"))
        .select(
            *_KEPT,
            *[F.col(f"each.{name}") for name in _TIMES],
            F.lit(False).alias("is_only"),
            F.lit(False).alias("is_last"),
            nothing.cast("timestamp_ltz").alias("arrived_at"),
            nothing.cast("double").alias("wait_s"),
            *[F.col(f"each.{name}") for name in _BY],
            nothing.cast("timestamp_ltz").alias("claimed_at"),
            F.lit(False).alias("is_exact"),
        )
    )
    return last.unionByName(earlier)


def _estimated(failed: Column) -> Column:
    def attempt(error: Column, index: Column) -> Column:
        end = error.at
        before = F.when(index == 0, F.col("arrived_at")).otherwise(F.get(failed, index - 1).at)
        # A replayed message has attempts from before its creation.
        before = F.least(before, end)
        started = F.greatest(before, _earlier(end, "run_s"))
        due = F.when(index == 0, before).otherwise(F.greatest(before, _earlier(started, "wait_s")))
        return F.struct(
            due.alias("due_at"),
            started.alias("started_at"),
            end.alias("ended_at"),
            F.lit(True).alias("is_failed"),
            error.worker_id.alias("worker_id"),
            (error.error_class == LOST).alias("is_lost"),
        )

    return F.transform(failed, attempt)


def _earlier(time: Column, seconds: str) -> Column:
    micros = (F.coalesce(F.col(seconds), F.lit(0.0)) * 1e6).cast("long")
    return F.timestamp_micros(F.unix_micros(time) - micros)
