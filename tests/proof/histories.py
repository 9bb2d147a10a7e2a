"""Histories for the checker: for each anomaly one that shows it, and one near it that is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import inf
from typing import Any

from tests.proof.checker.account import Operation

_ids = count()


def op(do: str, began: float, ended: float = inf, end: str = "ok", **value: Any) -> Operation:
    """Return an operation with a name of its own."""
    end = "unknown" if ended == inf else end
    return Operation(f"p:{next(_ids)}", do, began, ended, end, value)


def message(number: int, **changes: Any) -> dict[str, Any]:
    """Return a message as a producer logs it."""
    usual = {"once": False, "ends": "succeeded", "lane": None, "limits": [], "steps": []}
    return {"number": number, "parents": [], **usual, **changes}


def enqueue(
    at: float,
    *numbers: int,
    end: str = "ok",
    lasts: float = 0.5,
    commits: float = 0,
    **of: Any,
) -> Operation:
    """Return a transaction that enqueues messages."""
    until = inf if end == "unknown" else at + lasts
    known = {"commits": commits} if commits else {}
    messages = [message(each, **of) for each in numbers]
    return op("enqueue", at, until, end, messages=messages, **known)


def row(number: int, **changes: Any) -> dict[str, Any]:
    """Return a message of the dump."""
    usual = {"end": "succeeded", "attempt": 1, "failures": 0, "lost": 0, "claimed_at": None}
    return {"number": number, **usual, **changes}


def run(number: int, began: float, ended: float = inf, end: str = "ok", attempt: int = 1) -> Any:
    """Return a run of a message."""
    return op("run", began, ended, end, number=number, attempt=attempt)


def effect(place: int, number: int, what: str = "task", **changes: Any) -> dict[str, Any]:
    """Return an effect of the dump."""
    return {"place": place, "what": what, "number": number, "attempt": 1, **changes}


def publish(at: float, *numbers: int, end: str = "ok", lasts: float = 0.5, **of: Any) -> Operation:
    """Return a transaction that publishes events of one key."""
    until = inf if end == "unknown" else at + lasts
    events = [{"number": each, "topic": "t", "key": "k"} for each in numbers]
    return op("publish", at, until, end, events=events, **of)


def event(position: int, number: int) -> dict[str, Any]:
    """Return an event of the dump."""
    return {"position": position, "number": number, "topic": "t", "key": "k"}


def handled(place: int, position: int, *, once: bool = True, of: str = "h") -> dict[str, Any]:
    """Return the effect of a group's handler."""
    return effect(place, position, f"group {of}", position=position, key="k", once=once)


def tick(at: float) -> dict[str, Any]:
    """Return a tick's message of the dump."""
    return {"schedule": "s", "tick": at, "every": 1.0}


def looks(at: float, *, after: int) -> Operation:
    """Return a read that finds nothing after a position."""
    return op("read", at, at + 1, after=after, found=[], limit=10)


def limit(name: str, running: int = 0, rate: float = 0, burst: int = 0) -> Operation:
    """Return the declaration of a limit."""
    return op("limit", 0, 0, name=name, running=running, rate=rate, burst=burst)


LIMITED: dict[str, Any] = {"limits": ["l"]}
LANE: dict[str, Any] = {"lane": "a", "once": True}
ONCE: dict[str, Any] = {"once": True}
STEPS: dict[str, Any] = {"steps": ["one", "two"]}
CHILD = op("enqueue", 0, 1, messages=[message(1), message(2, parents=[1])])
NEARBY = op("fault", 2, 6, crashes=False, db_began=2.0, db=6.0)
CRASH = op("fault", 5, 6, crashes=True, db_began=5.0, db=6.0)
TAKE_PART = op("participants", 0, 0, groups=["h"])
TAKE_PART_TICKING = op("participants", 0, 0, schedules=["s"], db=1000.0)
STOP = op("stop", 100, 100, db=1100.0)
SAME_LANE = enqueue(0, 1, 2, **LANE)
PROMOTION = op("promotion", 4, 8, kept_until=5.0, killed=6.0)
PROMOTED = op("fault", 3, 12, crashes=True, db_began=3.0, db=12.0)

Case = tuple[str, Sequence[Operation], Mapping[str, Sequence[Mapping[str, Any]]]]


def case(rule: str, *operations: Operation, **dump: Sequence[Mapping[str, Any]]) -> Case:
    """Return a history, and the rule that it violates."""
    return rule, operations, dump


def rated(*at: float) -> dict[str, Any]:
    """Return messages that were claimed at these times."""
    return {
        "messages": [row(number, claimed_at=each) for number, each in enumerate(at)],
        "effects": [effect(number, number) for number in range(len(at))],
    }


WRONG = {
    "a committed message is gone": case("lost", enqueue(0, 1)),
    "a committed message is dead": case(
        "lost", enqueue(0, 1), messages=[row(1, end="dead")]),
    "a message is there twice": case(
        "lost", enqueue(0, 1), messages=[row(1), row(1)], effects=[effect(1, 1)]),
    "a rolled back message exists": case(
        "rolled back", enqueue(0, 1, end="fail"), messages=[row(1)], effects=[effect(1, 1)]),
    "a rolled back message had an effect": case(
        "rolled back", enqueue(0, 1, end="fail"), effects=[effect(1, 1)]),
    "nobody enqueued it": case("rolled back", messages=[row(1)], effects=[effect(1, 1)]),
    "half of a transaction": case(
        "half", enqueue(0, 1, 2, end="unknown"), messages=[row(1)], effects=[effect(1, 1)]),
    "an atomic task with two effects": case(
        "exactly once", enqueue(0, 1, **ONCE), messages=[row(1, attempt=2)],
        effects=[effect(1, 1), effect(2, 1, attempt=2)]),
    "an atomic task that failed with an effect": case(
        "exactly once", enqueue(0, 1, once=True, ends="dead"),
        messages=[row(1, end="dead")], effects=[effect(1, 1)]),
    "an atomic task without an effect": case(
        "exactly once", enqueue(0, 1, **ONCE), messages=[row(1)]),
    "a task without an effect": case("at least once", enqueue(0, 1), messages=[row(1)]),
    "two runs of one attempt": case(
        "doubled run", enqueue(0, 1), run(1, 1, 2), run(1, 1.5, 2),
        messages=[row(1)], effects=[effect(1, 1)]),
    "two runs of one attempt before a crash": case(
        "doubled run", enqueue(0, 1), run(1, 1, 2), run(1, 1.5, 2), CRASH,
        messages=[row(1)], effects=[effect(1, 1)]),
    "charged more often than it ran": case(
        "counters", enqueue(0, 1), run(1, 1, 2),
        messages=[row(1, failures=1)], effects=[effect(1, 1)]),
    "a failure without a failed run": case(
        "counters", enqueue(0, 1), run(1, 1, 2, attempt=2),
        messages=[row(1, failures=1, attempt=2)], effects=[effect(1, 1, attempt=2)]),
    "it ran again after a fault that came later": case(
        "repeated", enqueue(0, 1), CRASH, run(1, 1, 2), run(1, 7, 8, attempt=2),
        messages=[row(1, attempt=2)], effects=[effect(1, 1, attempt=2)]),
    "it ran again for no reason": case(
        "repeated", enqueue(0, 1), run(1, 1, 2), run(1, 3, 4, attempt=2),
        messages=[row(1, attempt=2)], effects=[effect(1, 1, attempt=2)]),
    "two attempts run beside each other for no reason": case(
        "repeated", enqueue(0, 1), run(1, 7, 20), run(1, 7, 21, attempt=2),
        messages=[row(1, attempt=2)], effects=[effect(1, 1, attempt=2)]),
    "it ran again long after a fault": case(
        "repeated", enqueue(0, 1), CRASH, run(1, 7, 20), run(1, 21, 22, attempt=2),
        messages=[row(1, attempt=2)], effects=[effect(1, 1, attempt=2)]),
    "a lane in the order of the begins, not of the commits": case(
        "lane order", enqueue(0, 1, lasts=3, commits=2, **LANE), enqueue(1, 2, **LANE),
        messages=[row(1), row(2)], effects=[effect(1, 1), effect(2, 2)]),
    "a lease that is left": case(
        "lease", enqueue(0, 1, ends="running"),
        messages=[row(1, end="running")], leases=[{"number": 1}]),
    "something that waits for ever": case("waiting", waiting=[{"what": "an event"}]),
    "two of one limit": case(
        "limit", limit("l", 1), enqueue(0, 1, 2, **LIMITED), run(1, 1, 3), run(2, 2, 4),
        messages=[row(1), row(2)], effects=[effect(1, 1), effect(2, 2)]),
    "two of one lane": case(
        "limit", enqueue(0, 1, **LANE), enqueue(0, 2, **LANE), run(1, 1, 3), run(2, 2, 4),
        messages=[row(1), row(2)], effects=[effect(1, 1), effect(2, 2)]),
    "a failed run beside another": case(
        "limit", limit("l", 1), enqueue(0, 1, 2, **LIMITED),
        run(1, 1, 3, "fail"), run(1, 6, 7, attempt=2), run(2, 2, 4),
        messages=[row(1, attempt=2, failures=1), row(2)],
        effects=[effect(1, 1, attempt=2), effect(2, 2)]),
    "faster than a rate": case(
        "rate", limit("l", rate=10, burst=2), enqueue(0, 0, 1, 2, **LIMITED), **rated(1, 1, 1.05)),
    "faster than a rate in the long run": case(
        "rate", limit("l", rate=10, burst=1), enqueue(0, *range(20), **LIMITED),
        **rated(*(n * 0.095 for n in range(20)))),
    "a lane in the wrong order": case(
        "lane order", enqueue(0, 1, **LANE), enqueue(1, 2, **LANE),
        messages=[row(1), row(2)], effects=[effect(1, 2), effect(2, 1)]),
    "a transaction in the wrong order": case(
        "lane order", SAME_LANE, messages=[row(1), row(2)], effects=[effect(1, 2), effect(2, 1)]),
    "a gap in the log": case("position", publish(0, 1, 2), events=[event(1, 1), event(3, 2)]),
    "the log in the wrong order": case(
        "position", publish(0, 1), publish(1, 2), events=[event(1, 2), event(2, 1)]),
    "a committed event is gone": case("event", publish(0, 1)),
    "a rolled back event exists": case("event", publish(0, 1, end="fail"), events=[event(1, 1)]),
    "half of a transaction of events": case(
        "event", publish(0, 1, 2, end="unknown"), events=[event(1, 1)]),
    "an event is there twice": case("event", publish(0, 1), events=[event(1, 1), event(2, 1)]),
    "nobody published it": case("event", events=[event(1, 1)]),
    "a reader skips an event": case(
        "reader", publish(0, 1, 2, 3), op("read", 1, 2, after=0, found=[[1, 1], [3, 3]]),
        events=[event(1, 1), event(2, 2), event(3, 3)]),
    "a reader skips the first event": case(
        "reader", publish(0, 1, 2), op("read", 1, 2, after=0, found=[[2, 2]]),
        events=[event(1, 1), event(2, 2)]),
    "a reader sees another event": case(
        "reader", publish(0, 1), publish(0, 2), op("read", 1, 2, after=0, found=[[1, 2]]),
        events=[event(1, 1), event(2, 2)]),
    "a group handles an event twice": case(
        "group", publish(0, 1), events=[event(1, 1)], effects=[handled(1, 1), handled(2, 1)]),
    "a group skips an event": case(
        "group", publish(0, 1, 2), events=[event(1, 1), event(2, 2)], effects=[handled(1, 2)]),
    "a group handles in the wrong order": case(
        "group", publish(0, 1, 2), events=[event(1, 1), event(2, 2)],
        effects=[handled(1, 2), handled(2, 1)]),
    "a condition passes though it is not met": case(
        "condition", publish(0, 1), publish(0, 2, expect=0), events=[event(1, 1), event(2, 2)]),
    "a condition refuses though it is met": case(
        "condition", publish(0, 1), publish(1, 2, expect=1, end="fail", why="conflict"),
        events=[event(1, 1)]),
    "a condition refuses for an event that came later": case(
        "condition", publish(2, 1), publish(0, 2, expect=0, end="fail", why="conflict"),
        events=[event(1, 1)]),
    "a step happens twice": case(
        "durable step", enqueue(0, 1, **STEPS), messages=[row(1)],
        effects=[effect(1, 1, "step one"), effect(2, 1, "step one"), effect(3, 1, "step two"),
                 effect(4, 1)]),
    "a step is left out": case(
        "durable step", enqueue(0, 1, **STEPS), messages=[row(1)],
        effects=[effect(1, 1, "step one"), effect(4, 1)]),
    "a child runs before its parent": case(
        "flow", CHILD, messages=[row(1), row(2)], effects=[effect(2, 1), effect(1, 2)]),
    "a child runs before the parent's last run": case(
        "flow", CHILD, messages=[row(1, attempt=2), row(2)],
        effects=[effect(1, 1), effect(2, 2), effect(3, 1, attempt=2)]),
    "a child begins while its parent runs": case(
        "flow", CHILD, run(1, 2, 4), run(2, 3, 5), messages=[row(1), row(2)],
        effects=[effect(1, 1), effect(2, 2)]),
    "a promotion loses a message that was acknowledged before": case(
        "lost", PROMOTION, enqueue(4, 1, lasts=0.9)),
    "a message is lost that the new primary acknowledged": case("lost", PROMOTION, enqueue(6.5, 1)),
    "a promotion leaves half of a transaction": case(
        "half", PROMOTION, enqueue(5.2, 1, 2), messages=[row(1)], effects=[effect(1, 1)]),
    "a promotion leaves half of a transaction of events": case(
        "event", PROMOTION, publish(5.2, 1, 2), events=[event(1, 1)]),
    "a promotion doubles the effect of an atomic task": case(
        "exactly once", PROMOTION, PROMOTED, enqueue(5.2, 1, **ONCE), messages=[row(1, attempt=2)],
        effects=[effect(1, 1), effect(2, 1, attempt=2)]),
    "a promotion loses an event that was acknowledged before": case(
        "event", PROMOTION, publish(4, 1, lasts=0.9)),
    "a promotion leaves a gap in the log": case(
        "position", PROMOTION, publish(4, 1), publish(5.2, 2), publish(7, 3),
        events=[event(1, 1), event(3, 3)]),
    "a condition refuses though it is met, after a promotion": case(
        "condition", PROMOTION, publish(4, 1), publish(9, 2, expect=1, end="fail", why="conflict"),
        events=[event(1, 1)]),
    "a reader sees an event that is gone after the promotion": case(
        "reader", PROMOTION, publish(5.2, 1), publish(7, 2),
        op("read", 6.5, 6.8, after=0, found=[[1, 1]]), events=[event(1, 2)]),
    "a reader skips an event before a promotion": case(
        "reader", PROMOTION, publish(4, 1), publish(4, 2),
        op("read", 5, 5.5, after=0, found=[[2, 2]]),
        events=[event(1, 1), event(2, 2)]),
    "two of one limit long after a promotion": case(
        "limit", PROMOTION, PROMOTED, limit("l", 1), enqueue(0, 1, 2, **LIMITED),
        run(1, 15, 17), run(2, 16, 18),
        messages=[row(1), row(2)], effects=[effect(1, 1), effect(2, 2)]),
    "a group reads nothing": case(
        "group", TAKE_PART, publish(0, 1), events=[event(1, 1)], effects=[handled(1, 1, of="g")]),
    "a schedule never fires": case("tick", TAKE_PART_TICKING, STOP),
    "a schedule stops firing": case(
        "tick", TAKE_PART_TICKING, STOP, ticks=[tick(1000), tick(1001), tick(1002)]),
    "a reader sees nothing of the log": case(
        "blind", publish(0, 1), looks(50, after=0), events=[event(1, 1)]),
    "a reader sees nothing behind a position, though faults were shorter": case(
        "blind", publish(0, 1), publish(0, 2), op("fault", 5, 25), looks(50, after=1),
        events=[event(1, 1), event(2, 2)]),
    "nobody reads the log": case(
        "blind", op("participants", 0, 0, observers=["observer"]), publish(0, 1), STOP,
        op("read", 1, 2, "fail", after=0, limit=10), events=[event(1, 1)]),
    "an earlier attempt overtakes in its lane": case(
        "lane order", enqueue(0, 1, **LANE), enqueue(1, 2, **LANE), run(1, 3, 4),
        run(2, 2, 2.5, "fail"), run(2, 5, 6, attempt=2),
        messages=[row(1), row(2, attempt=2, failures=1)],
        effects=[effect(1, 1), effect(2, 2, attempt=2)]),
    "an earlier attempt overtakes in its transaction": case(
        "lane order", enqueue(0, 1, 2, **LANE), run(1, 3, 4),
        run(2, 2, 2.5, "fail"), run(2, 5, 6, attempt=2),
        messages=[row(1), row(2, attempt=2, failures=1)],
        effects=[effect(1, 1), effect(2, 2, attempt=2)]),
    "only an earlier attempt has its effect": case(
        "at least once", enqueue(0, 1), run(1, 1, 2, "fail"), run(1, 3, 4, attempt=2),
        messages=[row(1, attempt=2, failures=1)], effects=[effect(1, 1)]),
    "it ran a third time for no reason": case(
        "repeated", enqueue(0, 1), CRASH, run(1, 4, 4.5), run(1, 7, 10, attempt=2),
        run(1, 30, 31, attempt=3), messages=[row(1, attempt=3)],
        effects=[effect(1, 1), effect(2, 1, attempt=3)]),
    "a tick has two messages": case("tick", ticks=[tick(1), tick(1), tick(2)]),
    "a tick has no message": case("tick", ticks=[tick(1), tick(3)]),
}  # fmt: skip

RIGHT = {
    "a committed message succeeded": case(
        "lost", enqueue(0, 1), messages=[row(1)], effects=[effect(1, 1)]),
    "an unknown transaction is not there": case("half", enqueue(0, 1, 2, end="unknown")),
    "an unknown transaction is there": case(
        "half", enqueue(0, 1, 2, end="unknown"), messages=[row(1), row(2)],
        effects=[effect(1, 1), effect(2, 2)]),
    "a rolled back message is not there": case("rolled back", enqueue(0, 1, end="fail")),
    "a task that is not atomic with two effects": case(
        "exactly once", enqueue(0, 1), messages=[row(1, attempt=2, lost=1)],
        effects=[effect(1, 1), effect(2, 1, attempt=2)]),
    "a message that was to die is dead": case(
        "lost", enqueue(0, 1, once=True, ends="dead"), run(1, 1, 2, "fail"),
        messages=[row(1, end="dead", failures=1)]),
    "a claim that a crash lost": case(
        "doubled run", enqueue(0, 1), run(1, 4), run(1, 7, 8), CRASH,
        messages=[row(1)], effects=[effect(1, 1)]),
    "a run is repeated after a conflict": case(
        "doubled run", enqueue(0, 1), CRASH, run(1, 1, 2, "fail"), run(1, 3, 4),
        messages=[row(1)], effects=[effect(1, 1)]),
    "it ran again since a crash lost its success": case(
        "repeated", enqueue(0, 1), CRASH, run(1, 4, 4.5), run(1, 7, 8, attempt=2),
        messages=[row(1, attempt=2)], effects=[effect(1, 1, attempt=2)]),
    "a failure was charged": case(
        "counters", enqueue(0, 1), run(1, 1, 2, "fail"), run(1, 3, 4, attempt=2),
        messages=[row(1, failures=1, attempt=2)], effects=[effect(1, 1, attempt=2)]),
    "a zombie goes on beside the run that has its lease": case(
        "repeated", enqueue(0, 1), CRASH, run(1, 7, 20), run(1, 7, 21, attempt=2),
        messages=[row(1, attempt=2)], effects=[effect(1, 1, attempt=2)]),
    "a failure of a fault was charged": case(
        "counters",
        *(enqueue(0, 1), CRASH, run(1, 4, 7), run(1, 8, 9, attempt=2)),
        messages=[row(1, failures=1, attempt=2)],
        effects=[effect(1, 1, attempt=2)],
    ),
    "two of one limit, one after the other": case(
        "limit", limit("l", 1), enqueue(0, 1, 2, **LIMITED), run(1, 1, 2), run(2, 2, 3),
        messages=[row(1), row(2)], effects=[effect(1, 1), effect(2, 2)]),
    "a run that had lost its lease goes on": case(
        "limit", limit("l", 1), CRASH, enqueue(0, 1, 2, **LIMITED),
        run(1, 1, 9), run(1, 5, 6, attempt=2), run(2, 3, 4),
        messages=[row(1, attempt=2, lost=1), row(2)],
        effects=[effect(1, 1, attempt=2), effect(2, 2)]),
    "as fast as a rate": case(
        "rate", limit("l", rate=10, burst=2), enqueue(0, 0, 1, 2, **LIMITED), **rated(1, 1, 1.1)),
    "two of one rate, at once": case(
        "rate",
        *(limit("l", rate=10, burst=2), enqueue(0, 1, 2, **LIMITED), run(1, 1, 3), run(2, 2, 4)),
        messages=[row(1), row(2)],
        effects=[effect(1, 1), effect(2, 2)],
    ),
    "a rate after a crash": case(
        "rate", CRASH, limit("l", rate=10, burst=2), enqueue(0, 0, 1, 2, 3, **LIMITED),
        **rated(4.9, 4.9, 6, 6)),
    "a lane in the order of commits": case(
        "lane order", enqueue(0, 1, **LANE), enqueue(1, 2, **LANE),
        messages=[row(1), row(2)], effects=[effect(1, 1), effect(2, 2)]),
    "transactions at once, in any order": case(
        "lane order", enqueue(0, 1, lasts=2, **LANE), enqueue(1, 2, **LANE),
        messages=[row(1), row(2)], effects=[effect(2, 1), effect(1, 2)]),
    "an unknown transaction, in any order": case(
        "lane order", enqueue(0, 1, end="unknown", **LANE), enqueue(1, 2, **LANE),
        messages=[row(1), row(2)], effects=[effect(2, 1), effect(1, 2)]),
    "the log in the order of commits": case(
        "position", publish(0, 1), publish(1, 2), events=[event(1, 1), event(2, 2)]),
    "the log with transactions at once": case(
        "position", publish(0, 1, lasts=2), publish(1, 2), events=[event(1, 2), event(2, 1)]),
    "an unknown event is not there": case("event", publish(0, 1, end="unknown")),
    "a read from the middle": case(
        "reader", publish(0, 1, 2), op("read", 1, 2, after=1, found=[[2, 2]]),
        events=[event(1, 1), event(2, 2)]),
    "a read that failed": case("reader", op("read", 1, 2, "fail", after=1)),
    "a lane in the order of the commits, not of the begins": case(
        "lane order", enqueue(0, 1, lasts=3, commits=2, **LANE), enqueue(1, 2, **LANE),
        messages=[row(1), row(2)], effects=[effect(1, 2), effect(2, 1)]),
    "a group that is not atomic repeats an event": case(
        "group", publish(0, 1, 2), events=[event(1, 1), event(2, 2)],
        effects=[handled(1, 1, once=False), handled(2, 2, once=False), handled(3, 1, once=False)]),
    "a condition is met": case(
        "condition", publish(0, 1), publish(1, 2, expect=1), events=[event(1, 1), event(2, 2)]),
    "a condition is not met": case(
        "condition", publish(0, 1), publish(0, 2, expect=0, end="fail", why="conflict"),
        events=[event(1, 1)]),
    "steps happen once": case(
        "durable step", enqueue(0, 1, **STEPS), messages=[row(1)],
        effects=[effect(1, 1, "step one"), effect(3, 1, "step two"), effect(4, 1)]),
    "a child runs after its parent": case(
        "flow", CHILD, messages=[row(1), row(2)], effects=[effect(1, 1), effect(2, 2)]),
    "a child begins after a lost run of its parent has gone on": case(
        "flow", CHILD, run(1, 2, 9), run(1, 4, 5, attempt=2), run(2, 6, 7), NEARBY,
        messages=[row(1, attempt=2, lost=1), row(2)],
        effects=[effect(1, 1, attempt=2), effect(2, 2)]),
    "a promotion loses a message": case("lost", PROMOTION, enqueue(5.2, 1, 2)),
    "a promotion keeps a message": case(
        "half", PROMOTION, enqueue(5.2, 1, 2), messages=[row(1), row(2)],
        effects=[effect(1, 1), effect(2, 2)]),
    "a promotion loses an event that a reader has seen": case(
        "reader", PROMOTION, publish(5.2, 1), publish(7, 2),
        op("read", 5.8, 5.9, after=0, found=[[1, 1]]), op("read", 7.6, 7.7, after=1, found=[]),
        events=[event(1, 2)]),
    "a promotion loses the event for which an append was refused": case(
        "condition", PROMOTION, publish(5.1, 1, lasts=0.1),
        publish(5.3, 2, expect=0, end="fail", why="conflict")),
    "a promotion loses the event that an append expects": case(
        "condition", PROMOTION, publish(4, 1), publish(9, 2, expect=7, end="fail", why="conflict"),
        events=[event(1, 1)]),
    "a promotion loses a claim, whose run goes on beside another of its limit": case(
        "limit", PROMOTION, PROMOTED, limit("l", 1), enqueue(0, 1, 2, **LIMITED),
        run(1, 5.5, 9), run(2, 8, 8.5), run(1, 10, 11),
        messages=[row(1), row(2)], effects=[effect(1, 1), effect(2, 2)]),
    "a promotion loses a success": case(
        "repeated", PROMOTION, PROMOTED, enqueue(0, 1, **ONCE), run(1, 1, 5.5),
        run(1, 9, 9.5, attempt=2), messages=[row(1, attempt=2, lost=1)],
        effects=[effect(1, 1, attempt=2)]),
    "a promotion loses the end of a parent whose child had begun": case(
        "flow", CHILD, PROMOTION, PROMOTED, run(1, 3, 5.2), run(2, 5.5, 5.8),
        run(1, 15, 15.5, attempt=2), run(2, 16, 17),
        messages=[row(1, attempt=2, lost=1), row(2)],
        effects=[effect(1, 1, attempt=2), effect(2, 2)]),
    "a group that takes part reads": case(
        "group", TAKE_PART, publish(0, 1), events=[event(1, 1)], effects=[handled(1, 1)]),
    "a schedule fires to the end": case(
        "tick", TAKE_PART_TICKING, STOP, ticks=[tick(1080 + each) for each in range(10)]),
    "a schedule has not fired yet": case(
        "tick", TAKE_PART_TICKING, op("stop", 20, 20, db=1020.0)),
    "a reader sees nothing of a young event": case(
        "blind", publish(0, 1), looks(15, after=0), events=[event(1, 1)]),
    "a reader sees nothing amid a fault": case(
        "blind", publish(0, 1), op("fault", 5, 48), looks(50, after=0), events=[event(1, 1)]),
    "a reader is at the end of the log": case(
        "blind", publish(0, 1), looks(50, after=1), events=[event(1, 1)]),
    "a lane goes on as its first message has ended": case(
        "lane order", enqueue(0, 1, **LANE), enqueue(1, 2, **LANE), run(1, 1, 2, "fail"),
        run(1, 3, 4, attempt=2), run(2, 5, 6, "fail"), run(2, 7, 8, attempt=2),
        messages=[row(1, attempt=2, failures=1), row(2, attempt=2, failures=1)],
        effects=[effect(1, 1, attempt=2), effect(2, 2, attempt=2)]),
    "a lane goes on, and the end of its first message is lost": case(
        "lane order", PROMOTION, PROMOTED, enqueue(0, 1, **LANE), enqueue(1, 2, **LANE),
        run(1, 2, 5.2), run(2, 5.4, 5.6), run(1, 9, 9.5, attempt=2), run(2, 10, 11, attempt=2),
        messages=[row(1, attempt=2), row(2, attempt=2)],
        effects=[effect(1, 1, attempt=2), effect(2, 2, attempt=2)]),
    "each tick has one message": case("tick", ticks=[tick(1), tick(2), tick(3)]),
}  # fmt: skip
