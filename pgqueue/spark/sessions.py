"""A Spark session on this machine, and the data source in any session."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pgqueue.arrow.errors import InvalidOption
from pgqueue.spark.java import ensure_java
from pgqueue.spark.source import PgQueueDataSource

DEFAULTS: Mapping[str, str] = {
    "spark.app.name": "pgqueue",
    "spark.master": "local[2]",
    # The days of history are in UTC, too.
    "spark.sql.session.timeZone": "UTC",
    # Other machines must not reach Spark's ports.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # For one machine: a shuffle into Spark's 200 partitions takes longer than most of its queries.
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "1g",
    # A report has some 180 generated classes. Spark keeps 100 by default, so the next report would
    # generate and compile them again: *measured*, 22 s in place of 17.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # With two cores, collecting garbage in parallel does not pay.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}


def session(**conf: object) -> SparkSession:
    """Return a Spark session on this machine that knows the data source.

    A new session has two threads and 1 GiB of memory unless `conf` sets other values. If there is
    a session, or spark-submit has started this program, theirs hold: only `conf` is set, as far as
    Spark can change an option later.

    Args:
        conf: Spark's options by their own names, for example
            `session(**{"spark.master": "local[4]", "spark.driver.memory": "2g"})`.

    Raises:
        InvalidOption: a name does not begin with "spark.".
        NoJava: this machine has no Java that Spark can use.
    """
    for name in conf:
        if not name.startswith("spark."):
            raise InvalidOption(f"Spark has no option {name!r}: their names begin with 'spark.'.")
    ensure_java()
    # Spark would take the first python3 on the PATH, which may lack the installed packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in {**({} if _is_configured() else DEFAULTS), **conf}.items():
        builder = builder.config(name, str(value))
    return register(builder.getOrCreate())


def _is_configured() -> bool:
    """Return whether somebody else has set the options of this process's session."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # as spark-submit sets it
        return True
    return SparkSession.getActiveSession() is not None or bool(SparkContext._active_spark_context)


def register(spark: SparkSession) -> SparkSession:
    """Register the format "pgqueue" in a session, and return the session.

    Spark finds the format of an installed package by itself, but not if it came by `--py-files`.
    """
    spark.dataSource.register(PgQueueDataSource)
    return spark
