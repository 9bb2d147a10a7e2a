"""Keys that take most of a channel's time, and what the others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected
from pgqueue.spark.pipeline.percentiles import spread, values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOISY = 10
"""Keys that are told of."""
COLUMNS = (
    *("channel", "key", "messages", "share", "run_total_s", "run_share"),
    *("wait_p99_s_of_others", "failures"),
)


def make(given: Material) -> Made:
    """Make the table noisiest_keys."""
    rows = collected(noisiest_keys(given.runs, exact=given.exact))
    rows = rows.sort_values(["run_total_s", "channel", "key"], ascending=[False, True, True])
    return Made({"noisiest_keys": rows[list(COLUMNS)].reset_index(drop=True)})


def noisiest_keys(runs: DataFrame, *, exact: bool, keys: int = NOISY) -> DataFrame:
    """Return the keys whose messages ran longest in total.

    Returns:
        channel, key, messages, share (of the channel's messages), run_total_s, run_share (of the
        channel's run time), wait_p99_s_of_others (of the channel's other keys), failures (attempts
        that failed).
    """
    ran = F.coalesce(F.sum("run_s"), F.lit(0.0))
    most = (
        runs.where(F.col("key") != "")
        .groupBy("channel", "key")
        .agg(
            F.count("*").alias("messages"),
            ran.alias("run_total_s"),
            F.sum("failed").alias("failures"),
        )
        .orderBy(F.desc("run_total_s"), "channel", "key")
        .limit(keys)
    )
    noisy = F.broadcast(most.withColumnRenamed("key", "noisy"))
    others = F.when(F.col("key") != F.col("noisy"), F.col("wait_s"))
    names = ("channel", "noisy", "messages", "run_total_s", "failures")
    beside = (
        runs.select("channel", "key", "wait_s", "run_s")
        .join(noisy, "channel")
        .groupBy(*names)
        .agg(
            F.count("*").alias("all"),
            ran.alias("all_s"),
            values_of(others, exact=exact).alias("others"),
        )
        .withColumn("share", F.col("messages") / F.col("all"))
        .withColumn("run_share", F.try_divide("run_total_s", "all_s"))
        .withColumnRenamed("noisy", "key")
        .drop("all", "all_s")
    )
    return spread(beside, {"others": {"wait_p99_s_of_others": 0.99}})
