"""Wait for an unreachable database, as workers do; but not for ever, or a stream would hang.

A started stream waits at each query of the database. Rows go to Spark in blocks. If the connection
is lost between two blocks, the read goes on after the last row that Spark has. So Spark gets each
row once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import psycopg

from pgqueue.values.escaping import logger_of

T = TypeVar("T")
P = TypeVar("P")

BOUND = 60.0
"""The most seconds for which a stream waits."""
SHORTEST, LONGEST = 0.1, 5.0
"""Seconds between two tries."""
_AWAY = ("08", "53", "57P")
"""The first characters of an outage's error code. An error of libpq has no code."""

logger = logger_of(__name__)


def patiently(ask: Callable[[], T]) -> T:
    """Return the value of a call; repeat the call while the database is unreachable.

    Raises:
        psycopg.OperationalError: the database was unreachable for longer than `BOUND`.
    """
    patience = _Patience()
    while True:
        try:
            return ask()
        except psycopg.OperationalError as error:
            patience.wait(error)


def read_on(read: Callable[[P | None], Iterator[tuple[P, T]]]) -> Iterator[T]:
    """Yield the values of a read; after an outage, read on after the last place.

    Args:
        read: The function takes a place, or None for the beginning. It yields the pairs of a place
            and a value after this place.

    Raises:
        psycopg.OperationalError: the database was unreachable for longer than `BOUND`.
    """
    patience = _Patience()
    place: P | None = None
    while True:
        try:
            for reached, found in read(place):
                yield found
                place, patience = reached, _Patience()
        except psycopg.OperationalError as error:
            patience.wait(error)
        else:
            return


class _Patience:
    """Wait after each failure, for at most `BOUND` seconds."""

    def __init__(self) -> None:
        self._failures = 0
        self._until = time.monotonic() + BOUND

    def wait(self, error: psycopg.OperationalError) -> None:
        """Wait, longer after each failure; raise the error if waiting does not help."""
        if not self._failures:
            self._until = time.monotonic() + BOUND
        if not is_away(error) or time.monotonic() > self._until:
            raise error
        self._failures += 1
        if self._failures == 1:
            logger.warning("The database is unreachable; retrying for a minute: %s", error)
        nap = min(SHORTEST * 2.0 ** min(self._failures, 10), LONGEST)
        time.sleep(nap * random.uniform(0.5, 1))  # noqa: S311


def is_away(error: psycopg.OperationalError) -> bool:
    """Return whether an error says that the database is unreachable for now."""
    return error.sqlstate is None or error.sqlstate.startswith(_AWAY)
