"""Run a worker inside a Spark task, in the main thread of its Python process.

This module imports no models, since the process has not set up Django yet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext

from pgqueue.worker.config import WorkerConfig

SETTINGS = "DJANGO_SETTINGS_MODULE"
EXECUTOR = "SPARK_EXECUTOR_ID"
SCHEMA = "status int, has_stopped boolean"
IDS_OF_AN_ATTEMPT = 1 << 16
"""The number of ids for each attempt of a task: a repeated task needs other ids."""


@dataclass(frozen=True, kw_only=True)
class WorkerOrder:
    """The configuration of a worker on an executor.

    Args:
        driver: the id of the driver's row, which has the request to stop.
        first: the first of the worker's ids.
        settings: the settings module, if the executor's environment names none.
        level: the log level, if the project configures none.
    """

    config: WorkerConfig
    driver: UUID
    first: UUID
    settings: str | None
    level: int | None


class WorkerExit(NamedTuple):
    """The end of a worker: its exit status, and whether it has given up all leases."""

    status: int
    has_stopped: bool


def host(order: WorkerOrder, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a worker, as a function for `mapInArrow`; yield a batch with its end."""
    for _ in batches:
        pass
    ended = _run(order)
    yield pa.RecordBatch.from_arrays(
        [pa.array([ended.status], pa.int32()), pa.array([ended.has_stopped], pa.bool_())],
        names=["status", "has_stopped"],
    )


def _run(order: WorkerOrder) -> WorkerExit:
    began_at = time.time()
    if order.settings:
        os.environ.setdefault(SETTINGS, order.settings)
    import django

    django.setup()

    import psycopg
    from django.db import connections

    from pgqueue import signals
    from pgqueue.claiming.registration import WorkerIds
    from pgqueue.cluster.driver import Driver
    from pgqueue.conf import settings
    from pgqueue.worker.deadline import STATUS
    from pgqueue.worker.process import configure_logging
    from pgqueue.worker.worker import Worker

    configure_logging(order.level)
    driver = Driver(order.config.database, order.driver, lease=settings().lease)
    attempt = _attempt()
    try:
        worker = Worker(
            order.config,
            parent=driver,
            services=[driver],
            ids=WorkerIds(UUID(int=order.first.int + attempt * IDS_OF_AN_ATTEMPT)),
            began_at=began_at,
            told={"driver": str(order.driver), "executor": executor()},
        )
    except psycopg.OperationalError as error:
        signals.send(signals.service_failed, None, service="worker", error=error)
        driver.close()
        return WorkerExit(STATUS, has_stopped=True)
    try:
        worker.run()
    finally:
        driver.close()
        connections.close_all()
    return WorkerExit(STATUS if worker.holds_something else 0, not worker.holds_something)


def _attempt() -> int:
    context = TaskContext.get()
    return context.attemptNumber() if context else 0


def executor() -> str:
    """Return the executor's id in Spark's pages; "" if it is unknown."""
    if known := os.environ.get(EXECUTOR):
        return known
    # The parent of this process is Spark's daemon, and the daemon's parent is the executor.
    try:
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        parent = stat.rpartition(")")[2].split()[1]
        words = Path(f"/proc/{parent}/cmdline").read_text().split("\0")
    except (OSError, IndexError):
        return ""
    return words[words.index("--executor-id") + 1] if "--executor-id" in words[:-1] else ""
