"""Enqueue at a steady rate until told to stop, and write down what is known of each transaction.

Run as `python -m tests.chaos.producer NUMBER RATE SEED [KIND …]`, the kinds being what it enqueues
besides. Each line of its output is JSON: what a transaction is about to enqueue, and in the next
line what came of it: committed, undone, or unsure where no answer came.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import django

NUMBERS_EACH = 10_000_000
HOUR = timedelta(hours=1)
WEIGHTS = {
    "plain": 6,
    "atomic": 4,
    "in_order": 3,
    "limited": 3,
    "paced": 1,
    "waiting": 1,
    "fails_once": 1,
    "fails_once_atomic": 0.5,
    "in_parts": 0.5,
    "gives_up": 0.3,
    "hopeless": 0.3,
    "never": 0.3,
}
BESIDES = {"pulled": 3, "raw": 1, "once": 0.5, "large": 0.2}
"""Only where asked for: the first two need consumers."""
SHAPES = {"some": 6.0, "one": 3, "many": 1, "crowd": 0.3}
CROWDS = {"limited": 16, "in_order": 6, "paced": 12}
"""More at once than may run."""
SIZES = [10_000, 10_000, 30_000, 100_000]


class Undone(Exception):
    """What a producer thought better of."""


class Producer:
    def __init__(self, number: int, seed: str, also: Sequence[str]) -> None:
        self._random = random.Random(f"{seed} {number}")
        self._next = number * NUMBERS_EACH
        self._weights = {**WEIGHTS, **{kind: BESIDES[kind] for kind in also}}
        self._to_cancel: list[int] = []
        self._first = list(CROWDS)
        self.is_stopping = False

    def run(self, rate: float) -> None:
        """Go on until told to stop; then cancel what is still to be cancelled."""
        while not self.is_stopping:
            count = self._transact()
            self._cancel()
            time.sleep(count / rate)
        for _ in range(300):
            if not self._to_cancel:
                return
            self._cancel()
            time.sleep(0.1)

    def _transact(self) -> int:
        """Store some in one transaction, or several at once, or one alone."""
        shape, kinds = self._choose()
        count = len(kinds)
        numbers = list(range(self._next, self._next + count))
        self._next += count
        say(begun=dict(zip(map(str, numbers), kinds, strict=True)))
        say(came=self._store(shape, kinds, numbers))
        return count

    def _choose(self) -> tuple[str, list[str]]:
        """Return what to store: a crowd of each kind, and then whatever comes."""
        if self._first:
            kind = self._first.pop()
            return "crowd", [kind] * CROWDS[kind]
        [shape] = self._random.choices(list(SHAPES), weights=list(SHAPES.values()))
        if shape == "crowd":
            kind = self._random.choice(list(CROWDS))
            return shape, [kind] * CROWDS[kind]
        if shape == "many":
            return shape, ["plain"] * 30
        return shape, list(self._kinds(self._random.randint(1, 5) if shape == "some" else 1))

    def _kinds(self, count: int) -> Iterator[str]:
        """One ordered key at most: two in different orders would wait for each other."""
        left = dict(self._weights)
        for _ in range(count):
            kind = self._random.choices(list(left), weights=list(left.values()))[0]
            if kind == "in_order":
                del left[kind]
            yield kind

    def _store(self, shape: str, kinds: list[str], numbers: list[int]) -> str:
        from django.db import DatabaseError, InterfaceError, close_old_connections, transaction

        is_committing = shape in ("one", "many")
        to_cancel: list[int] = []
        close_old_connections()
        try:
            if shape == "many":
                tasks.plain.enqueue_many([(number, 0.002) for number in numbers])
                return "committed"
            if shape == "one":
                to_cancel += self._enqueue(kinds[0], numbers[0])
            elif shape == "crowd":
                with transaction.atomic():
                    self._enqueue_crowd(kinds[0], numbers)
                    is_committing = True
            else:
                with transaction.atomic():
                    for kind, number in zip(kinds, numbers, strict=True):
                        to_cancel += self._enqueue(kind, number)
                    if self._random.random() < 0.1:
                        raise Undone
                    is_committing = True
        except Undone:
            return "undone"
        except (DatabaseError, InterfaceError) as error:
            say(error=f"{type(error).__name__}: {error}")
            return "unsure" if is_committing else "undone"
        self._to_cancel += to_cancel
        return "committed"

    def _enqueue(self, kind: str, number: int) -> list[int]:
        """Enqueue one; return its id if it is to be cancelled."""
        if kind in ("raw", "once", "large"):
            getattr(self, f"_send_{kind}")(number)
            return []
        options: dict[str, Any] = {}
        if kind == "in_order":
            options = {"key": self._random.choice("abcd"), "ordered": True}
        elif kind == "limited":
            options = {"key": self._random.choice("abcd")}
        elif kind == "never":
            options = {"run_after": HOUR}
        elif self._random.random() < 0.2:
            options = {"run_after": self._random.uniform(0.1, 0.5)}
        result = tasks.KINDS[kind].using(**options).enqueue(number, self._random.uniform(0, 0.02))
        return [int(result.id)] if kind == "never" else []

    def _enqueue_crowd(self, kind: str, numbers: list[int]) -> None:
        """Enqueue what can't all run at once: of several keys, or of one, in its order."""
        options: dict[str, Any] = {}
        if kind == "in_order":
            options = {"key": self._random.choice("abcd"), "ordered": True}
        for number in numbers:
            if kind == "limited":
                options = {"key": "abcd"[number % 4]}
            tasks.KINDS[kind].using(**options).enqueue(number, 0.03)

    def _send_raw(self, number: int) -> None:
        from pgqueue import send

        send("pulled", {"args": [number]}, max_attempts=1000)

    def _send_once(self, number: int) -> None:
        """Enqueue it twice, while the first can't have ended."""
        from django.db import transaction

        once = tasks.once.using(dedupe_key=str(number))
        with transaction.atomic():
            once.enqueue(number)
            once.enqueue(number)

    def _send_large(self, number: int) -> None:
        text = self._random.randbytes(self._random.choice(SIZES) // 2).hex()
        tasks.large.enqueue(number, text, len(text))

    def _cancel(self) -> None:
        import psycopg
        from django.db import DatabaseError, InterfaceError, close_old_connections

        from pgqueue.models import Message

        if not self._to_cancel:
            return
        close_old_connections()
        try:
            Message.objects.filter(pk__in=self._to_cancel).cancel()
        except (psycopg.Error, DatabaseError, InterfaceError) as error:
            say(error=f"{type(error).__name__}: {error}")
        else:
            self._to_cancel.clear()


def say(**what: Any) -> None:
    # One write for each line: who is killed leaves whole ones.
    os.write(1, json.dumps(what).encode() + b"\n")


def main() -> None:
    number, rate, seed = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    producer = Producer(number, seed, sys.argv[4:])

    def stop(*_: object) -> None:
        producer.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    producer.run(rate)


if __name__ == "__main__":
    django.setup()
    from tests.chaos import tasks

    main()
