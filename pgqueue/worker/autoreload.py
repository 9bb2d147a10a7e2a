"""Detect changes of code, as Django's development server does."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from django.utils.autoreload import StatReloader

from pgqueue.threads.service import Service
from pgqueue.worker.stopping import StopRequests

EVERY = timedelta(seconds=1)
FOREVER = timedelta(days=1)


class Autoreload(Service):
    """Checks the files of all imported modules.

    Args:
        requests: gets one request to stop, when a file has changed or is new.
        since: the start of the process, by the system's clock: older versions were imported.
    """

    def __init__(self, requests: StopRequests, *, since: float) -> None:
        super().__init__()
        self._requests = requests
        self._since = since
        self._reloader = StatReloader()
        self._seen: dict[Path, float] = {}

    def tick(self) -> timedelta:
        """Check once. Report a change only once: a second request to stop ends the grace period."""
        has_changed = False
        for path, changed_at in self._reloader.snapshot_files():
            has_changed |= self._has_changed(path, changed_at)
            self._seen[path] = changed_at
        if has_changed:
            self._requests.add()
        return FOREVER if has_changed else EVERY

    def _has_changed(self, path: Path, changed_at: float) -> bool:
        if path in self._seen:
            return changed_at > self._since and changed_at != self._seen[path]
        # A module was imported since the last check. The version of the file that was read is
        # unknown. A time in the future, by another machine's clock, proves nothing, and would
        # restart each new process.
        return self._since < changed_at <= time.time()
