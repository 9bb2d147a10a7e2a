"""A schedule: which operations each session does, and whose turn it is. It is a text, too."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.interleaving.operations import WEIGHTS

MOST_TURNS = 80


@dataclass(frozen=True)
class Interleaving:
    """Operations and turns.

    Attributes:
        before: the operations that come before all others, one after another.
        sessions: the operations of each session.
        turns: numbers of sessions. A session that may not go on leaves its turn to the next one;
            after the last turn, each session goes on as long as it may.
    """

    before: tuple[str, ...]
    sessions: tuple[tuple[str, ...], ...]
    turns: tuple[int, ...]

    def __str__(self) -> str:
        sessions = " / ".join(" ".join(each) for each in self.sessions)
        return f"{' '.join(self.before)} | {sessions} @ {''.join(map(str, self.turns))}"

    @classmethod
    def parsed(cls, text: str) -> Interleaving:
        """Return the schedule of a text."""
        before, _, rest = text.partition("|")
        sessions, _, turns = rest.partition("@")
        each = tuple(tuple(session.split()) for session in sessions.split("/"))
        return cls(tuple(before.split()), each, tuple(map(int, turns.strip())))

    @classmethod
    def of_seed(cls, seed: int, only: Collection[str] = ()) -> Interleaving:
        """Return the schedule of a seed.

        Args:
            only: names of operations that it may have; empty: all.
        """
        chance = random.Random(seed)
        weights = {name: each for name, each in WEIGHTS.items() if not only or name in only}
        before = _some(chance, _puts(weights), 1) + _some(chance, weights, 5)
        count = chance.choice([2, 2, 3, 3, 4])
        sessions = tuple(_some(chance, weights, 3) for _ in range(count))
        turns, number = [], 0
        for _ in range(MOST_TURNS):
            if chance.random() < 0.5:
                number = chance.randrange(count)
            turns.append(number)
        return cls(before, sessions, tuple(turns))

    def chooser(self) -> Callable[[Sequence[int]], int]:
        """Return a function that chooses whose turn it is, among the sessions that may go on."""
        turns, last = iter(self.turns), 0

        def choose(free: Sequence[int]) -> int:
            nonlocal last
            wanted = next(turns, last)
            last = min(free, key=lambda number: (number < wanted, number))
            return last

        return choose

    def smaller(self) -> Iterator[Interleaving]:
        """Return schedules with an operation, a turn or a switch less."""
        for index in range(len(self.before)):
            yield replace(self, before=_without(self.before, index))
        for number, operations in enumerate(self.sessions):
            for index in range(len(operations)):
                less = _without(operations, index)
                each = (*self.sessions[:number], less, *self.sessions[number + 1 :])
                yield replace(self, sessions=each)
        for length in (0, len(self.turns) // 2, len(self.turns) - 1):
            if length < len(self.turns):
                yield replace(self, turns=self.turns[:length])
        for index in range(1, len(self.turns)):
            if self.turns[index] != self.turns[index - 1]:
                yield replace(
                    self,
                    turns=(*self.turns[:index], self.turns[index - 1], *self.turns[index + 1 :]),
                )


def shrunk(
    schedule: Interleaving, fails: Callable[[Interleaving], bool], *, tries: int = 400
) -> Interleaving:
    """Return a schedule that still fails, with fewer operations and switches.

    Args:
        fails: runs a schedule, and tells whether it fails in the same way.
        tries: how many schedules are run, at most.
    """
    while True:
        for smaller in schedule.smaller():
            tries -= 1
            if tries < 0:
                return schedule
            if fails(smaller):
                schedule = smaller
                break
        else:
            return schedule


def _some(chance: random.Random, weights: Mapping[str, float], most: int) -> tuple[str, ...]:
    names = chance.choices(list(weights), list(weights.values()), k=chance.randint(1, most))
    return tuple(name.replace("N", str(chance.randrange(4))) for name in names)


def _puts(weights: Mapping[str, float]) -> Mapping[str, float]:
    """Return the operations that store messages: nothing happens without one."""
    return {name: each for name, each in weights.items() if name.startswith("put")}


def _without(operations: tuple[str, ...], index: int) -> tuple[str, ...]:
    return operations[:index] + operations[index + 1 :]
