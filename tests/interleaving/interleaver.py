"""Run schedules, find the ones that break a promise, and shrink these."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from tests.factories import Connection
from tests.interleaving.ending import end, reset
from tests.interleaving.operations import operate, work
from tests.interleaving.schedule import Interleaving, shrunk
from tests.interleaving.turns import SteppedSession, Turns
from tests.interleaving.witness import Witness

SESSIONS = 4


class Interleaver:
    """Runs schedules on a database that nobody else uses.

    Args:
        connections: one for each session, then one for itself, and one for an observer.
    """

    def __init__(self, connections: Sequence[Connection]) -> None:
        *sessions, self._own, self._observer = connections
        self._sessions = [SteppedSession(*each) for each in enumerate(sessions)]
        self._turns = Turns(self._sessions, self._observer)
        self.taken: tuple[int, ...] = ()
        """The turns of the last schedule, as they were taken."""

    def run(self, schedule: Interleaving) -> list[str]:
        """Run a schedule; return the broken promises."""
        head = reset(self._own)
        witness = Witness(self._observer)
        for name in schedule.before:
            operate(witness, 0, self._own, name)

        def after(session: SteppedSession) -> None:
            witness.turn += 1
            witness.look()

        works = [work(witness, *names) for names in schedule.sessions]
        self.taken = tuple(self._turns.take(works, schedule.chooser(), after))
        for session in self._sessions[: len(works)]:
            if session.error is not None:
                raise session.error
        names = [*schedule.before, *(name for each in schedule.sessions for name in each)]
        has_locks = any(name.startswith("cancel") for name in names)
        end(witness, self._own, head=head, has_locks=has_locks)
        return witness.broken

    def shrink(self, schedule: Interleaving, broken: Sequence[str]) -> Interleaving:
        """Return a smaller schedule that breaks the same promise."""
        promise = broken[0].partition(":")[0]

        def fails(smaller: Interleaving) -> bool:
            return any(each.startswith(promise) for each in self.run(smaller))

        exact = replace(schedule, turns=self.taken)
        return shrunk(exact if fails(exact) else schedule, fails)

    def find(
        self, seeds: Iterable[int], only: Collection[str] = ()
    ) -> tuple[int, Interleaving, list[str]] | None:
        """Run the schedules of seeds; return the first one that breaks a promise, and which.

        Args:
            only: names of operations that they may have; empty: all.
        """
        for seed in seeds:
            schedule = Interleaving.of_seed(seed, only)
            if broken := self.run(schedule):
                return seed, schedule, broken
        return None


def seeds_for(seconds: float, *, first: int) -> Iterator[int]:
    """Return seeds until the time is over."""
    until = time.monotonic() + seconds
    for seed in count(first):
        if time.monotonic() > until:
            return
        yield seed
