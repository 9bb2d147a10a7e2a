"""Rules of order: lanes and the log follow the order of commits."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

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


def no_run_overtakes_in_a_lane(account: Account) -> Iterator[Anomaly]:
    """No run of a lane begins before the messages that were committed earlier have ended.

    Each attempt counts, also one that failed or was lost. A promotion may lose the claim of a run.
    """
    lanes: dict[str, list[Ordered]] = defaultdict(list)
    for number, (operation, message) in account.enqueued.items():
        if message["lane"] is not None:
            runs = account.runs.get(number, [])
            ends = [run for run in runs if run.end == "ok"]
            end = min(ends, key=lambda run: run.ended, default=None)
            lanes[message["lane"]].append(Ordered(operation, runs, end))
    for lane, messages in lanes.items():
        for earlier, end, run in overtaking(messages):
            if not account.may_lack_its_lease(run):
                words = f"{run['number']} ran in lane {lane} before {end['number']} had ended"
                yield Anomaly("lane order", words, [earlier, end, run])


@dataclass(frozen=True)
class Ordered:
    """A message of a lane: its transaction, its runs, and the first one that succeeded."""

    operation: Operation
    runs: Sequence[Operation]
    end: Operation | None


def overtaking(messages: Iterable[Ordered]) -> Iterator[tuple[Operation, Operation, Operation]]:
    """Return a transaction, the end of its message, and a run of a later message before this end.

    Args:
        messages: the messages of one lane; the messages of one transaction stand in their order.
    """
    messages = list(messages)
    ended = [each for each in messages if each.operation.end == "ok" and each.end]
    ended.sort(key=lambda each: each.operation.ended)
    commits = [each.operation.ended for each in ended]
    # The one that ends last, of the messages up to each of them.
    last = list(accumulate(ended, _later))
    before: dict[str, Ordered] = {}
    for each in messages:
        index = bisect_left(commits, each.operation.commits)
        earlier = [*last[:index][-1:], *filter(None, [before.get(each.operation.id)])]
        for one in earlier:
            for run in each.runs:
                if one.end and run.began < one.end.ended:
                    yield one.operation, one.end, run
        if each.end:
            same = before.get(each.operation.id, each)
            before[each.operation.id] = _later(same, each)


def _later(one: Ordered, other: Ordered) -> Ordered:
    return max(one, other, key=lambda each: each.end.ended if each.end else 0.0)


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
