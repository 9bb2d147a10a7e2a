"""The options of `runworker` for a Spark cluster, and the workers there."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from pgqueue.management import arguments
from pgqueue.management.spark import add_conf, errors_in_one_line
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.supervisor import Supervisor

MOST_WORKERS = 1_000
MAX_AGE = timedelta(hours=1)
MAX_IDLE = timedelta(minutes=1)
OURS = ("master", "workers", "conf", "max_idle")
"""The options that apply only to workers on a cluster."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--executor",
        choices=["spark"],
        help="run workers on the executors of a Spark cluster; this process supervises them.",
    )
    parser.add_argument(
        "--master",
        type=arguments.name,
        metavar="URL",
        help="the cluster, as Spark names it: spark://…, k8s://…, yarn, sc://… (Spark Connect); "
        "not needed under spark-submit.",
    )
    parser.add_argument(
        "--workers",
        type=arguments.whole(least=1, most=MOST_WORKERS),
        metavar="N",
        help="the most workers on the cluster: each takes one of its cores. Default: the number of "
        "its cores at the start.",
    )
    add_conf(parser)
    parser.add_argument(
        "--max-idle",
        type=arguments.lasting,
        metavar="S",
        help="end a worker that has been idle for this number of seconds, and start it again "
        "when messages wait (60 if the cluster allocates executors dynamically).",
    )


def check_cluster_options(options: dict[str, Any], threads: int) -> None:
    """Check that the options fit together.

    Raises:
        CommandError: an option contradicts another one.
    """
    if not options["executor"]:
        for name in OURS:
            if options[name]:
                raise CommandError(f"--{name.replace('_', '-')} needs --executor spark.")
        return
    if options["reload"] or options["processes"] > 1:
        raise CommandError("--executor spark excludes --processes and --reload.")
    if not threads:
        raise CommandError("--executor spark needs --threads, 1 or more.")


def run(config: WorkerConfig, options: dict[str, Any], *, level: int) -> bool:
    """Run workers on a cluster until they are stopped, or have drained the queue.

    Returns:
        Whether all workers stopped by themselves, or had no leases.

    Raises:
        CommandError: Spark is missing, does not start, or has failed.
    """
    with errors_in_one_line():
        from pgqueue.cluster import sessions
        from pgqueue.cluster.pool import Cluster

        spark = sessions.start_session(options["master"], dict(options["conf"]))
        workers = options["workers"] or sessions.cores(spark)
        if not workers:
            raise CommandError("Spark Connect does not report its number of cores: give --workers.")
        max_idle = config.max_idle or (MAX_IDLE if sessions.shrinks(spark) else None)
        config = replace(config, processes=workers, max_idle=None if config.drain else max_idle)
        pool = Cluster(spark, config, master=options["master"] or "spark-submit", level=level)
        try:
            pool.open()
            return Supervisor(config, level=level, pool=pool).run()
        finally:
            pool.close()
            sessions.stop_session(spark)
