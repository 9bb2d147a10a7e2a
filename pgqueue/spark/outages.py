"""Wait for a database that is away, as workers do; but within a bound, or a stream would hang.

A stream that has begun waits wherever it asks the database. Rows go to Spark in blocks. If the
connection is lost between two blocks, the read goes on after the last row that Spark has. So each
row comes once.
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
    patience = _Patience()
    while True:
        try:
            return ask()
        except psycopg.OperationalError as error:
            patience.wait(error)


def read_on(read: Callable[[P | None], Iterator[tuple[P, T]]]) -> Iterator[T]:
    """Yield the values of a read; after an outage, read on after the last place.

    Args:
        read: yields pairs of a place and a value, all that come after the place that it is given;
            None: all there are.

    Raises:
        psycopg.OperationalError: the database was away for longer than `BOUND`.
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
    """Waits after each failure, and for `BOUND` seconds at most."""

    def __init__(self) -> None:
        self._failures = 0
        self._until = time.monotonic() + BOUND

    def wait(self, error: psycopg.OperationalError) -> None:
        """Wait, longer after each failure; raise an error that no waiting helps against."""
        if not self._failures:
            self._until = time.monotonic() + BOUND
        if not is_away(error) or time.monotonic() > self._until:
            raise error
        self._failures += 1
        if self._failures == 1:
            logger.warning("The database is away, and is asked again for a minute: %s", error)
        nap = min(SHORTEST * 2.0 ** min(self._failures, 10), LONGEST)
        time.sleep(nap * random.uniform(0.5, 1))  # noqa: S311


def is_away(error: psycopg.OperationalError) -> bool:
    """Return whether the database is out of reach for now, as an error says."""
    return error.sqlstate is None or error.sqlstate.startswith(_AWAY)
