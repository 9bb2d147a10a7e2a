"""Two workers on a Spark cluster, and two processes: CPU-bound tasks of 50 ms.

Both are warm: their workers serve, and each has run tasks, before the messages are there. The
clock is the database's, from the first claim to the last end.
"""

from __future__ import annotations

from pgqueue.database.sql_files import load
from tests.benchmarks.harness import messages, worker
from tests.benchmarks.harness.database import ROOT
from tests.benchmarks.harness.report import Round
from tests.benchmarks.harness.session import ask
from tests.benchmarks.harness.tasks import toil

SQL = load(__name__)
WORKERS = 2
WARM_UP = 20
"""Messages."""
PATIENCE = 300.0
"""Seconds, for executors to start."""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ON_A_CLUSTER = (
    *("--executor", "spark", "--master", "local-cluster[2,1,1024]", "--workers", str(WORKERS)),
    *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
    *("--conf", f"spark.executorEnv.PYTHONPATH={ROOT}"),
    *("--conf", f"spark.driver.extraJavaOptions={QUICK}"),
    *("--conf", f"spark.executor.extraJavaOptions={QUICK}"),
)
IN_PROCESSES = ("--processes", str(WORKERS))


def cluster_of_processes(count: int) -> Round:
    """Run `count` messages by each.

    Returns:
        The figures `cluster_per_s` and `processes_per_s`, and the first by the second as the
        ratio `cluster_of_processes`.
    """
    processes = _per_s(count, *IN_PROCESSES)
    cluster = _per_s(count, *ON_A_CLUSTER)
    return Round(
        figures={"cluster_per_s": cluster, "processes_per_s": processes},
        ratios={"cluster_of_processes": cluster / processes},
    )


def _per_s(count: int, *options: str) -> float:
    messages.store(0)
    with worker.running("runworker", *options, "--threads", "1") as running:
        running.wait_until(_all_idle, patience=PATIENCE)
        for each in (WARM_UP, count):
            messages.store(each, task=toil.name)
            running.wait_until(
                lambda each=each: ask(SQL["span"])[0] == each, every=0.1, patience=PATIENCE + each
            )
            running.wait_until(_all_idle)
        seconds: float = ask(SQL["span"])[1]
    return count / seconds


def _all_idle() -> bool:
    return bool(ask(SQL["serving"])[0] == WORKERS)
