"""Be one of several processes of a worker. Imports no models: a new process has no apps yet."""

from __future__ import annotations

import selectors
import signal
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from pgqueue.worker.config import WorkerConfig

if TYPE_CHECKING:
    from pgqueue.claiming.presence import Family

SIGNALS = (signal.SIGTERM, signal.SIGINT)
BEGAN_AT = time.time()
"""When this process began; if it is a child, before anything of the project is imported."""
REQUEST = b"stop"
# What a child says: each second that nothing in it is stuck; that another is to take its place;
# and last, that it holds nothing any more.
WELL = b"well"
RETIRING = b"retiring"
STOPPED = b"stopped"


class Parent:
    """What a child knows of its parent: what comes through a pipe, and that it lives."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.requests = 0
        self.is_gone = False

    def fileno(self) -> int:
        """Return what becomes readable when there is something to hear."""
        return self._pipe.fileno()

    def listen(self) -> None:
        """Hear that one is to stop; a parent that is gone asks for that, too."""
        try:
            while self._pipe.poll():
                self._pipe.recv_bytes()
                self.requests += 1
        except (EOFError, OSError):
            self.is_gone = True
            self.requests = max(self.requests, 1)

    def say(self, word: bytes) -> None:
        """Say one of the words above; not if what was said before is still unheard for long."""
        with suppress(OSError), selectors.DefaultSelector() as selector:  # it may be gone
            selector.register(self._pipe, selectors.EVENT_WRITE)
            if selector.select(0):
                self._pipe.send_bytes(word)


def main(config: WorkerConfig, pipe: Connection, family: Family, level: int | None) -> None:
    """Run what a process of its own runs; its parent restarts it, so it need say no more.

    Args:
        level: of the log, where the project says nothing of it.
    """
    # Until the worker takes them: the parent passes them on, and they are not lost.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # They have waited since before this process began; what it starts itself is to hear them.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    import django

    django.setup()

    from psycopg import OperationalError

    from pgqueue.worker.deadline import STATUS, bound_interpreter_exit, exit_at_once
    from pgqueue.worker.logs import configure_logging
    from pgqueue.worker.worker import Worker

    configure_logging(level)
    parent = Parent(pipe)
    try:
        worker = Worker(config, parent=parent, family=family)
    except OperationalError as error:
        parent.say(WELL)  # as it does while it runs: to start all of it anew would mend nothing
        parent.say(STOPPED)  # so that nobody who stops now takes it for one that was cut short
        sys.exit(f"The database can't be reached: {error}")
    have_ended = worker.run()
    if worker.holds_something:
        exit_at_once(STATUS)
    parent.say(STOPPED)
    if not have_ended:
        exit_at_once()
    bound_interpreter_exit()
