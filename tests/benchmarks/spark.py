"""The data pipeline: one warm session of Spark on two threads, over a history that workers made.

A whole round warms the session, since Java compiles much in it. Its figures are a remark.

of_jdbc            wall time in which Spark's own JDBC source reads eight columns of history, in two
                   partitions, ÷ the time in which ours does
reader_per_s       rows of history a second, of these columns, on one connection into Arrow, without
                   Spark
export_per_s       messages a second to Parquet, all their columns
compact_per_s      messages a second, as an export makes few files of a day that is over
enqueue_per_s      messages a second from a DataFrame, with all that the job takes
events_per_s       events a second, all their columns, as Spark reads a million of them in two
                   partitions
stream_p50_s       from the end of a message to its row in Parquet, where a few end at a time
report_s           the report about all of it, with its page
simulation_error   how far the report's simulation with today's workers is from today's p99 of waits
driver_gb          the most memory that a driver has, its Java and its Python, that reads and
                   aggregates ten times as many rows, in a session of its own
cluster_of_processes  see `cluster`, which is measured by itself

Reads are of the history that `make history` makes; it is made before the first round if it is not
there. Events are published and given their positions before the first round, in the database of the
benchmarks. JDBC needs Debian's libpostgresql-jdbc-java; and as Java knows no sockets of Unix, both
read through socat where the server listens on one.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import cache, reduce
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgqueue.engine import log, sequence
from tests.benchmarks.harness.history import ensure
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import settle_down

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIZES = (1_000_000,)
COLUMNS = "id, channel, key, task, outcome, attempt, created_at, finished_at"
DRIVER = Path("/usr/share/java/postgresql.jar")
STREAMED = 300
"""Messages whose way into Parquet is timed."""


def measure(*, messages: int, rounds: int) -> Report:
    """Measure each part of the pipeline in turn."""
    url = ensure(messages)
    socat = shutil.which("socat") if DRIVER.exists() else None
    remarks = {} if socat else {"of_jdbc": f"There is no {DRIVER}, or no socat."}
    with _by_tcp(url, socat) if socat else nullcontext(None) as by_tcp:
        first = _round(url, by_tcp, messages).figures
        remarks["first"] = (
            f"In the round before, which warmed the session, the export wrote "
            f"{first['export_per_s']:,.0f} messages a second, and the report took "
            f"{first['report_s']:.1f} s."
        )
        return repeat(
            "spark",
            lambda count: _round(url, by_tcp, count),
            messages=messages,
            rounds=rounds,
            remarks=remarks,
        )


@contextmanager
def _by_tcp(url: str, socat: str) -> Iterator[str]:
    """Yield how to connect by TCP."""
    given = conninfo_to_dict(url)
    if not str(given.get("host", "")).startswith("/"):
        yield url
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    forwarding = subprocess.Popen(
        [
            socat,
            f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork",
            f"UNIX-CONNECT:{given['host']}/.s.PGSQL.{given.get('port', 5432)}",
        ],
        start_new_session=True,
    )
    try:
        time.sleep(0.5)
        yield make_conninfo(url, host="127.0.0.1", port=port)
    finally:
        os.killpg(forwarding.pid, signal.SIGTERM)
        forwarding.wait(10)


def _round(url: str, by_tcp: str | None, count: int) -> Round:
    spark = _session()
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*), max(finished_at) FROM pgqueue_history"
        ).fetchone()
        rows, last = row or (0, None)
    _to_nowhere(_read(spark, url))  # warm
    ratios = {}
    figures = {"read_s": _seconds(lambda: _to_nowhere(_read(spark, by_tcp or url)))}
    if by_tcp:
        figures["jdbc_s"] = _seconds(lambda: _to_nowhere(_jdbc(spark, by_tcp)))
        ratios["of_jdbc"] = figures["jdbc_s"] / figures["read_s"]
    figures["reader_per_s"] = rows / _seconds(lambda: _read_alone(url))
    exported_s, compacted_s = _export(spark, url)
    figures["export_per_s"] = rows / exported_s
    figures["compact_per_s"] = rows / compacted_s
    began = time.perf_counter()
    simulation = _report(spark, url, last)
    figures["report_s"] = time.perf_counter() - began
    if simulation:
        figures["simulation_error"] = abs(simulation["error"])
    after = _publish(count)
    figures["events_per_s"] = count / _seconds(lambda: _to_nowhere(_events(spark, after)))
    figures["enqueue_per_s"] = count / _enqueue_s(spark, url, count)
    figures["stream_p50_s"] = _stream_p50_s(spark, url, min(STREAMED, count // 10))
    # In another process: Java keeps the heap that it needed for something else.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        times = max(1, 10 * count // rows)
        figures["driver_gb"] = apart.submit(_driver_gb, url, times).result()
    return Round(figures=figures, ratios=ratios)


@cache
def _session() -> SparkSession:
    import pgqueue.spark

    conf = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"}
    if DRIVER.exists():
        conf["spark.jars"] = str(DRIVER)
    return pgqueue.spark.session(**conf)


def _seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _read(spark: SparkSession, url: str, **options: str) -> DataFrame:
    given = {"url": url, "table": "history", "columns": COLUMNS, "numPartitions": "2", **options}
    return spark.read.format("pgqueue").options(**given).load()


def _events(spark: SparkSession, after: int) -> DataFrame:
    given = {"table": "events", "after": str(after), "numPartitions": "2"}
    return spark.read.format("pgqueue").options(url=_own_url(), **given).load()


@cache
def _publish(count: int) -> int:
    """Publish so many events of 200 bytes; return the position before the first of them."""
    with psycopg.connect(_own_url(), autocommit=True) as connection:
        after = log.bounds(connection).head
        connection.execute(
            "INSERT INTO pgqueue_event_inbox (topic, key, payload) "
            "SELECT 'order.paid', 'customer-' || n %% 1000, "
            "jsonb_build_object('order', n, 'total', n %% 997, 'note', repeat('x', 140)) "
            "FROM generate_series(1, %s) AS n",
            [count],
        )
        while sequence.sequence(connection):
            pass
        connection.execute("VACUUM ANALYZE pgqueue_event")
    return after


def _own_url() -> str:
    from pgqueue.database.connections import conninfo

    return conninfo("default")


def _jdbc(spark: SparkSession, url: str) -> DataFrame:
    given = conninfo_to_dict(url)
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT min(id), max(id) FROM pgqueue_history").fetchone()
        low, high = row or (0, 0)
    options = {
        "url": f"jdbc:postgresql://{given['host']}:{given.get('port', 5432)}/{given['dbname']}",
        "user": str(given.get("user", "")),
        "password": str(given.get("password", "")),
        "driver": "org.postgresql.Driver",
        "dbtable": f"(SELECT {COLUMNS} FROM pgqueue_history) h",  # noqa: S608
        "partitionColumn": "id",
        "lowerBound": str(low),
        "upperBound": str(high),
        "numPartitions": "2",
        "fetchsize": "10000",
    }
    return spark.read.format("jdbc").options(**options).load()


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _read_alone(url: str) -> int:
    from pgqueue.arrow.options import read_options
    from pgqueue.arrow.planning import plan
    from pgqueue.arrow.reading import batches

    given = {"url": url, "table": "history", "columns": COLUMNS, "numPartitions": "1"}
    options = read_options(given)
    return sum(each.num_rows for part in plan(options) for each in batches(options, part))


def _export(spark: SparkSession, url: str) -> tuple[float, float]:
    """Export all; return the seconds until history was written, and those of all that follows.

    The history is of days before today, or its export compacts nothing.
    """
    from pgqueue.arrow.targets import forget
    from pgqueue.spark.export import export

    began = written = time.perf_counter()

    def note(progress: object) -> None:
        nonlocal written
        written = time.perf_counter()

    with TemporaryDirectory() as folder:
        export(spark, url=url, to=folder, progress=note)
        ended = time.perf_counter()
        forget(url=url, to=folder)
    return written - began, ended - written


def _report(spark: SparkSession, url: str, until: datetime) -> Any:
    """Make a report and its page; return what it says of its simulation.

    Until the workers that made the history ended: since then the queue has stood still.
    """
    from pgqueue.spark.page import render
    from pgqueue.spark.pipeline.sources import Live
    from pgqueue.spark.report import build

    report = build(spark, Live(url), until=until)
    render(report)
    return report.facts.get("simulation")


def _enqueue_s(spark: SparkSession, url: str, count: int) -> float:
    """Store messages from a DataFrame; return the seconds that it took. Delete the messages."""
    from pyspark.sql import functions as F

    frame = spark.range(0, count, 1, 2).select(
        F.concat(F.lit('{"order": '), F.col("id"), F.lit("}")).alias("kwargs"),
        F.concat(F.lit("customer-"), F.col("id") % 1000).alias("key"),
    )
    options = {"url": url, "task": "tests.benchmarks.nothing", "channel": "spark"}
    writer = frame.write.format("pgqueue").mode("append").options(**options)
    try:
        return _seconds(writer.save)
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DELETE FROM pgqueue_message WHERE channel = 'spark'")
            settle_down(connection)


def _stream_p50_s(spark: SparkSession, url: str, count: int) -> float:
    """Let messages end one after the other; return the median of their ways."""
    written: dict[int, float] = {}
    with TemporaryDirectory() as into:

        def write(frame: DataFrame, batch: int) -> None:
            part = f"{into}/rows/batch={batch}"
            frame.select("id", "finished_at").write.parquet(part)
            now = time.time()
            for row in spark.read.parquet(part).selectExpr("id").collect():
                written[row.id] = now

        query = (
            spark.readStream.format("pgqueue")
            .options(url=url, table="history", columns="id, finished_at", startingOffsets="latest")
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", f"{into}/checkpoint")
            .start()
        )
        try:
            time.sleep(8)  # the first batches take longer
            ends = _end_some(url, count)
            until = time.monotonic() + 60
            while ends.keys() - written.keys() and time.monotonic() < until:
                time.sleep(0.05)
        finally:
            query.stop()
    taken = sorted(written[each] - at for each, at in ends.items())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM pgqueue_history WHERE channel = 'streamed'")
    return taken[len(taken) // 2]


def _end_some(url: str, count: int) -> dict[int, float]:
    """Write rows of history, a few at a time; return when each was committed."""
    from tests.factories import ended

    ends: dict[int, float] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(count // 5):
            ended(connection, 5, channel="streamed")
            now = time.time()
            rows = connection.execute(
                "SELECT id FROM pgqueue_history WHERE channel = 'streamed' ORDER BY id DESC LIMIT 5"
            ).fetchall()
            ends.update({pk: now for (pk,) in rows})
            time.sleep(0.3)
    return ends


def _driver_gb(url: str, times: int) -> float:
    """Return the most memory that this process and its Java have while they read."""
    spark = _session()
    java: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    processes = (os.getpid(), java.pid)
    frames = [_read(spark, url) for _ in range(times)]
    whole = reduce(lambda one, other: one.union(other), frames)
    whole.groupBy("task", "outcome").agg({"finished_at": "max", "id": "count"}).collect()
    peak = sum(_peak_kb(pid) for pid in processes) * 1024 / 1e9
    spark.stop()
    return peak


def _peak_kb(pid: int) -> int:
    lines = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(lines["VmHWM"].split()[0])
