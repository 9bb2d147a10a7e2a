"""A loop in a thread of its own: it ticks, naps as long as the tick returned, and can be woken."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections

from pgqueue import signals
from pgqueue.database import forking
from pgqueue.database.connections import Session
from pgqueue.database.django_connections import forget_queries
from pgqueue.database.migration_check import lack_of
from pgqueue.threads.wakeup import Nudge
from pgqueue.values.escaping import logger_of

NO_NAP = timedelta()
LONGEST_BACKOFF = timedelta(seconds=10)
LONGEST_STEP = 50.0
"""Seconds; longer than statement_timeout."""


LOOK_FOR_TABLES = timedelta(seconds=1)

logger = logger_of("pgqueue")

_lock = threading.Lock()
_waiting_for_tables: WeakKeyDictionary[Service, set[str]] = WeakKeyDictionary()
"""The services that wait, and which of their parts do."""


def backoff_after(failures: int, *, longest: timedelta) -> timedelta:
    """Return how long to wait after so many failures in a row: longer each time, and at random."""
    backoff = timedelta(seconds=0.1) * 2.0 ** min(failures, 10)
    return min(backoff, longest) * random.uniform(0.5, 1)  # noqa: S311


@contextmanager
def told(thread: str) -> Iterator[None]:
    """Log what ends a thread, if anything but its function's end does; Python hides SystemExit."""
    try:
        yield
    except BaseException:
        with suppress(BaseException):
            logger.critical("The thread %s has ended", thread, exc_info=True)


class Service(threading.Thread):
    """A loop that runs until it is stopped. Stopping it twice, or before its start, is fine."""

    longest_backoff = LONGEST_BACKOFF
    """The longest nap after failures."""
    longest_step = LONGEST_STEP
    """Seconds that one step of a tick may take."""
    starts_when_needed = False
    """Whether its first user starts it, and not the worker."""
    _session: Session
    """The database session that it waits on, if any."""

    def __init__(self) -> None:
        super().__init__(name=type(self).__name__.lower(), daemon=True)
        self._stopping = threading.Event()
        self._nudge = Nudge()
        self._again = threading.Event()
        self._failures = 0
        self._back_by = math.inf

    def tick(self) -> timedelta:
        """Do the work that is due; return how long to nap."""
        raise NotImplementedError

    def rest(self, nap: timedelta) -> None:
        """Nap until woken, and no longer than this; not after a failure. It must not raise."""
        self._nudge.wait(nap.total_seconds())

    def run(self) -> None:
        """Tick and nap until stopped. A thread that ends for another reason says so in the log."""
        with told(self.name):
            self._until_stopped()

    def _until_stopped(self) -> None:
        began = forking.generation
        while not self._stopping.is_set():
            self.note_progress()
            nap = self._try_tick()
            forking.leave_if_forked_since(began)
            if nap > NO_NAP:
                self._back_by = math.inf
                if self._failures:
                    self._back_off(nap)
                else:
                    self.rest(nap)
            self._nudge.clear()
        self._back_by = math.inf
        self.finish()
        connections.close_all()

    def _back_off(self, nap: timedelta) -> None:
        # wake() must not end this nap: it may be called many times a second while each tick fails.
        self._again.wait(nap.total_seconds())
        self._again.clear()

    def _try_tick(self) -> timedelta:
        try:
            try:
                nap = self.tick()
            finally:
                # Connections that receivers of signals opened: by CONN_MAX_AGE, and broken ones.
                forget_queries()
                close_old_connections()
        except BaseException as error:
            # Most likely the database went away. Try again, but neither in a hot loop nor at the
            # same moment as all other workers. Also after a SystemExit: code of the user's, such as
            # a function that makes a key, ends no thread.
            self._failures += 1
            if hasattr(self, "_session"):
                self._session.close_after(error)
            if self._report(self.name, error):
                return LOOK_FOR_TABLES
            return backoff_after(self._failures, longest=self.longest_backoff)
        self._failures = 0
        self._succeeded(self.name)
        return nap

    def _report(self, name: str, error: BaseException) -> bool:
        """Announce that a part of the worker failed; return whether tables are missing for it.

        That is announced once for all services: they wait for the same migrations.
        """
        lack = lack_of(error)
        if not lack:
            signals.send(signals.service_failed, type(self), service=name, error=error)
            return False
        with _lock:
            is_first = not _waiting_for_tables
            _waiting_for_tables.setdefault(self, set()).add(name)
        if is_first:
            database = self._session.alias if hasattr(self, "_session") else DEFAULT_DB_ALIAS
            signals.send(signals.tables_missing, type(self), database=database, missing=lack.found)
        return True

    def _succeeded(self, name: str) -> None:
        """Note that a part of the worker found its tables."""
        if not _waiting_for_tables:  # as nearly always
            return
        with _lock:
            parts = _waiting_for_tables.get(self, set())
            parts.discard(name)
            if not parts:
                _waiting_for_tables.pop(self, None)

    def note_progress(self, *, within: float | None = None) -> None:
        """Begin the next step of a long tick: a tick of several statements calls it between them.

        Args:
            within: the seconds that the step may take; None: `longest_step`.
        """
        self._back_by = time.monotonic() + (self.longest_step if within is None else within)

    @property
    def is_stuck(self) -> bool:
        """Whether its thread died, or its current step takes too long."""
        has_died = self.ident is not None and not self.is_alive() and not self._stopping.is_set()
        return has_died or time.monotonic() > self._back_by

    def cut(self) -> None:
        """End the connection that it waits on; it continues with a new one."""
        if hasattr(self, "_session"):
            self._session.cut()

    def wake(self) -> None:
        """End the nap, unless it is a nap after a failure. A task's thread may call this."""
        self._nudge.set()

    def try_again(self) -> None:
        """End the nap, even after a failure."""
        self._again.set()
        self.wake()

    def finish(self) -> None:
        """Clean up, in the service's own thread, after its last tick."""

    def stop(self) -> None:
        """Ask it to end after its current tick."""
        self._stopping.set()
        self.try_again()

    def stopped(self, timeout: timedelta) -> bool:
        """Wait until it has ended, for `timeout` at most; return whether it has."""
        if self.is_alive():
            self.join(timeout.total_seconds())
        return not self.is_alive()
