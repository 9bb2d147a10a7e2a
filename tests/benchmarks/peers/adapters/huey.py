"""Huey, with its PostgreSQL storage.

Its docs (consumer) say threads unless tasks are heavy on the processor, "process" where they are
not to share one interpreter, and (troubleshooting) to raise `-w`; that storage blocks on LISTEN by
default. Results are not stored, periodic tasks and health checks are off. It has no bulk, and
takes a task out of the table before it runs it: nothing brings it back.
"""

import os

from huey import PostgresHuey

from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnPostgres, module, python

WORKERS = 4

# This makes its tables, too.
queue = PostgresHuey("peers", dsn=os.environ["PEERS_DSN"], results=False)


@queue.task(name="nothing")
def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@queue.task(name="nap")
def nap(number: int) -> None:
    """Wait."""
    work.nap(number)


@queue.task(name="note")
def note(number: int) -> None:
    """Leave an effect."""
    work.note(number)


TASKS = {"nothing": nothing, "nap": nap, "note": note}


class Huey(OnPostgres):
    """Threads or processes that take a task a trip."""

    name = "huey"
    title = "Huey"
    distribution = "huey"
    pace = 3_000
    settings = (
        f"PostgreSQL storage, `-k process -w {WORKERS}`, {work.AT_ONCE} threads where tasks nap; "
        "no results, periodic tasks or health checks"
    )
    notifies = True
    has_bulk = False
    tables = ("huey_task", "huey_schedule", "huey_kv")
    unfinished = "huey_task"

    def enqueue(self, task: str, number: int) -> None:
        TASKS[task](number)

    def workers(self, task: str, *, lease: float) -> Commands:
        count = ["-k", "thread", "-w", str(work.AT_ONCE)] if task == "nap" else []
        count = count or ["-k", "process", "-w", str(WORKERS)]
        options = ["--no-periodic", "--disable-health-check", "--quiet"]
        return [python("huey.bin.huey_consumer", f"{module(self.name)}.queue", *count, *options)]


PEER = Huey()
