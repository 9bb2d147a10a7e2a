"""Percentiles: exact if memory has room for all values, else approximate."""

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
"""The number of messages from which on percentiles are approximate."""
ACCURACY = 10_000
"""The accuracy of approximate percentiles: the rank errs by at most 1/10 000 of the values."""


def values_of(column: Column, *, exact: bool) -> Column:
    """Return an aggregate of the values from which `percentile` takes percentiles.

    For exact percentiles it is a list of all values: Spark's own percentile() counts each value in
    a map, and takes three times as long. Otherwise it is a list of 1 001 values of equal distance.
    """
    if exact:
        return F.collect_list(column)
    return F.percentile_approx(column, [share / 1000 for share in range(1001)], ACCURACY)


class Part(NamedTuple):
    """A part of the values of a group.

    Attributes:
        values: the result of `values_of`.
        number: the number of values that the result stands for.
    """

    values: Floats
    number: int


def percentiles(parts: Iterable[Part], shares: Sequence[float]) -> list[float]:
    """Return percentiles of a group, between two values by linear interpolation.

    They are exact if every part has all of its values.

    Returns:
        A value for each share from 0 to 1; NaN: the group is empty.
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
    # The rank of each value among all values of the group.
    places = np.cumsum(weights[order]) - weights[order]
    return [float(np.interp(share * places[-1], places, values[order])) for share in shares]


def spread(rows: Pandas, wanted: Mapping[str, Mapping[str, float]]) -> Pandas:
    """Replace the values of each row by their percentiles.

    Args:
        wanted: For each column of `values_of`, shares by the names of their new columns. The
            column `{name}_count` has the number of values.
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
    """Return aggregates: the values of each column, and their number as `{name}_count`."""
    return [
        aggregate
        for name, column in columns.items()
        for aggregate in (
            values_of(column, exact=exact).alias(name),
            F.count(column).alias(f"{name}_count"),
        )
    ]
