"""The main function of one of a worker's processes.

No models are imported here: a new process has not set up Django yet.
"""

from __future__ import annotations

import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.parent import LEFT, STOPPED, WELL, SupervisorPipe
from pgqueue.worker.stopping import OTHERS, SIGNALS, asked_for_stacks

if TYPE_CHECKING:
    from pgqueue.claiming.registration import WorkerIds

BEGAN_AT = time.time()
"""The start of this process, before any module of the project is imported."""


def main(config: WorkerConfig, pipe: Connection, ids: WorkerIds, level: int | None) -> None:
    """Run a worker in this process. The parent replaces the process after its end.

    Args:
        level: the log level, if the project configures none.
    """
    # Ignored until the worker handles them: the parent passes requests to stop on by the pipe.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # The parent blocked them before it started this process. Processes started here inherit that.
    with asked_for_stacks():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [*SIGNALS, *OTHERS])
        _run(config, SupervisorPipe(pipe), ids, level)


def _run(config: WorkerConfig, parent: SupervisorPipe, ids: WorkerIds, level: int | None) -> None:
    import django

    django.setup()

    from psycopg import OperationalError

    from pgqueue.worker.deadline import STATUS, bound_interpreter_exit, exit_at_once
    from pgqueue.worker.process import configure_logging
    from pgqueue.worker.worker import Worker

    configure_logging(level)
    try:
        worker = Worker(config, parent=parent, ids=ids, began_at=BEGAN_AT)
    except OperationalError as error:
        parent.say(WELL)  # as a running worker does: a restart of the supervisor would not help
        parent.say(STOPPED)  # it has no leases: a supervisor that stops now was not cut short
        sys.exit(f"The database can't be reached: {error}")
    have_ended = worker.run()
    if worker.holds_something:
        exit_at_once(STATUS)
    if worker.leaves_something:
        parent.say(LEFT)
    parent.say(STOPPED)
    if not have_ended:
        exit_at_once()
    bound_interpreter_exit()
