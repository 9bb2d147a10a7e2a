"""Publish at a steady rate until told to stop, some events with a condition.

Run as `python -m tests.proof.publisher NUMBER RATE SEED`.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import django

from tests.proof.producer import NUMBERS_EACH
from tests.proof.until_stopped import at_a_rate

KEYS = "abcd"
SHAPES = {"some": 6, "one": 2, "many": 1, "expecting": 6}


class ProofPublisher:
    """Publishes transactions of many shapes."""

    def __init__(self, number: int, seed: str) -> None:
        self._random = random.Random(f"{seed} publisher {number}")
        self._next = number * NUMBERS_EACH
        self._last: dict[str, int] = dict.fromkeys(KEYS, 0)

    def transact(self) -> int:
        """Publish events in one transaction; return how many."""
        [shape] = self._random.choices(list(SHAPES), list(SHAPES.values()))
        return int(getattr(self, f"_{shape}")())

    def _events(self, count: int, topic: str = "proof.published") -> list[dict[str, Any]]:
        self._next += count
        numbers = range(self._next - count, self._next)
        return [{"number": n, "topic": topic, "key": self._random.choice(KEYS)} for n in numbers]

    def _some(self) -> int:
        events = self._events(self._random.randint(1, 5))
        with transacting("publish", events=events) as operation, transaction.atomic():
            for event in events:
                send(event)
            see(operation)
            # While it is open, others commit what they began later.
            time.sleep(self._random.choice([0, 0, 0.02, 0.1]))
            if self._random.random() < 0.15:
                raise Undone
            operation.is_committing = True
        return len(events)

    def _one(self) -> int:
        [event] = self._events(1)
        with transacting("publish", events=[event]) as operation:
            operation.is_committing = True
            send(event)
        return 1

    def _many(self) -> int:
        events = self._events(20)
        with transacting("publish", events=events) as operation:
            operation.is_committing = True
            publish_many([(e["topic"], {"number": e["number"]}, e["key"]) for e in events])
        return len(events)

    def _expecting(self) -> int:
        """Append if the last event of the key is the one that was read; then read it again."""
        [event] = self._events(1, "proof.account")
        key, expect = event["key"], self._last[event["key"]]
        with (
            transacting("publish", events=[event], expect=expect) as operation,
            transaction.atomic(),
        ):
            send(event, expect=expect)
            see(operation)
            # Others try to append meanwhile.
            time.sleep(self._random.choice([0, 0.01, 0.03]))
            operation.is_committing = True
        try:
            for read_event in read(topics="proof.account", key=key, after=expect):
                self._last[key] = read_event.position
        except PositionAhead:
            # A promotion lost the event.
            self._last[key] = 0
        except (DatabaseError, InterfaceError, psycopg.Error):
            time.sleep(0.1)
        return 2


def send(event: dict[str, Any], **options: Any) -> None:
    publish(event["topic"], {"number": event["number"]}, key=event["key"], **options)


if __name__ == "__main__":
    django.setup()
    import psycopg
    from django.db import DatabaseError, InterfaceError, transaction

    from pgqueue import publish, publish_many, read
    from pgqueue.exceptions import PositionAhead
    from tests.proof.transactions import Undone, see, transacting

    at_a_rate(float(sys.argv[2]), ProofPublisher(int(sys.argv[1]), sys.argv[3]).transact)
