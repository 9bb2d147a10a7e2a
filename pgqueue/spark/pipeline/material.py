"""What metrics are made from, and what each of them makes."""

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
    """What a channel is to attain.

    Attributes:
        seconds: in which a message is to succeed, from when it was first due.
        target: the share of messages that do.
    """

    seconds: float
    target: float = 0.99


@dataclass(frozen=True, kw_only=True)
class Material:
    """What metrics are made from.

    Attributes:
        runs: what ended (see `runs.runs`); it is cached.
        attempts: of these, and of what is live (see `attempts.attempts`).
        exact: whether percentiles are.
        has_live: whether what has not ended is known, so that the backlog is; an export lacks it.
        since, until: what was stored before, or ended after, is not in `runs`; None: all is.
        objectives: by channel; "" is for all others.
        tables: what was made before, by name.
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
    """The tables of a metric by their names, and facts."""

    tables: Mapping[str, Pandas]
    facts: Mapping[str, object] = {}


def collected(frame: DataFrame) -> Pandas:
    """Return the rows of a small DataFrame."""
    return frame.toPandas()
