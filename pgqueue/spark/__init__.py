"""The data pipeline: PySpark over everything that ran.

    import pgqueue.spark

    spark = pgqueue.spark.session()
    history = spark.read.format("pgqueue").option("table", "history").load()

It imports no Django, so that Spark's executors load it: they need this package, not the project.
"""

try:
    import pyarrow
    import pyspark
except ImportError as error:
    raise ImportError("pgqueue.spark needs PySpark: pip install 'pgqueue[spark]'.") from error

from pgqueue.arrow.errors import (
    DataLoss,
    ExportConflict,
    InvalidOption,
    OtherCluster,
    SnapshotGone,
    TableChanged,
    UnknownTarget,
)
from pgqueue.arrow.errors import PipelineError as SparkError
from pgqueue.spark.errors import (
    ClusterLost,
    CompactionFailed,
    InvalidColumn,
    InvalidRow,
    InvalidSource,
    NoExport,
    NoJava,
)
from pgqueue.spark.java import ensure_java
from pgqueue.spark.querymetrics import QueryMetrics
from pgqueue.spark.sessions import register, session

del pyarrow, pyspark

__all__ = [
    "ClusterLost",
    "CompactionFailed",
    "DataLoss",
    "ExportConflict",
    "InvalidColumn",
    "InvalidOption",
    "InvalidRow",
    "InvalidSource",
    "NoExport",
    "NoJava",
    "OtherCluster",
    "QueryMetrics",
    "SnapshotGone",
    "SparkError",
    "TableChanged",
    "UnknownTarget",
    "ensure_java",
    "register",
    "session",
]
