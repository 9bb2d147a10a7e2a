"""A history made by workers whose number, lives and slots are known exactly, moment by moment."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

LEASE = 5.0
"""Seconds after which a run of a killed worker counts as lost."""


@dataclass(frozen=True)
class Worker:
    """A worker: from when to when it claims, and how many messages it runs at once.

    Attributes:
        is_killed: its runs are lost at `until`; else they go on to their end.
        channels: the channels that it serves; None: all.
    """

    since: float
    until: float
    slots: int
    is_killed: bool = False
    channels: frozenset[int] | None = None


def forever(slots: int, *, channels: frozenset[int] | None = None) -> Worker:
    """Return a worker that is always there."""
    return Worker(0.0, 1e9, slots, channels=channels)


def killed_in_turn(slots: int, *, seconds: float, every: float, starts: float) -> list[Worker]:
    """Return two workers at a time, one of which is killed and replaced every so many seconds."""
    found, begun = [], [0.0, 0.0]
    for number in range(1, int(seconds // every) + 1):
        victim = number % 2
        found.append(Worker(begun[victim], number * every, slots, is_killed=True))
        begun[victim] = number * every + starts
    return [*found, *(Worker(each, 1e9, slots) for each in begun)]


def history(
    workers: Sequence[Worker],
    due: Sequence[float],
    service: Sequence[float],
    *,
    channel: Sequence[int] | None = None,
    gap: float = 0.0,
    batch: int = 1,
    jitter: float = 0.0,
    ahead: int = 0,
) -> pandas.DataFrame:
    """Return the attempts as `simulation.arrivals` selects them, all within the window.

    Args:
        gap: how long a slot rests after a run, in seconds.
        batch: how many messages a worker claims at a time.
        jitter: the times of a claim's runs are late by up to so many seconds, all by the same.
        ahead: how many messages that had not begun a killed worker loses, too.
    """
    channels = [0] * len(due) if channel is None else list(channel)
    chance = np.random.default_rng(7)
    waiting: dict[int, list[tuple[float, int]]] = {each: [] for each in set(channels)}
    for message, time in enumerate(due):
        heapq.heappush(waiting[channels[message]], (time, message))
    slots = [
        (worker.since, number, slot)
        for number, worker in enumerate(workers)
        for slot in range(worker.slots)
    ]
    heapq.heapify(slots)
    lost: dict[int, list[tuple[float, int]]] = {}
    dead: set[int] = set()
    rows: list[dict[str, Any]] = []
    claims: dict[int, tuple[int, int, float]] = {}
    while slots:
        free_at, number, slot = heapq.heappop(slots)
        worker = workers[number]
        served = [
            heap
            for name, heap in waiting.items()
            if heap and (worker.channels is None or name in worker.channels)
        ]
        if not served:
            continue
        # What is due first, of all that this worker serves.
        mine = min(served)
        time, message = heapq.heappop(mine)
        began = max(free_at, time)
        if began >= worker.until:
            heapq.heappush(mine, (time, message))
            continue
        ended = began + service[message]
        if worker.is_killed and ended > worker.until:
            at = worker.until + LEASE
            lost.setdefault(message, []).append((at, number))
            again = [(at, message)]
            if number not in dead:
                dead.add(number)
                while mine and mine[0][0] <= worker.until and len(again) <= ahead:
                    other = heapq.heappop(mine)[1]
                    lost.setdefault(other, []).append((at, number))
                    again.append((at, other))
            for each in again:
                heapq.heappush(mine, each)
            continue
        claim, left, late = claims.get(number, (0, 0, 0.0))
        if not left:
            claim, left, late = claim + 1, batch, float(chance.uniform(0, jitter))
        claims[number] = (claim, left - 1, late)
        rows.append(
            {
                "id": message,
                "due": time,
                "began": began + late,
                "ended": ended + late,
                "worker": str(number),
                "claim": number * 1_000_000 + claim,
                "is_last": True,
                "is_exact": True,
                "is_lost": False,
            }
        )
        heapq.heappush(slots, (ended + gap, number, slot))
    rows += _estimated(rows, lost, due)
    frame = pandas.DataFrame(rows)
    for name in ("due", "began", "ended"):
        frame[name] = (frame[name] * 1e6).round().astype("int64")
    frame["channel"] = frame["key"] = [channels[each] for each in frame["id"]]
    return frame.assign(priority=0, is_before=False, is_after=False, is_running=False)


def _estimated(
    rows: Sequence[dict[str, Any]], lost: dict[int, list[tuple[float, int]]], due: Sequence[float]
) -> list[dict[str, Any]]:
    """Return lost attempts as `attempts` estimates them."""
    last = {row["id"]: row for row in rows}
    found = []
    for message, ends in lost.items():
        row = last[message]
        run, wait = row["ended"] - row["began"], row["began"] - row["due"]
        before = due[message]
        for number, (end, worker) in enumerate(ends):
            began = max(before, end - run)
            first = before if number == 0 else max(before, began - wait)
            found.append(
                {
                    "id": message,
                    "due": first,
                    "began": began,
                    "ended": end,
                    "worker": str(worker),
                    "claim": -message,
                    "is_last": False,
                    "is_exact": False,
                    "is_lost": True,
                }
            )
            before = end
    return found
