"""Times in which a task was retried far more often than usual."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame

    from pgqueue.spark.pipeline.periods import Period

LEAST = 10
"""The fewest retries in a bucket of a storm."""
TIMES = 3
"""The least ratio of a storm's retries per message to the usual ones."""
USUAL = 0.05
"""Retries per message that are usual for any task."""
COLUMNS = (
    *("task", "began_at", "ended_at", "attempts", "retries", "retries_per_message"),
    "usual_retries_per_message",
)


def make_storms(given: Material) -> Made:
    """Make the table retry_storms."""
    counted = collected(retries(given.attempts, given.period))
    return Made({"retry_storms": storms(counted, given.period)})


def retries(attempts: DataFrame, period: Period) -> DataFrame:
    """Count by task and bucket the ended attempts, and the retried failures.

    Returns:
        task, bucket, attempts, retries, messages.
    """
    ended = attempts.where(F.col("ended_at").isNotNull() & F.col("started_at").isNotNull())
    is_only = F.col("is_only")
    return ended.groupBy("task", period.bucket(F.col("ended_at")).alias("bucket")).agg(
        F.count("*").alias("attempts"),
        F.count(F.when(~F.col("is_last"), 1)).alias("retries"),
        # Few messages have more than one attempt: count only these by their ids.
        (F.count(F.when(is_only, 1)) + F.count_distinct(F.when(~is_only, F.col("id")))).alias(
            "messages"
        ),
    )


def storms(counted: Pandas, period: Period) -> Pandas:
    """Join adjacent buckets with far more retries than the task's median bucket."""
    import pandas

    rows = []
    for task, buckets in counted.sort_values("bucket").groupby("task"):
        rate = buckets["retries"] / buckets["messages"]
        usual = float(rate.median())
        stormy = buckets[(buckets["retries"] >= LEAST) & (rate >= TIMES * max(usual, USUAL))]
        run = (stormy["bucket"].diff() != 1).cumsum()
        for _, storm in stormy.groupby(run):
            first, last = int(storm["bucket"].iloc[0]), int(storm["bucket"].iloc[-1])
            end = period.since + timedelta(seconds=(last + 1) * period.width)
            retried = int(storm["retries"].sum())
            rows.append(
                (
                    task,
                    period.since + timedelta(seconds=first * period.width),
                    min(end, period.until),
                    int(storm["attempts"].sum()),
                    retried,
                    retried / int(storm["messages"].sum()),
                    usual,
                )
            )
    table = pandas.DataFrame(rows, columns=list(COLUMNS))
    return table.sort_values(["began_at", "task"]).reset_index(drop=True)
