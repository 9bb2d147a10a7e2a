"""Rules of durable tasks, flows and schedules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.proof.checker.account import Account, Row
from tests.proof.checker.anomaly import Anomaly

GAP = 0.01
"""Seconds: the rounding of a tick's time."""
SILENT = 30.0
"""Seconds at the end of the load within which a schedule has a tick, whatever happened before."""


def durable_steps_happen_once(account: Account) -> Iterator[Anomaly]:
    """Each atomic step of a durable task that succeeded happened once, in the order of the code."""
    steps: dict[int, list[Row]] = defaultdict(list)
    for name, rows in account.effects.items():
        if name.startswith("step "):
            for row in rows:
                steps[row["number"]].append(row)
    for number, (enqueue, message) in account.enqueued.items():
        rows = account.messages.get(number, [])
        if not message["steps"] or len(rows) != 1 or rows[0]["end"] != "succeeded":
            continue
        found = sorted(steps.get(number, []), key=lambda row: int(row["place"]))
        names = [row["what"].removeprefix("step ") for row in found]
        if names != message["steps"]:
            words = f"durable message {number} did the steps {names} for {message['steps']}"
            yield Anomaly("durable step", words, [enqueue, *account.runs.get(number, [])], found)


def flows_go_as_their_graphs_say(account: Account) -> Iterator[Anomaly]:
    """A member of a flow runs, and has its effect, after all its parents have succeeded.

    A promotion may lose the end of a parent behind which a member had begun.
    """
    for number, (enqueue, message) in account.enqueued.items():
        for parent in message["parents"]:
            # A conflict or a crash of the server may repeat an attempt: the first end counts.
            ends = [run for run in account.settled_runs(parent) if run.end == "ok"]
            last = min(ends, key=lambda run: run.ended, default=None)
            for run in account.runs.get(number, []):
                if last is None or account.may_lack_its_lease(run):
                    continue
                if run.began < last.ended:
                    words = f"member {number} began before its parent {parent} had ended"
                    yield Anomaly("flow", words, [enqueue, run, last])
        for effect in account.effects_of_tasks.get(number, []):
            for parent in message["parents"]:
                [row, *_] = account.messages.get(parent, [{"attempt": None}])
                settled = [
                    each
                    for each in account.effects_of_tasks.get(parent, [])
                    if each["attempt"] == row["attempt"]
                ]
                if not settled or settled[0]["place"] > effect["place"]:
                    words = f"member {number} ran before its parent {parent} had ended"
                    yield Anomaly("flow", words, [enqueue], [effect, *settled])


def each_tick_happens_once(account: Account) -> Iterator[Anomaly]:
    """A schedule has one message for each tick, none is missing between two, and it goes on."""
    schedules: dict[str, list[Row]] = defaultdict(list)
    for row in account.rows("ticks"):
        schedules[row["schedule"]].append(row)
    for name, rows in schedules.items():
        rows.sort(key=lambda row: float(row["tick"]))
        for one, next_one in pairwise(rows):
            apart = next_one["tick"] - one["tick"]
            if apart < GAP:
                words = f"the tick {one['tick']} of {name} has two messages"
                yield Anomaly("tick", words, [], [one, next_one])
            elif apart > one["every"] + GAP:
                words = f"{name} has no message for the tick after {one['tick']}"
                yield Anomaly("tick", words, [], [one, next_one])
    for name, since in account.participants("schedules").items():
        for stop in account.doing("stop"):
            last = max((row["tick"] for row in schedules[name]), default=since["db"])
            if last < stop["db"] - SILENT:
                words = f"{name} has no message for a tick after {last}"
                yield Anomaly("tick", words, [since, stop], schedules[name][-1:])
