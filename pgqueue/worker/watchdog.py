"""Free stuck services; if that does not help, end the process, so that another is started."""

from __future__ import annotations

import faulthandler
import os
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from pgqueue import signals
from pgqueue.threads.service import Service
from pgqueue.worker.deadline import exit_soon

EVERY = timedelta(seconds=1)
CUT_AFTER = 10
"""Looks in a row that find a service stuck. After a SIGSTOP of the process, which no thread
notices, all services look stuck at first."""
END_AFTER = 40
STATUS = 70
"""The exit status: EX_SOFTWARE."""


def touch(liveness_file: Path, *, sender: type) -> None:
    """Touch the liveness file; send a signal if that fails."""
    try:
        liveness_file.touch()
    except OSError as error:
        signals.send(signals.service_failed, sender, service="liveness file", error=error)


class Watched(Protocol):
    """A service, or a group of threads that should live as long as the process."""

    @property
    def name(self) -> str:
        """Its name, in the log."""

    @property
    def is_stuck(self) -> bool:
        """Whether it has died, or makes no progress."""

    def cut(self) -> None:
        """Cut the connection that it waits on, if there is one."""


class SaysWell(Protocol):
    """The object that tells others that this process is well."""

    def say_well(self) -> None:
        """Tell it now."""


class Watchdog(Service):
    """Checks all watched services once a second.

    Args:
        wellness: tells that this process is well, while no service is stuck.
    """

    def __init__(
        self, watched: Iterable[Watched] = (), *, wellness: SaysWell | None = None
    ) -> None:
        super().__init__()
        self._watched = list(watched)
        self._wellness = wellness
        self._found: Counter[str] = Counter()

    def watch(self, *watched: Watched) -> None:
        """Check these services, too. Call it before the start."""
        self._watched += watched

    @property
    def stuck(self) -> list[str]:
        """The names of the services that it has cut, since they were stuck for too long."""
        return [name for name, times in self._found.items() if times >= CUT_AFTER]

    def tick(self) -> timedelta:
        """Look once."""
        stuck = [each for each in self._watched if each.is_stuck]
        self._found = Counter({each.name: self._found[each.name] + 1 for each in stuck})
        for each in stuck:
            if self._found[each.name] == CUT_AFTER:
                signals.send(signals.service_stuck, type(self), service=each.name)
                each.cut()
        if max(self._found.values(), default=0) >= END_AFTER:
            exit_soon(STATUS)
            signals.send(signals.worker_stuck, type(self), services=list(self._found))
            faulthandler.dump_traceback()
            os._exit(STATUS)
        if not stuck and self._wellness:
            self._wellness.say_well()
        return EVERY
