"""Workers on a cluster in the place of local processes, and the driver's services for them."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

from pgqueue.claiming.registration import WorkerIds
from pgqueue.cluster.backlog import Backlog
from pgqueue.cluster.host import SETTINGS, WorkerOrder
from pgqueue.cluster.jobs import Job
from pgqueue.cluster.presence import Presence
from pgqueue.conf import settings
from pgqueue.database.connections import Session, connect
from pgqueue.database.transactions import is_pooled
from pgqueue.duties.all import all_duties
from pgqueue.duties.service import Duties
from pgqueue.engine import notifications
from pgqueue.engine.workers import WorkerInfo, versions
from pgqueue.events import subscribing
from pgqueue.spark.errors import ClusterLost, reason
from pgqueue.tasks import scheduling
from pgqueue.threads.listener import Topic, TopicListener, subscribe
from pgqueue.threads.service import Service
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.supervisor import KILL_AFTER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOLD_WITHIN = timedelta(seconds=2)
"""The longest time for a request to stop to reach a worker, or for its end to reach the driver."""


class Cluster:
    """The workers of a supervisor, each in a job of a Spark session.

    The driver does the duties, so they are done even if no worker is left, and each worker has one
    connection less.

    Args:
        config: the options of the workers; `processes` is their maximum.
        master: the address of the cluster, for the driver's row.
        level: the log level, if the project configures none.
    """

    kill_after = KILL_AFTER + TOLD_WITHIN

    def __init__(
        self, spark: SparkSession, config: WorkerConfig, *, master: str, level: int | None
    ) -> None:
        self._spark = spark
        self._level = level
        self._numbers = count(1)
        self._jobs: list[Job] = []
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
                **versions(),
            },
        )
        self._presence = Presence(
            config.database, self._id, info, every=options.heartbeat, on_told=self._give_up
        )
        self._backlog = (
            Backlog(config, self._id, most=config.processes) if config.max_idle else None
        )
        self._config = config
        self._duties = (
            Duties(
                Session(config.database, name="duties"),
                all_duties(
                    database=config.database, scheduling=scheduling, subscribing=subscribing
                ),
                lease=options.lease,
                on_done=lambda: None,
            )
            if config.duties
            else None
        )
        self.services: Sequence[Service] = [
            each for each in (self._presence, self._backlog, self._duties) if each
        ]
        self._subscription = TopicListener(topic=Topic(notifications.NEW), heard=self._hear)

    def open(self) -> None:
        """Listen for messages that are due before the next look of the duties."""
        if not self._duties or self._config.poll_only:
            return
        with closing(connect(self._config.database, name="driver")) as connection:
            is_heard = not is_pooled(connection)
        if is_heard:
            subscribe(self._config.database, self._subscription)

    def close(self) -> None:
        """Stop listening."""
        self._subscription.close()

    def start(self, config: WorkerConfig) -> Job:
        """Start a worker.

        Raises:
            ClusterLost: Spark's session is gone, so no job can be started.
        """
        self._check()
        self._jobs = [each for each in self._jobs if each.status is None]
        ids = WorkerIds()
        order = WorkerOrder(
            config=replace(config, processes=1, duties=False),
            driver=self._id,
            first=ids.first,
            settings=os.environ.get(SETTINGS),
            level=self._level,
        )
        name = f"pgqueue-{self._id}-{next(self._numbers)}"
        job = Job(self._spark, order, name, ids, ask=self._presence.ask_to_stop)
        self._jobs.append(job)
        return job

    def wanted(self, *, filled: int, empty: int) -> int:
        """Return the number of workers to start, in addition to the existing ones."""
        return self._backlog.wanted(filled=filled, empty=empty) if self._backlog else empty

    def _hear(self, notification: str | None) -> None:
        if self._duties and notification in (notifications.DUE_EARLIER, None):
            self._duties.look_early()

    def _give_up(self, begun: Collection[UUID]) -> None:
        """Cancel the jobs that have not begun, so a stopping driver need not wait for executors."""
        for each in list(self._jobs):
            each.give_up(begun)

    def _check(self) -> None:
        """Raise ClusterLost if a job has lost the connection to the Spark session."""
        from py4j.protocol import Py4JNetworkError

        for each in self._jobs:
            if isinstance(each.error, (Py4JNetworkError, ConnectionError)):
                said = reason(each.error)
                raise ClusterLost(f"Spark's session is gone: {said}. Start the driver again.")
