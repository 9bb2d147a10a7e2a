"""A replay of a queue: the waits of messages with other slots and limits.

Several servers take turns among channels, and within a channel among its keys. Within a key, the
highest priority comes first, then the earliest due time. pgqueue's workers do the same. They also
claim some messages ahead, and run these in the order of their due times.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SLOTS, CHANNEL, KEY = range(3)
"""The kinds of changes at a moment, in this order: of the number of slots, and of free places."""


class Jobs(NamedTuple):
    """The jobs of a queue, in the order of their due times; times in seconds.

    Attributes:
        due: The times at which the jobs were due.
        service: Their run times.
        channel: Their channels, numbers from 0.
        key: Their keys, numbers from 0. Keys of different channels have different numbers.
        priority: Their priorities; a higher number comes first.
        latency: The times that they take to begin although a slot is free.
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
    """The most jobs that run at once, and the seconds that a place stays taken after a run."""

    running: int
    gap: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The slots and limits of a queue.

    Attributes:
        slots: The times at which the number of slots changes, with the new numbers.
        gap: The seconds that a slot stays taken after a run.
        channels: The limits of channels.
        keys: The limits of keys.
        takes_turns: Whether channels and keys take turns. Otherwise the job that is due first comes
            first, except among jobs with limits.
    """

    slots: Sequence[tuple[float, int]]
    gap: float = 0.0
    channels: dict[int, Limit] = field(default_factory=dict)
    keys: dict[int, Limit] = field(default_factory=dict)
    takes_turns: bool = True


def replay(jobs: Jobs, rules: Rules) -> Floats:
    """Return the time at which each job would have begun; NaN: never, for lack of slots."""
    is_plain = not (rules.takes_turns or rules.channels or rules.keys)
    if is_plain and (jobs.priority == jobs.priority[:1]).all():
        return _in_order(jobs, rules)
    return _by_turns(jobs, rules)


def _in_order(jobs: Jobs, rules: Rules) -> Floats:
    """Replay jobs that begin in the order of their due times: each takes the next free slot.

    The result equals the one of `_by_turns`, several times as fast (Kiefer and Wolfowitz: On the
    theory of queues with many servers, 1955).
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
        # Apply the changes of the slots before this job can begin.
        while steps and (not free or steps[-1][0] <= max(due, free[0])):
            time, change = steps.pop()
            # With fewer slots, the slots that become free next go away, but their jobs run on. A
            # later increase first takes back the slots whose jobs still run.
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
    """Return channels and keys; -1 stands for all channels or keys without a limit."""
    has_limit = np.isin(jobs.channel, list(rules.channels)) | np.isin(jobs.key, list(rules.keys))
    return np.where(has_limit, jobs.channel, -1), np.where(has_limit, jobs.key, -1)


def _by_turns(jobs: Jobs, rules: Rules) -> Floats:
    """Replay a queue event by event."""
    due, service, latency = jobs.due.tolist(), jobs.service.tolist(), jobs.latency.tolist()
    channels, keys = (jobs.channel, jobs.key) if rules.takes_turns else _joined(jobs, rules)
    key_of_job = keys.tolist()
    # The places of jobs in the order of their priorities and due times: heaps compare whole numbers
    # much faster than tuples.
    order = np.argsort(-jobs.priority, kind="stable")
    place, job_at = np.argsort(order, kind="stable").tolist(), order.tolist()
    turns = _Turns(dict(zip(key_of_job, channels.tolist(), strict=True)), rules)
    begun = [float("nan")] * len(jobs)
    arrivals, ends, changes = [*due, math.inf], [math.inf], _changes(rules)
    # Local names: this loop runs some hundred thousand times, and a report replays it 15 times.
    arrive, take, ready = turns.arrive, turns.take, turns.channels
    gap, key_limits, channel_limits = rules.gap, rules.keys, rules.channels
    free = arrived = 0
    while True:
        time, change = arrivals[arrived], changes[0]
        if time < ends[0] and time < change[0]:
            arrive(key_of_job[arrived], place[arrived])
            arrived += 1
        elif (time := ends[0]) < change[0] or (time == change[0] < math.inf and change[1] != SLOTS):
            heappop(ends)
            free += 1
        else:
            time, kind, what = change
            if time == math.inf:
                return np.array(begun)
            heappop(changes)
            if kind == SLOTS:
                free += what
            else:
                turns.give_back(kind, what)
        while free > 0 and ready:
            channel, key, next_place = take()
            job = job_at[next_place]
            begin = begun[job] = time + latency[job] if time == due[job] else time
            end = begin + service[job]
            free -= 1
            heappush(ends, end + gap)
            if key in key_limits:
                heappush(changes, (end + key_limits[key].gap, KEY, key))
            if channel in channel_limits:
                heappush(changes, (end + channel_limits[channel].gap, CHANNEL, channel))


def _changes(rules: Rules) -> list[tuple[float, int, int]]:
    """Return the changes of the number of slots, as a heap of events; the last one never comes."""
    before = [0, *(count for _, count in rules.slots)]
    changes = [
        (time, SLOTS, count - old) for (time, count), old in zip(rules.slots, before, strict=False)
    ]
    changes.append((math.inf, SLOTS, 0))
    heapify(changes)
    return changes


def _places(names: Iterable[int], limits: Mapping[int, Limit]) -> dict[int, float]:
    """Return the number of free places of channels or keys; infinity: it has no limit."""
    return {name: limits[name].running if name in limits else math.inf for name in names}


class _Turns:
    """The jobs that wait, and the order in which channels and their keys take turns.

    Attributes:
        channels: the channels that have a job which may begin; the first one is next.
    """

    def __init__(self, channel_of: dict[int, int], rules: Rules) -> None:
        self.channels: deque[int] = deque()
        self._channel_of = channel_of
        self._keys_of: dict[int, deque[int]] = {each: deque() for each in channel_of.values()}
        self._waiting: dict[int, list[int]] = {key: [] for key in channel_of}
        # A channel or key without free places has no turn.
        self._channel_places = _places(self._keys_of, rules.channels)
        self._key_places = _places(self._waiting, rules.keys)

    def arrive(self, key: int, place: int) -> None:
        """Add a job by its place: of a key's jobs, the one with the lowest place comes first."""
        jobs = self._waiting[key]
        heappush(jobs, place)
        if len(jobs) == 1 and self._key_places[key] > 0:
            self._queue(key)

    def take(self) -> tuple[int, int, int]:
        """Return the channel and key whose turn it is, and the place of the job that begins now."""
        channel = self.channels.popleft()
        keys = self._keys_of[channel]
        key = keys.popleft()
        jobs = self._waiting[key]
        place = heappop(jobs)
        self._key_places[key] -= 1
        if jobs and self._key_places[key] > 0:
            keys.append(key)
        self._channel_places[channel] -= 1
        if keys and self._channel_places[channel] > 0:
            self.channels.append(channel)
        return channel, key, place

    def give_back(self, kind: int, name: int) -> None:
        """Free a place of a channel or of a key."""
        if kind == CHANNEL:
            self._channel_places[name] += 1
            if self._channel_places[name] == 1 and self._keys_of[name]:
                self.channels.append(name)
        else:
            self._key_places[name] += 1
            if self._key_places[name] == 1 and self._waiting[name]:
                self._queue(name)

    def _queue(self, key: int) -> None:
        channel = self._channel_of[key]
        keys = self._keys_of[channel]
        keys.append(key)
        if len(keys) == 1 and self._channel_places[channel] > 0:
            self.channels.append(channel)
