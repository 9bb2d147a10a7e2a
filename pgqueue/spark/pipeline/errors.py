"""Groups of equal errors: of one class and place, with equal messages except for values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLUSTERS = 100
"""The most groups of errors in the table: the groups with the most attempts."""
TASKS = 10
"""The most tasks named for an error."""


def make_errors(given: Material) -> Made:
    """Make the table errors."""
    return Made({"errors": collected(errors(given.runs))})


def errors(runs: DataFrame, *, clusters: int = CLUSTERS) -> DataFrame:
    """Count the attempts that failed by the error's class, its place and its pattern.

    Returns:
        error_class, place, pattern, attempts, messages, tasks, first_at, last_at, example: the
        message of the newest one.
    """
    each = runs.where(F.col("errors").isNotNull()).select(
        "id", "task", F.explode("errors").alias("error")
    )
    tasks = F.sort_array(F.collect_set("task"))
    return (
        each.select("id", "task", "error.*")
        .groupBy("error_class", "place", "pattern")
        .agg(
            F.count("*").alias("attempts"),
            F.count_distinct("id").alias("messages"),
            F.array_join(F.slice(tasks, 1, TASKS), ", ").alias("tasks"),
            F.min("at").alias("first_at"),
            F.max("at").alias("last_at"),
            F.max_by("message", "at").alias("example"),
        )
        .orderBy(F.desc("attempts"), "error_class", "place", "pattern")
        .limit(clusters)
    )
