"""Notice that code has changed, as Django's development server does."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from django.utils.autoreload import StatReloader

from pgqueue.service import Service

EVERY = timedelta(seconds=1)
FOREVER = timedelta(days=1)


class Reloading(Service):
    """Looks at the files of all modules that were imported.

    Args:
        on_change: called once, when one has changed, or came to be.
        since: when the process began, by the system's clock: what was saved before was read.
    """

    def __init__(self, on_change: Callable[[], None], *, since: float) -> None:
        super().__init__()
        self._on_change = on_change
        self._since = since
        self._reloader = StatReloader()
        self._seen: dict[Path, float] = {}

    def tick(self) -> timedelta:
        """Look once; say once that something has changed: a second request would end the grace."""
        has_changed = False
        for path, changed_at in self._reloader.snapshot_files():
            has_changed |= self._has_changed(path, changed_at)
            self._seen[path] = changed_at
        if has_changed:
            self._on_change()
        return FOREVER if has_changed else EVERY

    def _has_changed(self, path: Path, changed_at: float) -> bool:
        if path in self._seen:
            return changed_at > self._since and changed_at != self._seen[path]
        # Of a module that was imported since the last look nobody knows which text was read. A
        # time to come, by the clock of another machine, tells nothing, and would in each process.
        return self._since < changed_at <= time.time()
