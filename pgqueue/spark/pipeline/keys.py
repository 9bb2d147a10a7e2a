"""The keys that take most of a channel's time, and the waits of its other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected
from pgqueue.spark.pipeline.percentiles import Part, percentiles, with_values

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame

NOISY = 10
"""The most keys in the table."""
COLUMNS = (
    *("channel", "key", "messages", "share", "run_total_s", "run_share"),
    *("wait_p99_s_of_others", "failures"),
)
REST = -1
"""The number that stands for all other keys of a channel."""


def make_keys(given: Material) -> Made:
    """Make the table noisiest_keys."""
    noisy = collected(noisiest_keys(given.runs))
    return Made({"noisiest_keys": table(noisy, beside(given.runs, noisy, given.exact))})


def noisiest_keys(runs: DataFrame, *, keys: int = NOISY) -> DataFrame:
    """Return the keys whose messages ran longest in total: channel, key, run_total_s, in order."""
    return (
        runs.where(F.col("key") != "")
        .groupBy("channel", "key")
        .agg(F.coalesce(F.sum("run_s"), F.lit(0.0)).alias("run_total_s"))
        .orderBy(F.desc("run_total_s"), "channel", "key")
        .limit(keys)
    )


def beside(runs: DataFrame, noisy: Pandas, exact: bool) -> Pandas:
    """Aggregate the channels of noisy keys: each noisy key separately, all others together.

    Args:
        noisy: the result of `noisiest_keys`.

    Returns:
        channel, number (of the key in `noisy`, or REST), messages, failures (attempts that failed),
        ran_s, waits and waits_count (see `percentiles.with_values`).
    """
    number = F.lit(REST)
    for index, row in enumerate(noisy.itertuples()):
        is_it = (F.col("channel") == row.channel) & (F.col("key") == row.key)
        number = F.when(is_it, index).otherwise(number)
    channels = noisy["channel"].unique().tolist()
    by = ("channel", "number")
    rows = runs.where(F.col("channel").isin(channels)).withColumn("number", number)
    groups = rows.groupBy(*by).agg(
        F.count("*").alias("messages"),
        F.sum("failed").alias("failures"),
        F.coalesce(F.sum("run_s"), F.lit(0.0)).alias("ran_s"),
    )
    return with_values(groups, rows, by, {"waits": "wait_s"}, exact=exact)


def table(noisy: Pandas, parts: Pandas) -> Pandas:
    """Return the noisy keys with the figures of their channels.

    Returns:
        channel, key, messages, share (of the channel's messages), run_total_s, run_share (of the
        channel's run time), wait_p99_s_of_others (of the channel's other keys), failures.
    """
    import pandas

    rows = []
    for index, key in enumerate(noisy.itertuples()):
        channel = parts[parts["channel"] == key.channel]
        own = channel[channel["number"] == index].iloc[0]
        others = channel[channel["number"] != index]
        ran_s = channel["ran_s"].sum()
        rows.append(
            (
                *(key.channel, key.key, int(own["messages"])),
                own["messages"] / channel["messages"].sum(),
                own["ran_s"],
                own["ran_s"] / ran_s if ran_s else float("nan"),
                *percentiles(map(Part, others["waits"], others["waits_count"]), [0.99]),
                int(own["failures"]),
            )
        )
    return pandas.DataFrame(rows, columns=list(COLUMNS))
