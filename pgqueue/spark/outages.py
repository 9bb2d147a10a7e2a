"""Wait for a database that is away, as workers do; but within a bound, or a stream would hang.

A stream that has begun waits wherever it asks the database. Rows go to Spark in blocks: if the
connection is lost after the first block, Spark's task fails, and Spark may run it again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

import psycopg

from pgqueue.values.escaping import logger_of

T = TypeVar("T")

BOUND = 60.0
"""Seconds for which a stream waits."""
SHORTEST, LONGEST = 0.1, 5.0
"""Seconds between two tries."""
_AWAY = ("08", "53", "57P")
"""How the codes of errors begin that say so; without any code, libpq says it."""

logger = logger_of(__name__)


def patiently(ask: Callable[[], T]) -> T:
    """Return the value of a call; make the call again while the database is away.

    Raises:
        psycopg.OperationalError: the database was away for longer than `BOUND`.
    """
    failures = 0
    until = time.monotonic() + BOUND
    while True:
        try:
            return ask()
        except psycopg.OperationalError as error:
            failures += 1
            if not is_away(error) or time.monotonic() > until:
                raise
            if failures == 1:
                logger.warning("The database is away, and is asked again for a minute: %s", error)
        nap = min(SHORTEST * 2.0 ** min(failures, 10), LONGEST)
        time.sleep(nap * random.uniform(0.5, 1))  # noqa: S311


def read_patiently(read: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield what a call yields; make it again while the database is away, until something came.

    Raises:
        psycopg.OperationalError: the database was away for longer than `BOUND`, or went away after
            something came.
    """

    def begin() -> tuple[list[T], Iterator[T]]:
        blocks = read()
        return list(islice(blocks, 1)), blocks

    first, rest = patiently(begin)
    yield from first
    yield from rest


def is_away(error: psycopg.OperationalError) -> bool:
    """Return whether the database is out of reach for now, as an error says."""
    return error.sqlstate is None or error.sqlstate.startswith(_AWAY)
