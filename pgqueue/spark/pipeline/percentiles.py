"""Percentiles: exact if memory has room for all values, else approximate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import collected

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame

    from pgqueue.spark.pipeline.queueing import Floats

EXACT_BELOW = 10_000_000
"""The number of messages from which on percentiles are approximate."""
ACCURACY = 10_000
"""The accuracy of approximate percentiles: the rank errs by at most 1/10 000 of the values."""


_GROUP = "_group"
"""The column with the hash of a group."""


class Part(NamedTuple):
    """A part of the values of a group.

    Attributes:
        values: all values; or values of equal distance (see `with_values`).
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
        wanted: For each column of values (see `with_values`), shares by the names of their new
            columns. The column `{name}_count` has the number of values.
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


def with_values(
    groups: DataFrame,
    rows: DataFrame,
    by: Sequence[str],
    columns: Mapping[str, str],
    *,
    exact: bool,
) -> Pandas:
    """Collect groups of rows, each with the values from which `percentiles` takes percentiles.

    For exact percentiles the values of all rows are collected, and put together here. Spark's
    collect_list() and percentile() keep each value as an object, which takes longer.

    Args:
        groups: the aggregated groups, without values.
        rows: the rows of the groups.
        by: the columns that make a group. Both DataFrames have them.
        columns: the columns of `rows` with the values. The keys are the names of the new columns.
        exact: Whether all values are collected. Otherwise 1 001 values of equal distance are.

    Returns:
        The groups, with an array `{name}` and the number of values, `{name}_count`, for each name.
    """
    hashed = F.xxhash64(*by)
    found = collected(groups.withColumn(_GROUP, hashed))
    parts = (_all_values if exact else _some_values)(rows.withColumn(_GROUP, hashed), columns)
    nothing = Part(np.empty(0), 0)
    for name in columns:
        of_groups = [parts[name].get(each, nothing) for each in found[_GROUP].tolist()]
        found[name] = [part.values for part in of_groups]
        found[f"{name}_count"] = [part.number for part in of_groups]
    return found.drop(columns=_GROUP)


Parts = Mapping[str, Mapping[int, Part]]
"""The values of groups, by the name of the values and by the hash of the group."""


def _all_values(rows: DataFrame, columns: Mapping[str, str]) -> Parts:
    is_wanted = reduce(or_, [F.col(column).isNotNull() for column in columns.values()])
    table = rows.where(is_wanted).select(_GROUP, *columns.values()).toArrow()
    groups = table[_GROUP].to_numpy()
    order = np.argsort(groups, kind="stable")
    names, starts = np.unique(groups[order], return_index=True)
    found = {}
    for name, column in columns.items():
        # NULL becomes NaN.
        each = np.split(table[column].to_numpy()[order], starts[1:])
        values = [part[~np.isnan(part)] for part in each]
        # Without rows, numpy still returns one part.
        pairs = zip(names.tolist(), values, strict=False)
        found[name] = {group: Part(part, len(part)) for group, part in pairs}
    return found


def _some_values(rows: DataFrame, columns: Mapping[str, str]) -> Parts:
    shares = [share / 1000 for share in range(1001)]
    aggregates = [
        aggregate
        for name, column in columns.items()
        for aggregate in (
            F.percentile_approx(column, shares, ACCURACY).alias(name),
            F.count(column).alias(f"{name}_count"),
        )
    ]
    found = collected(rows.groupBy(_GROUP).agg(*aggregates))
    return {
        name: {
            group: Part(values if number else np.empty(0), number)
            for group, values, number in zip(
                found[_GROUP], found[name], found[f"{name}_count"], strict=True
            )
        }
        for name in columns
    }
