"""Metrics from the history of a queue: functions of DataFrames, one metric each.

They use only the DataFrame API, so that they also run over Spark Connect.
"""

from pgqueue.spark.pipeline.metrics import METRICS

__all__ = ["METRICS"]
