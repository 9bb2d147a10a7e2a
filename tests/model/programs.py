"""Random programs for durable runs: what they do, what they come to, what they need from others.

A program is a list of operations. `follow` does it as a durable task; `Evaluation` says without
any run what it returns, which effects it leaves, and which signals and events it waits for.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from django.db import connection

from pgqueue import Discard, task
from pgqueue.durable import DurableContext
from pgqueue.exceptions import StepFailed

TABLES = """
CREATE TABLE IF NOT EXISTS model_effect (place text NOT NULL, token uuid NOT NULL);
CREATE TABLE IF NOT EXISTS model_seen (
    place text NOT NULL, token uuid NOT NULL, PRIMARY KEY (place, token));
"""
PATIENT: dict[str, Any] = {"max_attempts": 100_000, "backoff": [0.02]}
PRIME = 1_000_003

NAP = float(os.environ.get("MODEL_NAP", 0))
"""Seconds that steps take at most: long enough for a worker to be stopped amid one."""

Operation = dict[str, Any]
Program = list[Operation]

SIMPLE = ["step", "step", "atomic", "atomic", "block", "value", "bad", "sleep"]
WAITING = ["signal", "signal", "event", "any", "never", "gather", "enqueue", "loop", "crash"]


class Unlucky(Exception):
    """A step fails by chance, or always."""


# --- What a program is


def program(chance: random.Random, *, length: int, depth: int = 0) -> Program:
    """Return a random program."""
    made = [_operation(chance, depth) for _ in range(chance.randint(1, length))]
    if depth == 0 and chance.random() < 0.3:
        made.insert(chance.randint(0, len(made)), {"do": "continue"})
    return made


def _operation(chance: random.Random, depth: int) -> Operation:
    do = chance.choice(SIMPLE if depth > 1 else SIMPLE + WAITING)
    operation: Operation = {"do": do, "n": chance.randint(1, 999)}
    if do in ("step", "atomic", "block"):
        operation["luck"] = chance.choice([1, 1, 1, 0.5])
    elif do == "sleep":
        operation["seconds"] = chance.choice([0, 0.05, 0.3, 1])
    elif do == "signal":
        operation["payloads"] = [chance.randint(1, 999) for _ in range(chance.randint(1, 3))]
    elif do == "any":
        operation["payloads"] = {"left": chance.randint(1, 999), "right": chance.randint(1, 999)}
    elif do == "loop":
        operation["times"] = chance.randint(0, 4)
        operation["body"] = [_operation(chance, 2) for _ in range(chance.randint(1, 3))]
    elif do == "gather":
        operation["children"] = [_child(chance, depth) for _ in range(chance.randint(1, 3))]
    return operation


def _child(chance: random.Random, depth: int) -> Operation:
    kind = chance.choice(["leaf", "discarded", "program"])
    if kind == "program":
        return {"program": program(chance, length=2, depth=depth + 1)}
    return {kind: chance.randint(1, 999)}


def mixed(total: int, value: int) -> int:
    """Return a total that tells in which order values were added."""
    return (total * 31 + value) % PRIME


# --- What a program comes to


@dataclass
class Evaluation:
    """What a program returns, leaves and needs, from looking at it.

    Attributes:
        effects: by place, whether they are of an atomic step: then there is one.
        signals: the message's place, the signal's name and payload, in their order.
        events: the keys of the events.
        waits: how often a run ends and goes on, at most, if nothing fails.
    """

    effects: dict[str, bool] = field(default_factory=dict)
    signals: list[tuple[str, str, int]] = field(default_factory=list)
    events: list[tuple[str, int]] = field(default_factory=list)
    waits: dict[str, int] = field(default_factory=dict)

    def of(self, operations: Program, place: str) -> int:
        """Evaluate a program whose message has this place; return its result."""
        self.waits[place] = 0
        total = 0
        for number, operation in enumerate(operations):
            total = self._after(operation, total, place, f"{place}/{number}")
        return total

    def _after(self, operation: Operation, total: int, message: str, place: str) -> int:  # noqa: C901
        do, n = operation["do"], operation.get("n", 0)
        if do in ("step", "atomic", "block"):
            self.effects[place] = do != "step"
        elif do == "bad":
            self.effects[f"{place}!"] = True
            self.waits[message] += 1
            n = -n
        elif do in ("sleep", "never", "crash", "continue"):
            self.waits[message] += 1
            if do == "continue":
                return total
        elif do == "signal":
            for payload in operation["payloads"]:
                self.signals.append((message, place, payload))
                self.waits[message] += 1
                total = mixed(total, payload)
            return total
        elif do == "any":
            for name, payload in operation["payloads"].items():
                self.signals.append((message, f"{place} {name}", payload))
                self.waits[message] += 1
            n = sum(operation["payloads"].values())
        elif do == "event":
            self.events.append((place, n))
            self.waits[message] += 1
        elif do == "enqueue":
            self.effects[f"{place}+"] = True
        elif do == "loop":
            for time in range(operation["times"]):
                for number, each in enumerate(operation["body"]):
                    total = self._after(each, total, message, f"{place}.{time}.{number}")
            return total
        elif do == "gather":
            self.waits[message] += 1
            for number, child in enumerate(operation["children"]):
                total = mixed(total, self._of_child(child, f"{place}:{number}"))
            return total
        return mixed(total, n)

    def _of_child(self, child: Operation, place: str) -> int:
        if "program" in child:
            return self.of(child["program"], place)
        if "discarded" in child:
            return -1
        self.effects[place] = True
        return int(child["leaf"])


# --- What a program does

crashed: set[str] = set()
"""Where this process has failed on purpose."""


@task(durable=True, **PATIENT)
def follow(
    run: DurableContext, operations: Program, place: str, start: int = 0, total: int = 0
) -> int:
    """Do a program from an operation on; return its total."""
    for number in range(start, len(operations)):
        operation = operations[number]
        if operation["do"] == "continue":
            run.continue_as(operations, place, number + 1, total)
        total = _done(run, operation, total, f"{place}/{number}")
    return total


def _done(run: DurableContext, operation: Operation, total: int, place: str) -> int:  # noqa: C901
    do, n = operation["do"], operation.get("n", 0)
    if do in ("step", "atomic"):
        luck, is_atomic = operation["luck"], do == "atomic"
        n, token = run.step(
            _leave, place, n, luck, atomic=is_atomic, retries=10_000, backoff=[0.02]
        )
        see(place, token)
    elif do == "block":
        with run.atomic("block") as block:
            block.result = _leave(place, n, operation["luck"])
        n, token = block.result
        see(place, token)
    elif do == "bad":
        n = -_compensated(run, place, n)
    elif do == "sleep":
        run.sleep(operation["seconds"])
    elif do == "never":
        if run.wait_for("never", timeout=0.1) is not None:
            n = 0
    elif do == "crash":
        if place not in crashed:
            crashed.add(place)
            raise Unlucky
    elif do == "value":
        made = run.random()
        if run.step(_same, made) != made:
            n = 0
    elif do == "signal":
        for _ in operation["payloads"]:
            total = mixed(total, run.wait_for(place, int, timeout=3600) or 0)
        return total
    elif do == "any":
        names = [f"{place} {name}" for name in operation["payloads"]]
        n = sum(signal.payload for _ in names if (signal := run.wait_for_any(names)))
    elif do == "event":
        event = run.wait_for_event("model", key=place, where={"n__gte": 1})
        n = event.payload["n"] if event else 0
    elif do == "enqueue":
        run.enqueue(leaf, f"{place}+", n)
    elif do == "loop":
        for time in range(operation["times"]):
            for number, each in enumerate(operation["body"]):
                total = _done(run, each, total, f"{place}.{time}.{number}")
        return total
    elif do == "gather":
        for value in run.gather(list(_calls(run, operation, place)), on_failure="return"):
            total = mixed(total, value if isinstance(value, int) else -1)
        return total
    return mixed(total, n)


def _calls(run: DurableContext, operation: Operation, place: str) -> Iterator[Any]:
    for number, child in enumerate(operation["children"]):
        own = f"{place}:{number}"
        if "program" in child:
            yield run.call(follow, child["program"], own)
        elif "leaf" in child:
            yield run.call(leaf, own, child["leaf"])
        else:
            yield run.call(discarded)


def _leave(place: str, n: int, luck: float = 1) -> tuple[int, str]:
    """Leave an effect, and return a token that no other call of this function returns."""
    token = str(uuid4())
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO model_effect VALUES (%s, %s)", [place, token])
    time.sleep(random.uniform(0, NAP))
    if random.random() > luck:
        raise Unlucky
    return n, token


def see(place: str, token: str) -> None:
    """Note which token a run got."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO model_seen VALUES (%s, %s) ON CONFLICT DO NOTHING", [place, token]
        )


def _same(value: float) -> float:
    return value


def _always_fails() -> None:
    raise Unlucky("always")


def _compensated(run: DurableContext, place: str, n: int) -> int:
    try:
        run.step(_always_fails, retries=1, backoff=[0.01])
    except StepFailed as error:
        if (error.tries, error.text) != (2, "always"):
            return 0
        n, token = run.step(_leave, f"{place}!", n, atomic=True, name="compensation")
        see(f"{place}!", token)
    return n


@task(atomic=True, **PATIENT)
def leaf(place: str, n: int) -> int:
    _leave(place, n)
    return n


@task
def discarded() -> int:
    raise Discard("as the program says")
