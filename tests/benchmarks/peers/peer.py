"""What an adapter says of its peer.

To add one: a file in `adapters/` with a subclass and its instance `PEER`, its name in
`ADAPTERS`, its packages in requirements/peers.in (`make constraints` pins them).
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import version
from typing import ClassVar

from tests.benchmarks.peers.places import Place

ADAPTERS = (
    "pgqueue",
    "pgqueuer",
    "procrastinate",
    "awa",
    "oban",
    "huey",
    "tasks_db",
    "ox",
    "celery",
    "dramatiq",
    "dbos",
    "absurd",
)
"""Ours first; the order of tables and charts."""

Commands = Sequence[Sequence[str]]


class Peer(ABC):
    """A queue: how it is installed, fed, emptied and run.

    `enqueue`, `enqueue_many` and `install` are called in processes of their own, which know the
    database by DATABASE_URL (for Django) and PEERS_DSN (for psycopg), and Redis by REDIS_URL.
    """

    name: ClassVar[str]
    """In figures; also its module's name."""
    title: ClassVar[str]
    distribution: ClassVar[str]
    """What pip calls it."""
    pace: ClassVar[int] = 0
    """Roughly how many tasks that do nothing it runs a second: sizes are made of it, so that
    each measurement takes some seconds. 0: only its workflows are measured."""
    workflow_pace: ClassVar[int] = 0
    """Roughly how many workflows of `work.STEPS` steps it runs a second; 0: it has none."""
    settings: ClassVar[str]
    """How it is run, in words, for the report."""

    is_django = False
    on_redis = False
    notifies = False
    has_bulk = True
    has_chords = False
    finished: str | None = None
    """SQL that makes `%(count)s` finished tasks; None where it keeps none."""

    @property
    def version(self) -> str:
        """The version that is installed."""
        return version(self.distribution)

    def install(self) -> None:  # noqa: B027
        """Make its tables, unless Django's `migrate` did."""

    def open(self) -> None:  # noqa: B027
        """Get ready to enqueue, once in a process that is going to."""

    @abstractmethod
    def enqueue(self, task: str, number: int) -> None:
        """Enqueue one, and commit. Any thread may call it."""

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        """Enqueue all, by whatever it has for that."""
        for number in numbers:
            self.enqueue(task, number)

    def chord(self, kind: str, count: int) -> None:
        """Have a task follow so many that do nothing, with what they returned; wait for its end.

        Args:
            kind: chord; or compat_chord, of ours, by Celery's words.
        """
        raise NotImplementedError

    @abstractmethod
    def workers(self, task: str, *, lease: float) -> Commands:
        """Return the commands that run such tasks, a process each, on two cores at best.

        The lease is `work.LEASE` of these processes, for those who are told on the command line.
        """

    @abstractmethod
    def left(self, place: Place) -> int:
        """Count what was enqueued and isn't finished."""

    def is_done(self, place: Place) -> bool:
        """Say whether nothing is left. It is asked often, of workers that are measured."""
        return self.left(place) == 0

    @abstractmethod
    def empty(self, place: Place) -> None:
        """Forget all tasks, finished or not."""

    def settle_down(self, place: Place) -> None:  # noqa: B027
        """Have its store do now what it would otherwise do while a queue is measured."""


class OnPostgres(Peer):
    """One whose tasks are rows.

    What is left is asked of its tables, as cheaply as for each of the others.
    """

    tables: ClassVar[tuple[str, ...]]
    unfinished: ClassVar[str]
    """SQL that ends `SELECT … FROM`: what is left, which has an `id`."""

    def left(self, place: Place) -> int:
        """Count rows."""
        count: int = place.ask(f"SELECT count(*) FROM {self.unfinished}")  # noqa: S608
        return count

    def is_done(self, place: Place) -> bool:
        """Look for a row, from the youngest on: all that is gone before it costs no look then."""
        youngest = f"SELECT id FROM {self.unfinished} ORDER BY id DESC LIMIT 1"  # noqa: S608
        return not place.rows(youngest)

    def empty(self, place: Place) -> None:
        """Truncate its tables."""
        place.execute(f"TRUNCATE {', '.join(self.tables)} CASCADE")

    def settle_down(self, place: Place) -> None:
        """Vacuum its tables, and write what is to be written."""
        place.settle_down(self.tables)


class OnDjango(OnPostgres):
    """One that is a Django app, and stores on Django's connection.

    Its worker is told of CONN_MAX_AGE by the environment.
    """

    is_django = True

    def command(self, *arguments: str) -> list[str]:
        """Return a command of `manage.py`."""
        return [sys.executable, "manage.py", *arguments, "--verbosity", "0"]


class OnRedis(Peer):
    """One whose tasks are in Redis, which keeps nothing of what is finished."""

    on_redis = True
    queues: ClassVar[tuple[tuple[str, str], ...]]
    """Commands and keys that count what is left, such as `("LLEN", "celery")`."""

    def left(self, place: Place) -> int:
        """Add up its lists and hashes."""
        return sum(int(place.redis.execute_command(*each)) for each in self.queues)

    def empty(self, place: Place) -> None:
        """Remove all keys."""
        place.redis.flushall()


def module(name: str) -> str:
    """Return the import path of an adapter."""
    return f"tests.benchmarks.peers.adapters.{name}"


def python(*arguments: str) -> list[str]:
    """Return a command that runs a module, so that it finds the project from its directory."""
    return [sys.executable, "-m", *arguments]


def redis_url() -> str:
    """Return where Redis is found."""
    return os.environ["REDIS_URL"]
