"""A queue replayed: who would have waited how long, with other slots and limits.

Several servers take turns among channels, and within a channel among its keys; within a key,
higher priorities come first, then what is due first. So do pgqueue's workers, who claim some
messages ahead: of these, what is due first comes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
ARRIVAL, STEP, SLOT, CHANNEL, KEY = range(5)
"""What happens at a moment."""


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
    return _Replay(jobs, rules).run()


def _joined(jobs: Jobs, rules: Rules) -> tuple[Ints, Ints]:
    """Return channels and keys, with one (-1) for all that have no limit."""
    has_limit = np.isin(jobs.channel, list(rules.channels)) | np.isin(jobs.key, list(rules.keys))
    return np.where(has_limit, jobs.channel, -1), np.where(has_limit, jobs.key, -1)


class _Replay:
    def __init__(self, jobs: Jobs, rules: Rules) -> None:
        self._rules = rules
        self._due = jobs.due.tolist()
        self._service = jobs.service.tolist()
        channel, key = (jobs.channel, jobs.key) if rules.takes_turns else _joined(jobs, rules)
        self._channel = channel.tolist()
        self._key = key.tolist()
        self._priority = jobs.priority.tolist()
        self._latency = jobs.latency.tolist()
        self._begun = [float("nan")] * len(jobs)
        self._free = 0
        # Whose turn it is: channels that wait, and the keys that wait in each.
        self._turns: deque[int] = deque()
        self._keys: dict[int, deque[int]] = {}
        self._waiting: dict[int, list[tuple[int, float, int]]] = {}
        # Places that are left where there is a limit; who has none is in no turn.
        self._channel_places = {name: limit.running for name, limit in rules.channels.items()}
        self._key_places = {name: limit.running for name, limit in rules.keys.items()}
        self._channel_of = dict(zip(self._key, self._channel, strict=True))
        self._happens: list[tuple[float, int, int]] = []

    def run(self) -> Floats:
        slots = 0
        for time, count in self._rules.slots:
            heappush(self._happens, (time, STEP, count - slots))
            slots = count
        arrived, count = 0, len(self._due)
        while arrived < count or self._happens:
            if arrived < count and (not self._happens or self._due[arrived] < self._happens[0][0]):
                time, kind, what = self._due[arrived], ARRIVAL, arrived
                arrived += 1
            else:
                time, kind, what = heappop(self._happens)
            self._happen(time, kind, what)
        return np.array(self._begun)

    def _happen(self, time: float, kind: int, what: int) -> None:
        if kind == ARRIVAL:
            self._arrive(what)
        elif kind == SLOT:
            self._free += 1
        elif kind == STEP:
            self._free += what
        elif kind == CHANNEL:
            self._channel_places[what] += 1
            if self._channel_places[what] == 1 and self._keys.get(what):
                self._turns.append(what)
        else:
            self._key_places[what] += 1
            if self._key_places[what] == 1 and self._waiting.get(what):
                self._queue_key(self._channel_of[what], what)
        while self._free > 0 and self._turns:
            self._begin(time)

    def _arrive(self, job: int) -> None:
        key = self._key[job]
        waiting = self._waiting.setdefault(key, [])
        heappush(waiting, (-self._priority[job], self._due[job], job))
        if len(waiting) == 1 and self._key_places.get(key, 1) > 0:
            self._queue_key(self._channel[job], key)

    def _queue_key(self, channel: int, key: int) -> None:
        keys = self._keys.setdefault(channel, deque())
        keys.append(key)
        if len(keys) == 1 and self._channel_places.get(channel, 1) > 0:
            self._turns.append(channel)

    def _begin(self, time: float) -> None:
        channel = self._turns.popleft()
        keys = self._keys[channel]
        key = keys.popleft()
        waiting = self._waiting[key]
        _, due, job = heappop(waiting)
        begun = time + (self._latency[job] if time == due else 0.0)
        self._begun[job] = begun
        end = begun + self._service[job]
        self._free -= 1
        heappush(self._happens, (end + self._rules.gap, SLOT, 0))
        if key in self._key_places:
            self._key_places[key] -= 1
            heappush(self._happens, (end + self._rules.keys[key].gap, KEY, key))
        if waiting and self._key_places.get(key, 1) > 0:
            keys.append(key)
        if channel in self._channel_places:
            self._channel_places[channel] -= 1
            heappush(self._happens, (end + self._rules.channels[channel].gap, CHANNEL, channel))
        if keys and self._channel_places.get(channel, 1) > 0:
            self._turns.append(channel)
