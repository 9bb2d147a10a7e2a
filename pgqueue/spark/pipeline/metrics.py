"""The list of metrics: the name of each, what it says, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pgqueue.spark.pipeline import objectives, over_time, rates
from pgqueue.spark.pipeline.objectives import Objective
from pgqueue.spark.pipeline.over_time import Period

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Material:
    """What metrics are made from.

    Attributes:
        runs: what ended (see `runs.runs`); it is cached.
        attempts: of these, and of what is live (see `attempts.attempts`).
        exact: whether percentiles are.
        objectives: by channel; "" is for all others.
    """

    runs: DataFrame
    attempts: DataFrame
    period: Period
    exact: bool
    objectives: Mapping[str, Objective]


class Made(NamedTuple):
    """The tables of a metric by their names, and facts."""

    tables: Mapping[str, Pandas]
    facts: Mapping[str, object] = {}


@dataclass(frozen=True)
class Metric:
    """One or more tables that are made together.

    Attributes:
        title: in a few words.
        says: in one sentence.
        tables: the names of its tables.
    """

    title: str
    says: str
    tables: tuple[str, ...]
    make: Callable[[Material], Made] = field(repr=False)


def collected(frame: DataFrame) -> Pandas:
    """Return the rows of a small DataFrame."""
    return frame.toPandas()


def _rates(given: Material) -> Made:
    found = collected(rates.rates(given.runs, exact=given.exact))
    summary = found[found["by"] == "all"].reset_index(drop=True)
    summary["per_s"] = summary["messages"] / max(given.period.seconds, 1)
    tables = {"summary": summary[list(rates.SUMMARY)]}
    for by in ("channel", "task", "hour"):
        rows = found[found["by"] == by]
        order = ["hour"] if by == "hour" else ["messages", by]
        rows = rows.sort_values(order, ascending=[True] if by == "hour" else [False, True])
        rows = rows[[by, *rates.GROUPED]].reset_index(drop=True)
        tables[f"by_{by}"] = rows.astype({"hour": "int64"}) if by == "hour" else rows
    return Made(tables)


def _by_key(given: Material) -> Made:
    rows = collected(rates.by_key(given.runs, exact=given.exact))
    rows = rows.sort_values(["messages", "key"], ascending=[False, True])
    return Made({"by_key": rows[["key", *rates.GROUPED]].reset_index(drop=True)})


def _over_time(given: Material) -> Made:
    found = over_time.over_time(given.attempts, given.period, exact=given.exact)
    return Made({"over_time": over_time.table(collected(found), given.period)})


def _objectives(given: Material) -> Made:
    hours = collected(objectives.by_hour(given.runs, given.objectives))
    slo, burn = objectives.tables(hours, given.objectives)
    return Made({"slo": slo, "slo_burn": burn})


METRICS: Mapping[str, Metric] = {
    "rates": Metric(
        "Rates and percentiles",
        "How messages ended, and how long they waited and ran: all, by channel, task and hour.",
        ("summary", "by_channel", "by_task", "by_hour"),
        _rates,
    ),
    "keys": Metric("Keys", "The same of the keys with most messages.", ("by_key",), _by_key),
    "over_time": Metric(
        "Over time",
        "Arrivals, ends, failed attempts, backlog, concurrency and waits over time.",
        ("over_time",),
        _over_time,
    ),
    "objectives": Metric(
        "Objectives",
        "Which share of messages succeeded in time, and how fast error budgets burned.",
        ("slo", "slo_burn"),
        _objectives,
    ),
}
"""By name, in the order in which they are made."""
