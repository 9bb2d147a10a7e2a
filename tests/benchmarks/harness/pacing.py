"""A producer that keeps a rate by the clock, and what became of its messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connections

from pgqueue.conf import settings
from pgqueue.database.sql_files import load
from testproject.shop.tasks import nothing
from tests.benchmarks.harness.session import ask

SQL = load(__name__)
EVERY = 0.01  # seconds
TABLES = ("message", "history", "worker", "duty", "tally")
"""Those in which rows die while a queue runs: the last part of their names."""


class Producer(threading.Thread):
    """Enqueues messages that do nothing, at a rate, until it is stopped.

    Args:
        rate: messages a second. The next turn makes up for a slow one.
    """

    def __init__(self, rate: float) -> None:
        super().__init__(name="producer", daemon=True)
        self.count = 0
        self.error: BaseException | None = None
        self._rate = rate
        self._stopping = threading.Event()

    def run(self) -> None:
        """Enqueue in turns; each is one transaction."""
        began = time.monotonic()
        try:
            while not self._stopping.wait(EVERY):
                due = int((time.monotonic() - began) * self._rate) - self.count
                if due > 0:
                    nothing.enqueue_many([()] * due)
                    self.count += due
        except BaseException as error:
            self.error = error
        finally:
            connections[settings().database].close()

    def stop(self) -> None:
        """End it; raise what ended it before."""
        self._stopping.set()
        self.join(60)
        if self.error:
            raise self.error


@dataclass(frozen=True)
class Paced:
    """The figures of a phase.

    Attributes:
        per_s: messages a second that were enqueued.
        depth: the most messages that waited for a start at one moment.
        p99_ms: from the enqueue to the start.
        wal: bytes of WAL for each message. Everything counts that the server wrote.
        dead: dead rows by table at the end.
    """

    per_s: float
    depth: int
    p99_ms: float
    wal: float
    dead: dict[str, int]


@contextmanager
def producing(rate: float) -> Iterator[Producer]:
    """Have a producer while this lasts."""
    producer = Producer(rate)
    producer.start()
    try:
        yield producer
    finally:
        producer.stop()


def paced(rate: float, *, seconds: float) -> Paced:
    """Keep a rate for so long, wait until all has ended, and look what became of it."""
    began_at, wal_before, ended_before = ask(SQL["now"])
    began = time.monotonic()
    with producing(rate) as producer:
        time.sleep(seconds)
    took = time.monotonic() - began
    _wait_until(ended_before + producer.count, patience=60 + 2 * seconds)
    depth, p99_ms = ask(SQL["waits"], {"since": began_at})
    _, wal_after, _ = ask(SQL["now"])
    return Paced(
        per_s=producer.count / took,
        depth=depth,
        p99_ms=p99_ms,
        wal=float(wal_after - wal_before) / max(1, producer.count),
        dead=dead_rows(),
    )


def dead_rows() -> dict[str, int]:
    """Return the number of dead rows by table."""
    return {name: ask(SQL["dead"], {"name": f"pgqueue_{name}%"})[0] for name in TABLES}


def _wait_until(count: int, *, patience: float) -> None:
    until = time.monotonic() + patience
    while ask(SQL["now"])[2] < count:
        if time.monotonic() > until:
            raise RuntimeError("The worker did not end what the producer had enqueued.")
        time.sleep(0.5)
