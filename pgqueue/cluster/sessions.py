"""The Spark session for the workers."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pgqueue.arrow.errors import InvalidOption
from pgqueue.cluster.host import SETTINGS
from pgqueue.spark.java import ensure_java

CONNECT = "sc://"
UNDER_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"
STOPS_WITHIN = 3.0
"""Seconds. Executors that are left end after the driver."""
DEFAULTS: Mapping[str, str] = {
    "spark.app.name": "pgqueue workers",
    "spark.ui.showConsoleProgress": "false",
    # The supervisor, and not Spark, replaces a dead worker: it knows the worker's leases.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.locality.wait": "0",
    # A new worker gets a new process, which imports the current code.
    "spark.python.worker.reuse": "false",
}


def start_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start a session on a cluster, or connect to one.

    Args:
        master: the master URL of Spark; `sc://…`: a server of Spark Connect; None: the master of
            spark-submit.
        conf: options of Spark, which override pgqueue's.

    Raises:
        InvalidOption: no master is given.
        NoJava: there is no Java that Spark can use.
        pyspark.errors.PySparkException: the cluster is unreachable.
    """
    if master and master.startswith(CONNECT):
        builder = SparkSession.builder.remote(master)
        for name, value in conf.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    if not master and UNDER_SPARK_SUBMIT not in os.environ:
        raise InvalidOption("--executor spark needs --master, unless spark-submit names it.")
    options = {**DEFAULTS, **conf}
    if master:
        ensure_java()
        options["spark.master"] = master
        # By default, Spark would take the first python3 on each executor's PATH.
        python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        os.environ["PYSPARK_PYTHON"] = python or sys.executable
    if settings := os.environ.get(SETTINGS):
        options.setdefault(f"spark.executorEnv.{SETTINGS}", settings)
    settled = SparkConf()
    for name, value in options.items():
        if name in conf or name == "spark.master" or not settled.contains(name):
            settled.set(name, value)
    # A signal to this process group must not end the JVM, and so the workers.
    gateway = launch_gateway(  # type: ignore[no-untyped-call]
        settled, popen_kwargs={"process_group": 0}
    )
    SparkContext(conf=settled, gateway=gateway)
    return SparkSession.builder.getOrCreate()


def cores(spark: SparkSession) -> int | None:
    """Return the number of tasks that the cluster runs at once; None: Spark Connect hides it."""
    try:
        return spark.sparkContext.defaultParallelism
    except Exception:
        return None


def shrinks(spark: SparkSession) -> bool:
    """Return whether Spark adds and removes executors with the load."""
    return spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true"


def stop_session(spark: SparkSession) -> None:
    """Stop the session, and wait shortly for its executors to end."""
    thread = threading.Thread(target=_stop, args=[spark], name="spark", daemon=True)
    thread.start()
    thread.join(STOPS_WITHIN)


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):  # the JVM is gone, or the network
        spark.stop()
