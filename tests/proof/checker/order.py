"""Rules of order: lanes and the log follow the order of commits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from tests.proof.checker.account import Account, Operation, Row
from tests.proof.checker.anomaly import Anomaly

Placed = tuple[Operation, int, Row]
"""An operation, the index of an item in its transaction, and the row that the item left."""


def out_of_order(
    placed: Iterable[Placed], since: Callable[[Operation], float]
) -> Iterator[tuple[Placed, Placed]]:
    """Return pairs of items whose order contradicts the order of their commits.

    A transaction comes first if it had been committed before a moment of the other one. Items of
    one transaction come in the order of its statements. Other transactions have any order.

    Args:
        placed: items in the order in which they took effect.
        since: the moment of a transaction; what was committed before must precede it.
    """
    latest: Placed | None = None
    last_of: dict[str, Placed] = {}
    for item in placed:
        operation, index, _ = item
        same = last_of.get(operation.id)
        if same is not None and same[1] > index:
            yield same, item
        elif latest is not None and operation.end == "ok" and operation.ended < since(latest[0]):
            yield latest, item
        last_of[operation.id] = item
        if latest is None or since(operation) > since(latest[0]):
            latest = item


def lanes_follow_commits(account: Account) -> Iterator[Anomaly]:
    """Ordered messages of a lane take effect in the order of their commits.

    A producer waits until the one before it has committed. So a transaction precedes each one that
    began to commit later, also if that one had begun before.
    """
    lanes: dict[str, list[Placed]] = defaultdict(list)
    for row in account.effects["task"]:
        operation, message = account.enqueued.get(row["number"], (None, {}))
        rows = account.messages.get(row["number"], [])
        # Only the effect of the run that was settled counts: an earlier run may have been lost.
        is_final = len(rows) == 1 and rows[0]["attempt"] == row["attempt"]
        if operation is None or message["lane"] is None or not is_final:
            continue
        numbers = [each["number"] for each in operation["messages"]]
        lanes[message["lane"]].append((operation, numbers.index(row["number"]), row))
    for lane, placed in lanes.items():
        for early, late in out_of_order(placed, lambda each: each.commits):
            a, b = early[2]["number"], late[2]["number"]
            words = f"{b} was committed before {a}, and ran after it in lane {lane}"
            yield Anomaly("lane order", words, _both(early, late), [early[2], late[2]])


def positions_follow_commits(account: Account) -> Iterator[Anomaly]:
    """Positions have no gaps, each event has one, and they follow the order of commits.

    Transactions that overlap get their positions in any order: no publisher waits for another.
    """
    published = {
        event["number"]: (each, index)
        for each in account.doing("publish")
        for index, event in enumerate(each["events"])
    }
    placed = []
    for expected, row in enumerate(account.events, start=1):
        if row["position"] != expected:
            words = f"position {expected} is missing, and {row['position']} follows"
            yield Anomaly("position", words, [], [row])
            break
    for row in account.events:
        if row["number"] in published:
            placed.append((*published[row["number"]], row))
    for early, late in out_of_order(placed, lambda each: each.began):
        words = (
            f"event {late[2]['number']} was committed before {early[2]['number']}, "
            "and has a later position"
        )
        yield Anomaly("position", words, _both(early, late), [early[2], late[2]])


def _both(one: Placed, other: Placed) -> list[Operation]:
    return [one[0]] if one[0] is other[0] else [one[0], other[0]]
