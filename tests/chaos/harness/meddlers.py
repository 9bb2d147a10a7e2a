"""Who meddles with the engine's statements: each in turn, with all that can be done to it."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence

from tests.chaos.harness.proxy import Fail, Terminate
from tests.chaos.harness.statements import all_of_them, names_of

Fate = Fail | Terminate


class Each:
    """Lets each statement meet each fate once; `touched` are those that met one.

    It rests before the second fate of a statement, or nothing would ever get done.

    Args:
        chance: where the order is from.
        fates: what is to happen to every statement.
        most: of these, for each.
        rest: seconds.
    """

    def __init__(
        self, chance: random.Random, fates: Sequence[Fate], *, most: int = 9, rest: float
    ) -> None:
        most = min(most, len(fates))
        self._left = {name: chance.sample(fates, most) for name in all_of_them()}
        self._rest = rest
        self._next_at = 0.0
        self._deciding = threading.Lock()
        self.touched: set[str] = set()

    def __call__(self, statement: str, before: Sequence[str]) -> Fate | None:
        names = [name for name in names_of(statement) if self._left[name]]
        with self._deciding:
            is_due = time.monotonic() >= self._next_at or not self.touched.issuperset(names)
            if not names or not is_due:
                return None
            self._next_at = time.monotonic() + self._rest
            self.touched.update(names)
            fates = [self._left[name].pop() for name in names]
        return fates[0]


class Often:
    """Lets some statements meet the same fate, now and then; `met` are those that did.

    Args:
        names: of the statements; or texts, of those that are not the engine's.
        share: of all times.
        behind: only where one of these was before it in the same transaction.
    """

    def __init__(
        self,
        names: Collection[str],
        fate: Fate,
        chance: random.Random,
        *,
        share: float,
        behind: Collection[str] = (),
    ) -> None:
        self._names = frozenset(names)
        self._fate = fate
        self._chance = chance
        self._share = share
        self._behind = frozenset(behind)
        self.met: Counter[str] = Counter()

    def __call__(self, statement: str, before: Sequence[str]) -> Fate | None:
        met = self._names & {statement, *names_of(statement)}
        is_behind = not self._behind or any(self._behind & names_of(each) for each in before)
        if not met or not is_behind:
            return None
        if self._chance.random() >= self._share:
            return None
        self.met.update(met)
        return self._fate

    @property
    def times(self) -> int:
        """How many did."""
        return self.met.total()
