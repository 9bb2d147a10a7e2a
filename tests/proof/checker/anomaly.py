"""An anomaly, with the shortest history that shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.proof.checker.account import Account, Operation, Row


@dataclass(frozen=True)
class Anomaly:
    """A violation of a promise.

    Attributes:
        rule: the name of the rule.
        words: what is wrong, in one sentence.
        operations: the operations that show it, as few as possible.
        rows: the rows of the dump that show it, as few as possible.
    """

    rule: str
    words: str
    operations: Sequence[Operation] = ()
    rows: Sequence[Row] = ()

    @property
    def length(self) -> int:
        """How much there is to read."""
        return len(self.operations) + len(self.rows)

    def history(self) -> list[str]:
        """Return the operations in their order, then the rows, as lines."""
        by_time = sorted(self.operations, key=lambda each: each.began)
        return [*map(str, by_time), *(f"dump: {json.dumps(row)}" for row in self.rows)]


Rule = Callable[[Account], Iterator[Anomaly]]


def shortest(anomalies: Iterable[Anomaly]) -> dict[str, tuple[int, Anomaly]]:
    """Return for each violated rule the number of its anomalies, and the shortest one."""
    found: dict[str, tuple[int, Anomaly]] = {}
    for each in anomalies:
        count, best = found.get(each.rule, (0, each))
        found[each.rule] = count + 1, min(best, each, key=lambda one: one.length)
    return found
