"""The input and the output of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame

    from pgqueue.spark.pipeline.periods import Period


class Objective(NamedTuple):
    """The objective of a channel.

    Attributes:
        seconds: the time in which a message should succeed after it was first due.
        target: the share of messages that should succeed in this time.
    """

    seconds: float
    target: float = 0.99


@dataclass(frozen=True, kw_only=True)
class Material:
    """The input of metrics.

    Attributes:
        runs: The ended messages (see `runs.runs`), cached.
        attempts: The attempts of ended and live messages (see `attempts.attempts`).
        exact: Whether percentiles are exact.
        has_live: Whether live messages, and so the backlog, are known. An export lacks them, and
            so does the past of a queue.
        since, until: The period of the messages in `runs`; None: no bound.
        objectives: The objective of each channel; "" is for all other channels.
        tables: The tables that earlier metrics made, by name.
    """

    runs: DataFrame
    attempts: DataFrame
    period: Period
    exact: bool
    objectives: Mapping[str, Objective]
    has_live: bool = True
    since: datetime | None = None
    until: datetime | None = None
    tables: dict[str, Pandas] = field(default_factory=dict)


class Made(NamedTuple):
    """The output of a metric: tables by their names, and facts."""

    tables: Mapping[str, Pandas]
    facts: Mapping[str, object] = {}


def collected(frame: DataFrame) -> Pandas:
    """Return the rows of a small DataFrame. Times are in UTC, in any time zone of the session."""
    # toPandas() takes the session's time zone away. It also warns of pandas 3.
    rows: Pandas = frame.toArrow().to_pandas()
    return rows
