"""Enqueue at a steady rate until told to stop, and write down what is known of each transaction.

Run as `python -m tests.proof.producer NUMBER RATE SEED`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import django

from tests.proof.until_stopped import at_a_rate

NUMBERS_EACH = 10_000_000
KINDS = {
    "plain": 5,
    "atomic": 4,
    "in_order": 4,
    "limited": 3,
    "metered": 1,
    "fails_once": 1,
    "hopeless": 0.3,
}
SHAPES = {"some": 5.0, "one": 2, "many": 0.5, "lane": 1.5, "crowd": 0.5, "flow": 0.7, "steps": 0.7}
ONCE = {"atomic", "in_order", "fails_once", "hopeless", "member"}
KEYS = "abc"


def described(number: int, kind: str, **of: Any) -> dict[str, Any]:
    """Return the promises of a message, for the checker."""
    return {
        "number": number,
        "kind": kind,
        "once": kind in ONCE,
        "ends": "dead" if kind == "hopeless" else "succeeded",
        "lane": of.get("lane"),
        "limits": of.get("limits", []),
        "parents": of.get("parents", []),
        "steps": of.get("steps", []),
    }


class ProofProducer:
    """Stores transactions of many shapes."""

    def __init__(self, number: int, seed: str) -> None:
        self._random = random.Random(f"{seed} producer {number}")
        self._next = number * NUMBERS_EACH

    def transact(self) -> int:
        """Store messages in one transaction; return how many."""
        [shape] = self._random.choices(list(SHAPES), list(SHAPES.values()))
        return int(getattr(self, f"_{shape}")())

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _some(self) -> int:
        kinds = list(self._kinds(self._random.randint(1, 5)))
        return self._store_each([self._message(kind) for kind in kinds])

    def _kinds(self, count: int) -> Iterator[str]:
        """Return kinds with one lane at most: two in different orders would be a deadlock."""
        left = dict(KINDS)
        for _ in range(count):
            [kind] = self._random.choices(list(left), list(left.values()))
            if kind == "in_order":
                del left[kind]
            yield kind

    def _message(self, kind: str, key: str = "") -> tuple[Any, dict[str, Any]]:
        key = key or self._random.choice(KEYS)
        task, number = getattr(tasks, kind), self._number()
        if kind == "in_order":
            return task.using(key=key, ordered=True), described(number, kind, lane=f"lane {key}")
        if kind == "limited":
            limits = ["crowded", f"crowded {key}"]
            return task.using(key=key), described(number, kind, limits=limits)
        if kind == "metered":
            return task, described(number, kind, limits=["metered"])
        if self._random.random() < 0.2:
            task = task.using(run_after=self._random.uniform(0.1, 0.5))
        return task, described(number, kind)

    def _store_each(self, made: list[tuple[Any, dict[str, Any]]]) -> int:
        messages = [message for _, message in made]
        with transacting("enqueue", messages=messages) as operation, transaction.atomic():
            for task, message in made:
                task.enqueue(message["number"], self._seconds(message["kind"]))
            self._end(operation)
        return len(made)

    def _seconds(self, kind: str) -> float:
        """Return how long a message runs: some plain ones for about as long as a lease."""
        is_long = kind in ("plain", "atomic") and self._random.random() < 0.12
        return self._random.uniform(1, 4) if is_long else self._random.uniform(0, 0.02)

    def _end(self, operation: Any) -> None:
        """See the transaction, and commit or roll back, after a while in which others commit."""
        time.sleep(self._random.choice([0, 0, 0.01, 0.04]))
        see(operation)
        if self._random.random() < 0.15:
            raise Undone
        operation.is_committing = True

    def _one(self) -> int:
        task, message = self._message("plain")
        with transacting("enqueue", messages=[message]) as operation:
            operation.is_committing = True
            task.enqueue(message["number"])
        return 1

    def _many(self) -> int:
        made = [described(self._number(), "atomic") for _ in range(20)]
        with transacting("enqueue", messages=made) as operation:
            operation.is_committing = True
            tasks.atomic.enqueue_many([(each["number"],) for each in made])
        return len(made)

    def _lane(self) -> int:
        key = self._random.choice(KEYS)
        return self._store_each([self._message("in_order", key) for _ in range(4)])

    def _crowd(self) -> int:
        kind = self._random.choice(["limited", "metered"])
        return self._store_each([self._message(kind) for _ in range(12)])

    def _flow(self) -> int:
        """Store a diamond: one, then three that last differently long, then one."""
        top, *sides, last = [self._number() for _ in range(5)]
        graph = {top: [], **{side: [top] for side in sides}, last: sides}
        made = [described(number, "member", parents=of) for number, of in graph.items()]
        seconds = dict(zip(sides, self._random.sample([0.0, 0.3, 0.9], 3), strict=True))
        draft = flow(f"proof {top}")
        stored: dict[int, Any] = {}
        for number, parents in graph.items():
            awaited = [stored[each] for each in parents]
            stored[number] = draft.enqueue(tasks.member, number, awaited, seconds.get(number, 0.0))
        with transacting("enqueue", messages=made) as operation, transaction.atomic():
            with draft:
                pass
            self._end(operation)
        return len(made)

    def _steps(self) -> int:
        message = described(self._number(), "in_steps", steps=list(tasks.STEPS))
        with transacting("enqueue", messages=[message]) as operation, transaction.atomic():
            tasks.in_steps.enqueue(message["number"])
            self._end(operation)
        return 1


if __name__ == "__main__":
    django.setup()
    from django.db import transaction

    from pgqueue import flow
    from tests.proof import tasks
    from tests.proof.transactions import Undone, see, transacting

    at_a_rate(float(sys.argv[2]), ProofProducer(int(sys.argv[1]), sys.argv[3]).transact)
