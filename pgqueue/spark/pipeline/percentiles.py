"""Percentiles: exact where there is room for all values, else approximate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import Column

    from pgqueue.spark.pipeline.queueing import Floats

EXACT_BELOW = 10_000_000
"""Messages from which percentiles are approximate."""
ACCURACY = 10_000
"""Of approximate percentiles: their rank is wrong by 1/10 000 of the values, at most."""


def values_of(column: Column, *, exact: bool) -> Column:
    """Return an aggregate of the values from which `percentile` takes percentiles.

    It is a list of all values where they are to be exact (Spark's own percentile() counts each
    value in a map, and takes three times as long), else of 1 001 of them, of equal distance.
    """
    if exact:
        return F.collect_list(column)
    return F.percentile_approx(column, [share / 1000 for share in range(1001)], ACCURACY)


class Part(NamedTuple):
    """Some of the values of a group.

    Attributes:
        values: what `values_of` made of them.
        number: how many they stand for.
    """

    values: Floats
    number: int


def percentiles(parts: Iterable[Part], shares: Sequence[float]) -> list[float]:
    """Return percentiles of a group, between two values by linear interpolation.

    They are exact where the values of each part are all there are.

    Returns:
        For each share from 0 to 1 a value; NaN where there is none.
    """
    filled = [part for part in parts if part.number]
    if not filled:
        return [float("nan")] * len(shares)
    values = np.concatenate([part.values for part in filled])
    if len(values) == sum(part.number for part in filled):
        return [float(each) for each in np.quantile(values, shares)]
    weights = np.concatenate(
        [np.full(len(part.values), part.number / len(part.values)) for part in filled]
    )
    order = np.argsort(values, kind="stable")
    # The place of each value among those that all of them stand for.
    places = np.cumsum(weights[order]) - weights[order]
    return [float(np.interp(share * places[-1], places, values[order])) for share in shares]


def spread(rows: Pandas, wanted: Mapping[str, Mapping[str, float]]) -> Pandas:
    """Replace the values of each row by their percentiles.

    Args:
        wanted: for each column of `values_of`, shares by the names of their new columns. The
            column `{name}_count` says how many values there were.
    """
    rows = rows.copy()
    for name, shares in wanted.items():
        found = [
            percentiles([Part(np.asarray(values, float), count)], list(shares.values()))
            for values, count in zip(rows.pop(name), rows.pop(f"{name}_count"), strict=True)
        ]
        for index, new in enumerate(shares):
            rows[new] = [each[index] for each in found]
    return rows


def counted_values(columns: Mapping[str, Column], *, exact: bool) -> list[Column]:
    """Return aggregates: of each column its values, and how many there are as `{name}_count`."""
    return [
        aggregate
        for name, column in columns.items()
        for aggregate in (
            values_of(column, exact=exact).alias(name),
            F.count(column).alias(f"{name}_count"),
        )
    ]
