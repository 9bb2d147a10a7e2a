"""Service objectives: the share of messages that succeed in time, and the burn rates."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, Objective, collected

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame

COLUMNS = (
    *("channel", "objective_s", "target", "messages", "within", "attained", "budget_left"),
    "worst_burn",
)
BURN = ("channel", "at", "burn")
HOUR = 3_600


DEFAULT: Mapping[str, Objective] = MappingProxyType({"": Objective(60.0)})
"""The objective of each channel; "" is for all other channels."""


def make_objectives(given: Material) -> Made:
    """Make the tables slo and slo_burn."""
    hours = collected(by_hour(given.runs, given.objectives))
    slo, burn = tables(hours, given.objectives)
    return Made({"slo": slo, "slo_burn": burn})


def by_hour(runs: DataFrame, objectives: Mapping[str, Objective]) -> DataFrame:
    """Count for each channel and hour the ended messages, and the ones that succeeded in time.

    Cancelled and discarded messages are left out.

    Returns:
        channel, hour (since 1970), messages, within.
    """
    seconds = F.lit(objectives[""].seconds) if "" in objectives else F.lit(None)
    for channel, objective in objectives.items():
        if channel:
            seconds = F.when(F.col("channel") == channel, objective.seconds).otherwise(seconds)
    is_within = (F.col("outcome") == "succeeded") & (F.col("total_s") <= seconds)
    hour = F.floor(F.unix_micros("ended_at") / (HOUR * 1_000_000))
    return (
        runs.where(F.col("outcome").isin("succeeded", "dead", "expired") & seconds.isNotNull())
        .groupBy("channel", hour.alias("hour"))
        .agg(F.count("*").alias("messages"), F.count(F.when(is_within, 1)).alias("within"))
    )


def tables(hours: Pandas, objectives: Mapping[str, Objective]) -> tuple[Pandas, Pandas]:
    """Turn the result of `by_hour` into the tables slo and slo_burn.

    The error budget is the share of messages that may miss the objective. A burn rate of 1 uses up
    exactly this budget (Google's Site Reliability Workbook, chapter 5).
    """
    import pandas

    rows, burns = [], []
    for channel, group in hours.sort_values("hour").groupby("channel", sort=True):
        objective = objectives.get(str(channel)) or objectives[""]
        budget = 1 - objective.target
        burn = _burn(group["messages"], group["within"], budget)
        at = pandas.to_datetime(group["hour"] * HOUR, unit="s", utc=True)
        burns.append(pandas.DataFrame({"channel": channel, "at": at, "burn": burn}))
        messages, within = int(group["messages"].sum()), int(group["within"].sum())
        rows.append(
            (
                channel,
                objective.seconds,
                objective.target,
                messages,
                within,
                within / messages,
                1 - (1 - within / messages) / budget if budget > 0 else float("nan"),
                burn.max(),
            )
        )
    burned = pandas.concat(burns, ignore_index=True) if burns else pandas.DataFrame(columns=BURN)
    return pandas.DataFrame(rows, columns=list(COLUMNS)), burned


def _burn(messages: Pandas, within: Pandas, budget: float) -> Pandas:
    missed = 1 - within / messages
    return missed / budget if budget > 0 else missed * float("nan")
