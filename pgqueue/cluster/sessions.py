"""The session of Spark in which workers run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pgqueue.cluster.host import SETTINGS
from pgqueue.spark.errors import InvalidOption
from pgqueue.spark.java import ensure_java

CONNECT = "sc://"
UNDER_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"
STOPS_WITHIN = 3.0
"""Seconds. Executors that are left end when the driver has."""
DEFAULTS: Mapping[str, str] = {
    "spark.app.name": "pgqueue workers",
    "spark.ui.showConsoleProgress": "false",
    # A worker that died is the supervisor's to replace: it knows what was taken from it.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.locality.wait": "0",
    # A new worker has a new process, which imports what code there is then.
    "spark.python.worker.reuse": "false",
}


def start_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start a session on a cluster, or connect to one.

    Args:
        master: as Spark names it; `sc://…`: a server of Spark Connect; None: spark-submit's.
        conf: options of Spark, in place of ours.

    Raises:
        InvalidOption: there is no master.
        NoJava: there is no Java that Spark can use.
        pyspark.errors.PySparkException: the cluster can't be reached.
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
        # Spark would take the first python3 on each executor's PATH.
        python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        os.environ["PYSPARK_PYTHON"] = python or sys.executable
    if settings := os.environ.get(SETTINGS):
        options.setdefault(f"spark.executorEnv.{SETTINGS}", settings)
    settled = SparkConf()
    for name, value in options.items():
        if name in conf or name == "spark.master" or not settled.contains(name):
            settled.set(name, value)
    # A signal to the whole process group must not end the JVM, and the workers with it.
    gateway = launch_gateway(  # type: ignore[no-untyped-call]
        settled, popen_kwargs={"process_group": 0}
    )
    SparkContext(conf=settled, gateway=gateway)
    return SparkSession.builder.getOrCreate()


def cores(spark: SparkSession) -> int | None:
    """Return how many tasks the cluster runs at once now; None: Spark Connect doesn't tell."""
    try:
        return spark.sparkContext.defaultParallelism
    except Exception:
        return None


def shrinks(spark: SparkSession) -> bool:
    """Return whether executors come and go with the work there is."""
    return spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true"


def stop_session(spark: SparkSession) -> None:
    """Stop the session, and wait for its executors to go; for a moment only."""
    thread = threading.Thread(target=_stop, args=[spark], name="spark", daemon=True)
    thread.start()
    thread.join(STOPS_WITHIN)


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):  # the JVM is gone, or the network
        spark.stop()
