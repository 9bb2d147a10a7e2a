"""Store flows of a thousand members one after another until told to stop; see each to its end.

Run as `python -m tests.chaos.flows NUMBER SEED`. Its output is as that of a producer. Of each flow,
it replays what is dead once nothing goes on any more.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from itertools import count
from typing import Any

import django

from tests.chaos.producer import NUMBERS_EACH, say

PARTS, CHAINS, DIAMONDS, DEAD, CANCELLED, GROWING = 400, 20, 50, 20, 10, 20


class Graph:
    """One flow: its members by their numbers, each with the kind of its end.

    Args:
        first: the lowest number.
    """

    def __init__(self, draft: Any, first: int, chance: random.Random) -> None:
        self.kinds: dict[int, str] = {}
        self._draft = draft
        self._chance = chance
        self._numbers = count(first)

    def build(self) -> None:
        """Add everything."""
        self._chord()
        for _ in range(CHAINS):
            self._chain(self._chance.randint(5, 12))
        for _ in range(DIAMONDS):
            self._diamond()
        for _ in range(DEAD):
            self._dead()
        for _ in range(CANCELLED):
            self._cancelled()
        for _ in range(GROWING):
            self._growing()

    def _number(self, kind: str) -> int:
        number = next(self._numbers)
        self.kinds[number] = kind
        return number

    def _add(self, kind: str, *parents: Any, ends: str = "", **options: Any) -> Any:
        """Add a member that takes the results of others.

        Args:
            kind: the task.
            ends: the kind that the books have of it, if that is another one.
        """
        number = self._number(ends or kind)
        taken = [each.args[0] for each in parents]
        task = getattr(tasks, kind)
        return self._draft.enqueue(task, number, list(parents), taken, **options)

    def _chord(self) -> None:
        kinds = self._chance.choices(["member", "member_atomic"], k=PARTS)
        parts = [self._add(kind) for kind in kinds]
        self._add("member", *parts)
        self._add("member", after=self._chance.sample(parts, 50))

    def _chain(self, length: int) -> None:
        last = self._add("member")
        for _ in range(length):
            last = self._add(self._chance.choice(["member", "member_atomic"]), last)

    def _diamond(self) -> None:
        top = self._add("member")
        sides = [self._add(kind, top) for kind in ("member", "member_atomic")]
        self._add("member", *sides, after=top)

    def _dead(self) -> None:
        bad, good = self._add("fails_until_replayed"), self._add("member")
        self._add("member", good, bad)
        spared = self._add("member", bad, good, on_failure="cancel", ends="cancelled_member")
        self._add("reports", bad, spared, on_failure="run")

    def _cancelled(self) -> None:
        bad = self._draft.enqueue(tasks.gives_up, self._number("gives_up"))
        spared = self._add("member", after=bad, ends="cancelled_member")
        self._add("reports", bad, spared, on_failure="run")

    def _growing(self) -> None:
        kind = self._chance.choice(["grows", "grows_atomically"])
        number, size = self._number(kind), self._chance.randint(1, 10)
        numbers = [self._number("member") for _ in range(size)]
        whole = self._number("member")
        grown = self._draft.enqueue(getattr(tasks, kind), number, numbers, whole)
        self._add("member", grown)


class Storing:
    """Stores flows."""

    def __init__(self, number: int, seed: str) -> None:
        self._number = number
        self._random = random.Random(f"{seed} flows {number}")
        # Behind those of producers, who are numbered from 1.
        self._next = (1000 + number) * NUMBERS_EACH
        self.is_stopping = False

    def run(self) -> None:
        """Go on until told to stop."""
        for each in count():
            name = f"flow {self._number}.{each}"
            self._store(name)
            while not self._is_over(name):
                pass
            if self.is_stopping:
                return

    def _store(self, name: str) -> None:
        from django.db import DatabaseError, InterfaceError, close_old_connections

        from pgqueue import flow

        close_old_connections()
        draft = flow(name)
        graph = Graph(draft, self._next, self._random)
        graph.build()
        self._next += len(graph.kinds)
        say(begun={str(number): kind for number, kind in graph.kinds.items()})
        try:
            with draft:
                pass
        except (DatabaseError, InterfaceError) as error:
            say(error=f"{type(error).__name__}: {error}")
            say(came="unsure")
        else:
            say(came="committed")

    def _is_over(self, name: str) -> bool:
        """Wait until nothing goes on, and replay what is dead; tell whether nothing was."""
        import psycopg
        from django.db import DatabaseError, InterfaceError, close_old_connections

        from pgqueue import get_flow
        from pgqueue.models import Flow

        close_old_connections()
        try:
            stored = Flow.objects.filter(name=name).first()
            if stored is None:
                return True
            found = get_flow(stored.pk)
            found.wait()
            return not found.retry().done
        except (psycopg.Error, DatabaseError, InterfaceError) as error:
            say(error=f"{type(error).__name__}: {error}")
            time.sleep(0.1)
            return False


def main() -> None:
    storing = Storing(int(sys.argv[1]), sys.argv[2])

    def stop(*_: object) -> None:
        storing.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    storing.run()


if __name__ == "__main__":
    django.setup()
    from tests.chaos import tasks

    main()
