"""Spark imports each installed module named `pyspark_…`, and registers its DefaultSource."""

from pgqueue.spark.source import PgQueueDataSource as DefaultSource

__all__ = ["DefaultSource"]
