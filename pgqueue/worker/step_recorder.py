"""Store the steps of this worker's durable runs: several in one statement, and in one commit."""

from __future__ import annotations

import time
from collections import deque
from datetime import timedelta
from threading import Lock

import psycopg

from pgqueue.database.connections import Session
from pgqueue.engine import steps as engine
from pgqueue.engine.culprits import may_be_own
from pgqueue.engine.steps import DoneStep, StoredStep
from pgqueue.engine.values import Claim
from pgqueue.threads.service import NO_NAP, Service

BATCH = 200
RESULTS = 8 * 1024 * 1024
"""The limit of characters of the results in a statement; a result has 64 KiB at most."""
FOREVER = timedelta(hours=1)
GATHER = 0.0005
"""Seconds in which a batch may grow while several threads store steps. The runs of the batch before
reach their next steps meanwhile; else each batch would have only the first ones of them."""
LOOK = 0.1
"""Seconds. A run that waits may be interrupted this often, as psycopg does while it waits."""


class _Waiting:
    """A step whose run waits until it is written."""

    __slots__ = ("done", "is_stored", "written")

    def __init__(self, done: DoneStep) -> None:
        self.done = done
        self.is_stored = False
        self.written = Lock()
        self.written.acquire()


class StepRecorder(Service):
    """Stores the steps that threads have done while it was writing the steps before.

    It writes only the usual case: the lease holds, and nothing is in the way. `store` returns False
    for each other step, and for all steps of a statement that failed. Then the run stores its step
    by itself. So neither a lost lease, a locked message, nor a result that is not storable concerns
    the step of another run.

    A thread that comes alone writes its step at once, on the same connection.

    The first durable run starts it: most workers run no durable task.

    Args:
        session: connects when the first step is stored.
    """

    starts_when_needed = True

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        # Its owner may use the session. A timeout may interrupt a thread anywhere: only a `with`
        # statement releases it for certain.
        self._writing = Lock()
        self._waiting: deque[_Waiting] = deque()
        self._starting = Lock()
        self._is_idle = False
        self._has_finished = False

    def ensure_started(self) -> None:
        """Start its thread, unless it was started or stopped before.

        A run calls this before its timeout begins, which would otherwise interrupt the start.
        """
        if self.ident is None and not self._stopping.is_set():
            with self._starting:
                if self.ident is None:
                    self.start()

    def store(self, claim: Claim, step: StoredStep, took: timedelta) -> bool:
        """Store a step that is done, perhaps together with others, and wait for the commit.

        Any thread may call this.

        Returns:
            Whether it is stored. If not, the step may be stored all the same: its answer was lost.
        """
        if self._failures or not self.is_alive():
            return False
        waiting = _Waiting(DoneStep(claim, step, took))
        if self._is_idle and not self._waiting and not self._writing.locked():
            self._write_alone(waiting)
            return waiting.is_stored
        self._waiting.append(waiting)
        if self._is_idle:
            self.wake()
        while not waiting.written.acquire(timeout=LOOK):
            if self._has_finished or not self.is_alive():
                return False
        return waiting.is_stored

    def _write_alone(self, waiting: _Waiting) -> None:
        with self._writing:
            try:
                self._write([waiting])
            except psycopg.Error as error:
                self._session.close_after(error)
            except BaseException:
                # A timeout has interrupted it: the next statement must not get this one's answer.
                self._session.close()
                raise

    def tick(self) -> timedelta:
        """Write until no step waits."""
        self._is_idle = False
        while self._waiting:
            self.note_progress()
            with self._writing:
                taken = self._take()
                try:
                    self._write(taken)
                except Exception as error:
                    if not may_be_own(error):
                        raise
            if len(taken) > 1:
                time.sleep(GATHER)
        self._is_idle = True
        return NO_NAP if self._waiting else FOREVER

    def _take(self) -> list[_Waiting]:
        """Return as many waiting steps as a statement should carry."""
        taken: list[_Waiting] = []
        size = 0
        while self._waiting and len(taken) < BATCH and size < RESULTS:
            waiting = self._waiting.popleft()
            taken.append(waiting)
            size += len(waiting.done.step.result or "")
        return taken

    def _write(self, taken: list[_Waiting]) -> None:
        try:
            done = [each.done for each in taken]
            stored = engine.store_done(self._session.connection, done)
            for each in taken:
                each.is_stored = (each.done.claim.id, each.done.step.name) in stored
        finally:
            for each in taken:
                each.written.release()

    def finish(self) -> None:
        """Close the connection. A run that still waits, or comes later, stores by itself."""
        self._has_finished = True
        with self._writing:
            self._session.close()
