"""The state of a worker's process, as its parent, its liveness file and its scrapers see it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic

from pgqueue import signals
from pgqueue.claiming.run_counts import Tally
from pgqueue.engine.run_statistics import Pair
from pgqueue.threads.service import Service
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.heartbeat import Heartbeat
from pgqueue.worker.parent import REPORT, RUNS, WELL, Superior
from pgqueue.worker.pipeline import Pipeline
from pgqueue.worker.report import ProcessReport
from pgqueue.worker.watchdog import Watchdog, touch

EVERY = timedelta(seconds=1)


class Wellness:
    """Tells the parent, and the liveness file, that this process is well.

    Args:
        parent: the process or driver that started this worker, if it is one of several.
        pipeline: None: the process runs no tasks.
    """

    def __init__(
        self, config: WorkerConfig, parent: Superior | None, pipeline: Pipeline | None
    ) -> None:
        self._config = config
        self._parent = parent
        self._pipeline = pipeline
        self._was_too_busy = False

    @property
    def is_too_busy(self) -> bool:
        """Whether no thread has been free for longer than the worker's limit."""
        most = self._config.max_busy
        return most is not None and self._busy_for() > most.total_seconds()

    def say_well(self) -> None:
        """Tell that no service is stuck, unless no thread has been free for too long."""
        was_too_busy, self._was_too_busy = self._was_too_busy, self.is_too_busy
        if self._was_too_busy:
            if not was_too_busy:
                signals.send(signals.worker_occupied, type(self), seconds=self._busy_for())
            return
        if self._parent:
            self._parent.say(WELL)
        if self._config.liveness_file:
            touch(self._config.liveness_file, sender=type(self))

    def _busy_for(self) -> float:
        return self._pipeline.busy_for() if self._pipeline else 0.0


@dataclass(frozen=True)
class ProcessState:
    """The parts of a process that its report is about."""

    config: WorkerConfig
    pipeline: Pipeline | None
    wellness: Wellness
    heartbeat: Heartbeat
    watchdog: Watchdog

    def report(self) -> ProcessReport:
        """Return the state now. Any thread may call this."""
        report = ProcessReport(
            slots=self.config.slots,
            silence=self.heartbeat.silence,
            stuck=[self.watchdog.name] if self.watchdog.is_stuck else self.watchdog.stuck,
            at=monotonic(),
        )
        if not (pipeline := self.pipeline):
            return report
        return replace(
            report,
            running=pipeline.running,
            busy_for=pipeline.busy_for(),
            is_too_busy=self.wellness.is_too_busy,
            buffered=pipeline.buffered,
            unsettled=pipeline.settler.unsettled,
            claims=pipeline.fetcher.claims,
            claimed=pipeline.fetcher.claimed,
            leases_lost=pipeline.settler.leases_lost,
        )


class Reporter(Service):
    """Sends the parent a report, and the changed counts, once a second.

    Args:
        tally: the counts of all runs so far.
    """

    def __init__(self, parent: Superior, state: ProcessState, tally: Tally) -> None:
        super().__init__()
        self._parent = parent
        self._state = state
        self._tally = tally
        self._told: dict[Pair, int] = {}

    def tick(self) -> timedelta:
        """Report once. Counts that the pipe has no room for are sent the next time."""
        told = self._state.report().__dict__ | {"at": 0}
        self._parent.say(REPORT + json.dumps(told).encode())
        for each in self._tally.totals():
            pair = each.channel, each.task
            total = each.total + each.released
            if self._told.get(pair) == total:
                continue
            if not self._parent.say(RUNS + json.dumps(each).encode()):
                break
            self._told[pair] = total
        return EVERY

    def finish(self) -> None:
        """Report the last counts."""
        self.tick()
