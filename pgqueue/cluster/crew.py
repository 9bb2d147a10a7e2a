"""Workers on a cluster, in place of processes here; and what the driver does for them."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import pgqueue
from pgqueue.claiming.registration import WorkerIds
from pgqueue.cluster.backlog import Backlog
from pgqueue.cluster.host import SETTINGS, Order
from pgqueue.cluster.jobs import Job
from pgqueue.cluster.presence import Presence
from pgqueue.conf import settings
from pgqueue.connections import Session
from pgqueue.duties.all import all_duties
from pgqueue.duties.service import Duties
from pgqueue.engine.workers import WorkerInfo
from pgqueue.service import Service
from pgqueue.spark.errors import ClusterLost, reason
from pgqueue.tasks import scheduling
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.supervisor import KILL_AFTER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOLD_WITHIN = timedelta(seconds=2)
"""In this time a request to stop reaches a worker by the database, or its end the driver."""


class Cluster:
    """A supervisor's workers, each in a job of a session of Spark.

    Their duties are done here: so they are done where no worker is left, and each worker has one
    connection less.

    Args:
        config: of the workers; `processes` is how many there are, at most.
        master: where they run, for others to know.
        level: the log level, if the project configures none.
    """

    kill_after = KILL_AFTER + TOLD_WITHIN

    def __init__(
        self, spark: SparkSession, config: WorkerConfig, *, master: str, level: int | None
    ) -> None:
        self._spark = spark
        self._level = level
        self._numbers = count(1)
        self._last: Job | None = None
        self._id = WorkerIds().next()
        options = settings()
        info = WorkerInfo(
            host=platform.node(),
            pid=os.getpid(),
            started_at=datetime.now(UTC),
            channels=[],
            excluded=[],
            info={
                "master": master,
                "workers": config.processes,
                "duties": config.duties,
                "version": pgqueue.__version__,
            },
        )
        self._presence = Presence(config.database, self._id, info, every=options.heartbeat)
        self._backlog = (
            Backlog(config, self._id, most=config.processes) if config.max_idle else None
        )
        duties = (
            Duties(
                Session(config.database, name="duties"),
                all_duties(database=config.database, scheduling=scheduling),
                lease=options.lease,
                on_done=lambda: None,
            )
            if config.duties
            else None
        )
        self.services: Sequence[Service] = [
            each for each in (self._presence, self._backlog, duties) if each
        ]

    def start(self, config: WorkerConfig) -> Job:
        """Start a worker.

        Raises:
            ClusterLost: Spark's session is gone, so that no further job can be started.
        """
        self._check()
        ids = WorkerIds()
        order = Order(
            config=replace(config, processes=1, duties=False),
            driver=self._id,
            first=ids.first,
            settings=os.environ.get(SETTINGS),
            level=self._level,
        )
        name = f"pgqueue-{self._id}-{next(self._numbers)}"
        self._last = Job(self._spark, order, name, ids, ask=self._presence.ask_to_stop)
        return self._last

    def wanted(self, *, filled: int, empty: int) -> int:
        """Return how many workers are to be started, beside those that there are."""
        return self._backlog.wanted(filled=filled, empty=empty) if self._backlog else empty

    def _check(self) -> None:
        """Raise the error after which no job of this session can be started."""
        from py4j.protocol import Py4JNetworkError

        error = self._last.error if self._last else None
        if isinstance(error, (Py4JNetworkError, ConnectionError)):
            raise ClusterLost(f"Spark's session is gone: {reason(error)}. Start the driver again.")
