"""What the history of a queue says: functions of DataFrames, one metric each.

They use the DataFrame API alone, so that they run over Spark Connect, too.
"""

from pgqueue.spark.pipeline.metrics import METRICS

__all__ = ["METRICS"]
