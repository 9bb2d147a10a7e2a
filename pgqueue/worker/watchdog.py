"""Free what is stuck; and if that doesn't help, end the process, so that another is started."""

from __future__ import annotations

import faulthandler
import os
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from pgqueue import signals
from pgqueue.service import Service

EVERY = timedelta(seconds=1)
CUT_AFTER = 10
"""Looks in a row that find it stuck. After a stop of the whole process, which nobody in it
notices, everything looks so at first."""
END_AFTER = 40
STATUS = 70
"""The exit status: EX_SOFTWARE."""


class Watchdog(Service):
    """Looks after all others once a second.

    Args:
        liveness_file: is touched while none is stuck.
    """

    def __init__(self, services: Iterable[Service], *, liveness_file: Path | None = None) -> None:
        super().__init__()
        self._services = list(services)
        self._liveness_file = liveness_file
        self._found: Counter[str] = Counter()

    def tick(self) -> timedelta:
        """Look once."""
        stuck = [each for each in self._services if each.is_stuck]
        self._found = Counter({each.name: self._found[each.name] + 1 for each in stuck})
        for each in stuck:
            if self._found[each.name] == CUT_AFTER:
                signals.service_stuck.send_robust(type(self), service=each.name)
                each.cut()
        if max(self._found.values(), default=0) >= END_AFTER:
            signals.worker_stuck.send_robust(type(self), services=list(self._found))
            faulthandler.dump_traceback()
            os._exit(STATUS)
        if not stuck and self._liveness_file:
            self._liveness_file.touch()
        return EVERY
