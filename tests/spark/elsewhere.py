"""Do all that the data source can do, in a session that needs a process of its own.

Run as `python -m tests.spark.elsewhere KIND FOLDER`, with DATABASE_URL; it prints what it saw as
JSON. It imports neither Django nor the tests' settings, as a script for spark-submit doesn't.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pgqueue.spark
from pgqueue.spark.export import export
from pgqueue.spark.pipeline.rates import rates, rolled_up
from pgqueue.spark.pipeline.runs import runs
from pgqueue.spark.pipeline.sources import Live
from pgqueue.spark.sessions import DEFAULTS

URL = {"url": "env:DATABASE_URL"}
SMALL = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}


def local() -> SparkSession:
    """Return the session that `pgqueue.spark.session()` gives."""
    return pgqueue.spark.session(**SMALL)


def cluster() -> SparkSession:
    """Return a session of two executors, in JVMs of their own."""
    return pgqueue.spark.session(
        **SMALL,
        **{
            "spark.master": "local-cluster[2,1,1024]",
            "spark.executorEnv.DATABASE_URL": os.environ["DATABASE_URL"],
        },
    )


def connect() -> SparkSession:
    """Return a client of Spark Connect, with a server on this machine."""
    pgqueue.spark.ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # The server takes any port that is free.
    os.environ["SPARK_TESTING"] = "1"
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {**DEFAULTS, **SMALL}.items():
        if name != "spark.master":
            builder = builder.config(name, value)
    return builder.getOrCreate()


KINDS: Mapping[str, Callable[[], SparkSession]] = {
    "local": local,
    "cluster": cluster,
    "connect": connect,
}


def load(spark: SparkSession, table: str, **options: str) -> DataFrame:
    """Read a table."""
    return spark.read.format("pgqueue").options(**URL, table=table, **options).load()


def follow(spark: SparkSession, folder: Path) -> DataFrame:
    """Stream history to Parquet, and read that."""
    (
        spark.readStream.format("pgqueue")
        .options(**URL, table="history", columns="id, outcome")
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=20, minPartitions=2)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "history"))
        .awaitTermination()
    )
    return spark.read.parquet(str(folder / "history"))


def enqueue(spark: SparkSession, count: int) -> None:
    """Enqueue as many messages, twice: the second time changes nothing."""
    number = F.col("id").alias("number")
    calls = spark.range(0, count, 1, 2).select(F.struct(number).alias("kwargs"))
    for _ in range(2):
        (
            calls.write.format("pgqueue")
            .mode("append")
            .options(**URL, task="tests.task", txnAppId="elsewhere", txnVersion=1)
            .save()
        )


def replay(spark: SparkSession) -> None:
    """Replay the dead letters of one channel."""
    letters = load(spark, "deadletters").where("channel = 'mail'").select("id")
    letters.write.format("pgqueue").mode("append").options(**URL, operation="replay").save()


def exported(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Export twice; return how many were new, and which ids are in the files."""
    to = str(folder / "lake")
    counts = [export(spark, url=URL["url"], to=to, batch=20)._asdict() for _ in range(2)]
    rows = spark.read.parquet(f"{to}/history").select("id").collect()
    return {"counts": counts, "ids": sorted(row.id for row in rows)}


def by_channel(spark: SparkSession) -> dict[str, int]:
    """Return how many messages of each channel a metric of the pipeline counts."""
    tables = Live(URL["url"]).read(spark, None, None)
    parts = rates(runs(tables.history, tables.deadletters), exact=True)
    return {row.channel: int(row.messages) for row in rolled_up(parts, "channel").itertuples()}


def executors(spark: SparkSession) -> int:
    """Return how many processes ran the tasks of a job."""
    numbers = spark.range(0, 8, 1, 8).mapInArrow(_parents, "pid long")
    return numbers.distinct().count()


def _parents(batches: Any) -> Any:
    import pyarrow

    for _ in batches:
        # The daemon that forked this worker: each executor has one.
        yield pyarrow.record_batch({"pid": [os.getppid()]})


def main(kind: str, folder: Path) -> None:
    """Do it all, and print the results as JSON; a local session only reads, and streams."""
    spark = pgqueue.spark.register(KINDS[kind]())
    history = load(spark, "history", numPartitions="2")
    row = history.agg(F.count("*"), F.sum("attempt"), F.countDistinct("id")).first()
    seen = {
        "session": type(spark).__module__,
        "java": os.environ["JAVA_HOME"],
        "executors": executors(spark),
        "read": list(row or ()),
        "streamed": sorted(row.id for row in follow(spark, folder).select("id").collect()),
    }
    if kind != "local":
        seen["exported"] = exported(spark, folder)
        seen["channels"] = by_channel(spark)
        enqueue(spark, 50)
        replay(spark)
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
