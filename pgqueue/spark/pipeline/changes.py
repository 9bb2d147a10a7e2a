"""Moments at which a task began to run longer or shorter.

The medians of a task's runs in each bucket of time are split where Pettitt's test finds a change.
Both sides are split again, until the test finds no change. The test looks only at ranks, so a few
slow runs are no change. Sources: A non-parametric approach to the change-point problem, Applied
Statistics 28, 1979; binary segmentation: Scott and Knott, Biometrics 30, 1974.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material
from pgqueue.spark.pipeline.percentiles import spread, with_values

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame

    from pgqueue.spark.pipeline.periods import Period
    from pgqueue.spark.pipeline.queueing import Floats

RATIO = 1.3
"""The least ratio of the medians of both sides."""
CHANCE = 0.001
"""The highest probability that a found change is random."""
SIDE = 4
"""The fewest buckets with runs on each side."""
COLUMNS = (
    *("task", "at", "before_p50_s", "after_p50_s", "ratio", "messages_before"),
    "messages_after",
)


def make_changes(given: Material) -> Made:
    """Make the tables change_points and task_durations."""
    found = spread(durations(given.runs, given), {"runs": {"p50_s": 0.5}})
    points, lasted = changes(found, given.period)
    return Made({"change_points": points, "task_durations": lasted})


def durations(runs: DataFrame, given: Material) -> Pandas:
    """Collect the runs of each task in each bucket: task, bucket, messages, runs, runs_count."""
    by = ("task", "bucket")
    bucket = given.period.bucket(F.col("ended_at"))
    rows = runs.where(F.col("run_s").isNotNull()).withColumn("bucket", bucket)
    groups = rows.groupBy(*by).agg(F.count("*").alias("messages"))
    return with_values(groups, rows, by, {"runs": "run_s"}, exact=given.exact)


def changes(found: Pandas, period: Period) -> tuple[Pandas, Pandas]:
    """Return the changes, and the durations of tasks with a change."""
    import pandas

    found = found.sort_values(["task", "bucket"])
    starts = pandas.to_datetime(period.since) + pandas.to_timedelta(
        found["bucket"] * period.width, unit="s"
    )
    found = found.assign(at=starts)
    rows: list[tuple[object, ...]] = []
    for task, buckets in found.groupby("task"):
        values = buckets["p50_s"].to_numpy(np.float64)
        counts = buckets["messages"].to_numpy(np.int64)
        edges = [0, *splits(values), len(values)]
        for first, middle, end in zip(edges, edges[1:], edges[2:], strict=False):
            before, after = np.median(values[first:middle]), np.median(values[middle:end])
            rows.append(
                (
                    *(task, buckets["at"].iloc[middle], before, after, after / before),
                    int(counts[first:middle].sum()),
                    int(counts[middle:end].sum()),
                )
            )
    points = pandas.DataFrame(rows, columns=list(COLUMNS))
    chosen = found[found["task"].isin(points["task"])]
    return points, chosen[["task", "at", "p50_s"]].reset_index(drop=True)


def splits(values: Floats) -> list[int]:
    """Return the indexes at which values change, in order; each begins a new level."""
    count = len(values)
    if count < 2 * SIDE:
        return []
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable") + 1
    ends = np.arange(1, count)
    statistic = np.abs(2 * np.cumsum(order)[:-1] - ends * (count + 1))
    statistic[: SIDE - 1] = statistic[count - SIDE :] = 0
    split = int(np.argmax(statistic)) + 1
    chance = 2 * np.exp(-6.0 * float(statistic[split - 1]) ** 2 / (count**3 + count**2))
    before, after = np.median(values[:split]), np.median(values[split:])
    ratio = max(before, after) / max(min(before, after), 1e-9)
    if chance > CHANCE or ratio < RATIO:
        return []
    after_it = [split + each for each in splits(values[split:])]
    return [*splits(values[:split]), split, *after_it]
