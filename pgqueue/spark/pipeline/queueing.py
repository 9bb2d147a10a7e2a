"""A queue replayed: who would have waited how long, with other slots and limits.

Several servers take turns among channels, and within a channel among its keys; within a key,
higher priorities come first, then what is due first. So do pgqueue's workers, who claim some
messages ahead: of these, what is due first comes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
STEP, SLOT, CHANNEL, KEY = range(4)
"""What happens at a moment, beside arrivals; in this order."""


class Jobs(NamedTuple):
    """What came to a queue, in the order in which it was due; times in seconds.

    Attributes:
        due: when each was due.
        service: how long it ran.
        channel: its channel, a number from 0.
        key: its key within its channel, a number from 0 that no other channel has.
        priority: higher first.
        latency: how long it takes to begin although a slot is free.
    """

    due: Floats
    service: Floats
    channel: Ints
    key: Ints
    priority: Ints
    latency: Floats

    def __len__(self) -> int:
        return len(self.due)


class Limit(NamedTuple):
    """How many may run at once, and for how long a place stays taken after a run, in seconds."""

    running: int
    gap: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How a queue is served.

    Attributes:
        slots: when there are how many slots, from each time on.
        gap: how long a slot stays taken after a run, in seconds.
        channels: limits of channels.
        keys: limits of keys.
        takes_turns: whether channels and keys do; else what is due first comes first, except
            among what has limits.
    """

    slots: Sequence[tuple[float, int]]
    gap: float = 0.0
    channels: dict[int, Limit] = field(default_factory=dict)
    keys: dict[int, Limit] = field(default_factory=dict)
    takes_turns: bool = True


def replay(jobs: Jobs, rules: Rules) -> Floats:
    """Return when each job would have begun; NaN: never, since there were no slots."""
    is_plain = not (rules.takes_turns or rules.channels or rules.keys)
    if is_plain and (jobs.priority == jobs.priority[:1]).all():
        return _in_order(jobs, rules)
    return _by_turns(jobs, rules)


def _in_order(jobs: Jobs, rules: Rules) -> Floats:
    """Replay what begins in the order in which it is due: all that counts is the next free slot.

    It gives what `_by_turns` does, several times as fast (Kiefer and Wolfowitz: On the theory of
    queues with many servers, 1955).
    """
    steps = [
        (time, count - before)
        for (time, count), (_, before) in zip(
            rules.slots, [(0.0, 0), *rules.slots[:-1]], strict=True
        )
    ]
    steps.reverse()
    begun = np.full(len(jobs), np.nan)
    gap = rules.gap
    free: list[float] = []
    gone: list[float] = []
    for job, (due, service, latency) in enumerate(
        zip(jobs.due.tolist(), jobs.service.tolist(), jobs.latency.tolist(), strict=True)
    ):
        # The slots that change before it can begin.
        while steps and (not free or steps[-1][0] <= max(due, free[0])):
            time, change = steps.pop()
            # Fewer slots: the next that are free are no more. What runs there goes on, and if there
            # are more again by then, it is there that it runs.
            gone.extend(heappop(free) for _ in range(-change))
            gone = sorted(end for end in gone if end > time)
            for _ in range(change):
                heappush(free, gone.pop() if gone else time)
        if not free:
            break
        time = free[0]
        begin = due + latency if time <= due else time
        begun[job] = begin
        heapreplace(free, begin + service + gap)
    return begun


def _joined(jobs: Jobs, rules: Rules) -> tuple[Ints, Ints]:
    """Return channels and keys, with one (-1) for all that have no limit."""
    has_limit = np.isin(jobs.channel, list(rules.channels)) | np.isin(jobs.key, list(rules.keys))
    return np.where(has_limit, jobs.channel, -1), np.where(has_limit, jobs.key, -1)


def _by_turns(jobs: Jobs, rules: Rules) -> Floats:
    """Replay a queue event by event.

    It is one function, with its state in local variables: a report replays some hundred thousand
    jobs thirty times, and half of the time would go into calls.
    """
    due, service, latency = jobs.due.tolist(), jobs.service.tolist(), jobs.latency.tolist()
    channels, keys = (jobs.channel, jobs.key) if rules.takes_turns else _joined(jobs, rules)
    channel_of_job, key_of_job = channels.tolist(), keys.tolist()
    rank = (-jobs.priority).tolist()
    channel_of = dict(zip(key_of_job, channel_of_job, strict=True))
    begun = [float("nan")] * len(jobs)
    # Whose turn it is: channels that wait, and the keys that wait in each.
    turns: deque[int] = deque()
    keys_of: dict[int, deque[int]] = {channel: deque() for channel in channel_of.values()}
    waiting: dict[int, list[tuple[int, float, int]]] = {key: [] for key in channel_of}
    # Places that are left where there is a limit; who has none is in no turn.
    channel_places = {name: limit.running for name, limit in rules.channels.items()}
    key_places = {name: limit.running for name, limit in rules.keys.items()}
    happens: list[tuple[float, int, int]] = []
    before = 0
    for time, count in rules.slots:
        heappush(happens, (time, STEP, count - before))
        before = count
    free, arrived, gap = 0, 0, rules.gap

    def queue_key(key: int) -> None:
        channel = channel_of[key]
        mine = keys_of[channel]
        mine.append(key)
        if len(mine) == 1 and channel_places.get(channel, 1) > 0:
            turns.append(channel)

    while arrived < len(due) or happens:
        if arrived < len(due) and (not happens or due[arrived] < happens[0][0]):
            job, time = arrived, due[arrived]
            arrived += 1
            key = key_of_job[job]
            heappush(waiting[key], (rank[job], time, job))
            if len(waiting[key]) == 1 and key_places.get(key, 1) > 0:
                queue_key(key)
        else:
            time, kind, what = heappop(happens)
            if kind == SLOT:
                free += 1
            elif kind == STEP:
                free += what
            elif kind == CHANNEL:
                channel_places[what] += 1
                if channel_places[what] == 1 and keys_of.get(what):
                    turns.append(what)
            else:
                key_places[what] += 1
                if key_places[what] == 1 and waiting.get(what):
                    queue_key(what)
        while free > 0 and turns:
            channel = turns.popleft()
            mine = keys_of[channel]
            key = mine.popleft()
            others = waiting[key]
            _, due_at, job = heappop(others)
            begin = begun[job] = time + latency[job] if time == due_at else time
            end = begin + service[job]
            free -= 1
            heappush(happens, (end + gap, SLOT, 0))
            if key in key_places:
                key_places[key] -= 1
                heappush(happens, (end + rules.keys[key].gap, KEY, key))
            if others and key_places.get(key, 1) > 0:
                mine.append(key)
            if channel in channel_places:
                channel_places[channel] -= 1
                heappush(happens, (end + rules.channels[channel].gap, CHANNEL, channel))
            if mine and channel_places.get(channel, 1) > 0:
                turns.append(channel)
    return np.array(begun)
