"""The supervisor's view of a worker on a cluster: a Spark job with one task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from signal import SIGKILL
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pgqueue import signals
from pgqueue.claiming.registration import WorkerIds
from pgqueue.cluster.host import SCHEMA, WorkerOrder, host
from pgqueue.spark.errors import reason
from pgqueue.threads.wakeup import Wakeup
from pgqueue.worker.report import Reports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED = 1


class Job:
    """A Spark job that lasts as long as its worker.

    Args:
        name: its tag in the session.
        ids: the ids of the worker.
        ask: called with the number of requests, to ask all workers of this driver to stop.
    """

    retires = False

    def __init__(
        self,
        spark: SparkSession,
        order: WorkerOrder,
        name: str,
        ids: WorkerIds,
        *,
        ask: Callable[[int], None],
    ) -> None:
        self.name = name
        self.ids = ids
        self.started_at = monotonic()
        self.has_stopped = False
        self.reports = Reports()
        self.error: BaseException | None = None
        self._spark = spark
        self._order = order
        self._ask = ask
        self._status: int | None = None
        self._wakeup = Wakeup()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def heard_at(self) -> float | None:
        """Always the present: Spark knows better where to start the worker again."""
        return monotonic()

    @property
    def is_well(self) -> bool:
        """Always True: a job that waits for an executor is no reason to restart the driver."""
        return True

    @property
    def status(self) -> int | None:
        """The worker's exit status; None: the worker lives, or has not begun."""
        return self._status

    @property
    def has_ended_well(self) -> bool:
        """Whether the worker ended with status 0 after giving up all leases."""
        return self._status == 0 and self.has_stopped

    @property
    def leaves_something(self) -> bool:
        """Always False: the driver does not know the rows. The worker's log names them."""
        return False

    @property
    def signs(self) -> Sequence[Any]:
        """The objects that become readable at the end of the job."""
        return [self._wakeup]

    def listen(self) -> None:
        """Do nothing: the job reports only its end."""

    def ask_to_stop(self, times: int) -> None:
        """Pass a request to stop on to the workers by the driver's row."""
        if times:
            self._ask(times)

    def give_up(self, begun: Collection[UUID]) -> None:
        """Cancel the job if its worker has not begun: it waits for an executor, or starts."""
        if self._status is None and not any(self.ids.first < id <= self.ids.last for id in begun):
            self.has_stopped = True
            self.kill()

    def ask_for_stacks(self) -> None:
        """Do nothing: the worker runs on another machine."""

    def kill(self) -> None:
        """Cancel the job: Spark kills the worker's process."""
        if self._status is None:
            self._status = -SIGKILL
            self._wakeup.set()
            threading.Thread(target=self._cancel, name=f"kill {self.name}", daemon=True).start()

    def leave(self) -> None:
        """Leave the job alone. Without the driver's row the worker stops by itself."""
        self._wakeup.close()

    def announce(self) -> None:
        """Announce the death of the worker, unless it had not begun."""
        if self.has_stopped:
            return
        said = reason(self.error) if self.error else f"it ended with status {self._status}"
        signals.send(signals.job_failed, type(self), job=self.name, reason=said)

    def _cancel(self) -> None:
        self._spark.interruptTag(self.name)

    def _run(self) -> None:
        try:
            # A tag belongs to the thread, in Spark Connect as well.
            self._spark.addTag(self.name)
            frame = self._spark.range(1, numPartitions=1)
            [row] = frame.mapInArrow(partial(host, self._order), SCHEMA).collect()
            self.has_stopped = row.has_stopped
            status = int(row.status)
        except BaseException as error:
            self.error = error
            status = FAILED
        if self._status is None:
            self._status = status
        self._wakeup.set()
