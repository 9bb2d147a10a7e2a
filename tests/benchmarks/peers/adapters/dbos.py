"""DBOS, whose workflows are measured.

Its docs (examples/queue-worker) have worker processes that launch DBOS and register a queue, and a
`DBOSClient` that enqueues. By default a queue has no limit: the process that polls first takes all
workflows, and the other one idles. So the queue has a `worker_concurrency` and each process an
`executor_id`, as they recommend (tutorials/queue-tutorial). A process takes no more than that at a
poll, so it polls 20 times a second, not once. Its workflows are sync, since async ones were slower.
Pools of 5, 10 and 50 connections were no faster than its 20. It has no bulk.
"""

import os
import threading
from functools import cache
from typing import Any

from dbos import DBOS, DBOSClient
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL

from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnPostgres, module, python

PROCESSES = 2
CONCURRENCY = 50
POLLING = 0.05  # seconds
QUEUE = "peers"
VERSION = "1"
"""Of the workflows: a worker runs those of its own version."""


@DBOS.step()
def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@DBOS.workflow(name="workflow")
def workflow(number: int) -> None:
    """Do nothing in some steps."""
    for _ in range(work.STEPS):
        nothing(number)


class Dbos(OnPostgres):
    """Threads that run workflows, each checkpoint of which is a row."""

    name = "dbos"
    title = "DBOS"
    distribution = "dbos"
    workflow_pace = 250
    settings = (
        f"{PROCESSES} processes, a queue with `worker_concurrency={CONCURRENCY}` and "
        f"`polling_interval_sec={POLLING:g}`"
    )
    has_bulk = False
    tables = ("dbos.workflow_status", "dbos.operation_outputs")
    unfinished = """
        (SELECT workflow_uuid AS id FROM dbos.workflow_status
         WHERE status IN ('ENQUEUED', 'PENDING')) AS unfinished
    """

    def install(self) -> None:
        _launch()
        DBOS.destroy()

    def open(self) -> None:
        _client()

    def enqueue(self, task: str, number: int) -> None:
        options: Any = {"queue_name": QUEUE, "workflow_name": task, "app_version": VERSION}
        _client().enqueue(options, number)

    def workers(self, task: str, *, lease: float) -> Commands:
        return [python(module(self.name))] * PROCESSES


@cache
def _client() -> DBOSClient:
    return DBOSClient(system_database_url=_url())


def _launch() -> None:
    """Start what runs workflows in this process, and make its tables unless they are there."""
    DBOS(
        config={
            "name": "peers",
            "application_version": VERSION,
            "executor_id": str(os.getpid()),
            "system_database_url": _url(),
            "log_level": "WARNING",
        }
    )
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLLING)


def _url() -> str:
    """Return where it stores, as SQLAlchemy reads it: a socket's folder is no part of a host."""
    found: dict[str, Any] = conninfo_to_dict(os.environ["PEERS_DSN"])
    url = URL.create(
        "postgresql",
        username=found.pop("user", None),
        password=found.pop("password", None),
        database=found.pop("dbname"),
        query={name: str(value) for name, value in found.items()},
    )
    return url.render_as_string(hide_password=False)


PEER = Dbos()

if __name__ == "__main__":
    _launch()
    threading.Event().wait()
