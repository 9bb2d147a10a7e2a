"""Every attempt, with its times: those of the last are measured, those before are estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEPT = ("id", "channel", "key", "task", "priority")
_TIMES = ("due_at", "started_at", "ended_at", "is_failed")


def attempts(runs: DataFrame) -> DataFrame:
    """Derive one row for each attempt.

    Of an attempt before the last one only the end is known. It is taken to have run as long as the
    last one, and to have waited as long, but not before the end of the one before it. Of a message
    with more than ten errors, and of what was deferred, some attempts are not known at all.

    Returns:
        id, channel, key, task, priority;
        due_at, started_at (NULL: it never began), ended_at (NULL: not yet);
        is_failed: whether it failed or was lost;
        is_only: whether the message has no other; is_last: whether it is its last one; and for that
        arrived_at: when the message was first due; wait_s: measured.
    """
    nothing = F.lit(None)
    last = runs.select(
        *_KEPT,
        *("due_at", "started_at", "ended_at"),
        (F.col("outcome") == "dead").alias("is_failed"),
        F.col("errors").isNull().alias("is_only"),
        F.lit(True).alias("is_last"),
        *("arrived_at", "wait_s"),
    )
    before = F.filter("errors", lambda error: error.attempt < F.col("attempt"))
    ends = F.transform(before, lambda error: error.at)
    earlier = (
        runs.where(F.col("errors").isNotNull())
        .withColumn("ends", ends)
        .select(*_KEPT, F.explode(_estimated(F.col("ends"))).alias("each"))
        .select(
            *_KEPT,
            *[F.col(f"each.{name}") for name in _TIMES],
            F.lit(False).alias("is_only"),
            F.lit(False).alias("is_last"),
            nothing.cast("timestamp").alias("arrived_at"),
            nothing.cast("double").alias("wait_s"),
        )
    )
    return last.unionByName(earlier)


def _estimated(ends: Column) -> Column:
    def attempt(end: Column, index: Column) -> Column:
        before = F.when(index == 0, F.col("arrived_at")).otherwise(F.get(ends, index - 1))
        # The times of a message that was replayed may be before its creation.
        before = F.least(before, end)
        started = F.greatest(before, _earlier(end, "run_s"))
        due = F.when(index == 0, before).otherwise(F.greatest(before, _earlier(started, "wait_s")))
        return F.struct(
            due.alias("due_at"),
            started.alias("started_at"),
            end.alias("ended_at"),
            F.lit(True).alias("is_failed"),
        )

    return F.transform(ends, attempt)


def _earlier(time: Column, seconds: str) -> Column:
    micros = (F.coalesce(F.col(seconds), F.lit(0.0)) * 1e6).cast("long")
    return F.timestamp_micros(F.unix_micros(time) - micros)
