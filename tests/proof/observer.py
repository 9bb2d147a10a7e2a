"""Read the log from its beginning, a few events at a time, and write down what was read.

Run as `python -m tests.proof.observer NUMBER RATE SEED`.
"""

from __future__ import annotations

import random
import sys
import time

import django

from tests.proof.until_stopped import at_a_rate


class Observer:
    """A reader without a group, that keeps its position in memory."""

    def __init__(self, number: int, seed: str) -> None:
        self._random = random.Random(f"{seed} observer {number}")
        self._after = 0

    def observe(self) -> int:
        """Read once."""
        limit = self._random.choice([1, 10, 100])
        operation = invoked("read", after=self._after, limit=limit)
        try:
            events = read(after=self._after, limit=limit)
        except PositionAhead as error:
            # A promotion lost the last events.
            operation.say("fail", why=str(error))
            self._after = 0
            return 1
        except (DatabaseError, InterfaceError, psycopg.Error) as error:
            operation.say("fail", why=f"{type(error).__name__}: {error}"[:300])
            time.sleep(0.1)
            return 1
        found = [[event.position, event.payload["number"]] for event in events]
        operation.say("ok", found=found)
        self._after = found[-1][0] if found else self._after
        return 1


if __name__ == "__main__":
    django.setup()
    import psycopg
    from django.db import DatabaseError, InterfaceError

    from pgqueue import read
    from pgqueue.exceptions import PositionAhead
    from tests.proof.operations import invoked

    at_a_rate(float(sys.argv[2]), Observer(int(sys.argv[1]), sys.argv[3]).observe)
