"""How a queue was served in the past, estimated from when messages were due, began and ended.

History tells nothing of workers that had nothing to do, and nothing of policies. What can be told:

- where messages waited longer than it takes to claim them, all slots were taken: so many ran then;
- where a channel or a key waited while the others did not, it has a limit of its own;
- where all slots were taken, the time in which nothing ran is what lies between two runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pgqueue.spark.pipeline.queueing import Floats, Ints, Limit, Rules

BUCKETS = 400
"""In each of these stretches of time the number of slots may be another."""
USUAL = 0.05
"""Seconds that the quickest of messages wait, at most."""
FEW = 20
"""Messages that have waited, from which on a channel or a key is taken to have a limit."""
FULL = 0.7
"""Share of the most that ever ran at once, from which on it is taken to be full."""
OFTEN = 0.2
"""Share of the messages of a channel."""
NEAR = 3
"""Stretches on each side."""
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Past:
    """Attempts that began, in the order in which they were due; times in seconds."""

    due: Floats
    began: Floats
    ended: Floats
    channel: Ints
    key: Ints

    @property
    def waits(self) -> Floats:
        """How long each waited."""
        return self.began - self.due


class Served(NamedTuple):
    """How the past was served.

    Attributes:
        rules: see there.
        latencies: how long messages took to begin although a slot was free.
    """

    rules: Rules
    latencies: Floats


def estimates(past: Past) -> Iterator[Served]:
    """Yield how these attempts may have been served.

    How long it takes to claim a message is not known: of each assumption, what follows from it.
    The last one is that there always was a free slot.
    """
    usual = max(0.02, 5 * min(float(np.quantile(past.waits, 0.05)), USUAL))
    for times in (1, 6, math.inf):
        for by_mean in (False, True):
            served = estimate(past, usual * times, by_mean=by_mean)
            yield served
            yield Served(replace(served.rules, takes_turns=False), served.latencies)


def variants(served: Served) -> Iterator[Served]:
    """Yield the same where slots rest shorter or longer between two runs."""
    for share in (1.0, 0.0, 0.33, 0.67, 1.33) if served.rules.gap else (1.0,):
        yield Served(replace(served.rules, gap=served.rules.gap * share), served.latencies)


def estimate(past: Past, usual: float, *, by_mean: bool = False) -> Served:
    """Return how these attempts were served.

    Args:
        usual: seconds that it takes to begin although a slot is free, at most.
        by_mean: whether slots are as many as ran on the average, or as ran most of the time. The
            times of two claims are a network's delay apart, so runs that followed each other
            may seem to overlap.
    """
    waits = past.waits
    waited = waits > usual
    channels, keys = _limits(past, waited)
    has_limit = np.isin(past.channel, list(channels)) | np.isin(past.key, list(keys))
    slots, gap = _slots(past, waited & ~has_limit, by_mean)
    rules = Rules(slots=slots, gap=gap, channels=channels, keys=keys)
    met_free = waits[_met_free(past, slots) & ~has_limit]
    if len(met_free) < FEW:
        met_free = waits[~waited]
    if not len(met_free):
        met_free = np.array([float(waits.min())])
    return Served(rules, met_free)


def _met_free(past: Past, slots: list[tuple[float, int]]) -> Bools:
    """Return which came when fewer waited and ran than there were slots."""
    over = np.searchsorted(np.sort(past.ended), past.due, side="right")
    before = np.arange(len(past.due)) - over
    times, counts = (np.array(each) for each in zip(*slots, strict=True))
    then = counts[np.maximum(np.searchsorted(times, past.due, side="right") - 1, 0)]
    return np.asarray(before < then, np.bool_)


def running_at(
    times: Floats, past: Past, group: Ints | None = None, of: Ints | None = None
) -> Ints:
    """Return how many ran at some times: of all, or of the groups `of` at each time.

    Args:
        group: the group of each attempt, a number from 0.
    """
    first = float(min(past.due.min(), past.began.min()))
    span = int((float(past.ended.max()) - first) * 1e6) + 2

    def places(moments: Floats, groups: Ints | None) -> Ints:
        micros = np.clip(((moments - first) * 1e6).astype(np.int64), 0, span - 1)
        return micros if groups is None else micros + groups.astype(np.int64) * span

    at = places(times, of)
    begun = np.searchsorted(np.sort(places(past.began, group)), at, side="right")
    over = np.searchsorted(np.sort(places(past.ended, group)), at, side="right")
    return (begun - over).astype(np.int64)


def _limits(past: Past, waited: Bools) -> tuple[dict[int, Limit], dict[int, Limit]]:
    """Find the channels and keys that waited although others could run."""
    most = int(running_at(past.began, past).max())
    all_then = running_at(past.due, past)
    own = running_at(past.due, past, past.channel, past.channel)
    own_begin = running_at(past.began, past, past.channel, past.channel)
    of_key = running_at(past.due, past, past.key, past.key)
    key_begin = running_at(past.began, past, past.key, past.key)
    channels: dict[int, Limit] = {}
    keys: dict[int, Limit] = {}
    for channel in np.unique(past.channel[waited]):
        here = past.channel == channel
        late = here & waited
        if late.sum() < FEW or all_then[late].mean() >= FULL * most:
            continue
        limit = max(1, int(own_begin[here].max()))
        by_key = max(1, int(key_begin[here].max()))
        is_full = own[late].mean() >= FULL * limit
        if not is_full and of_key[late].mean() >= FULL * by_key:
            keys |= {int(key): Limit(by_key) for key in np.unique(past.key[here])}
        # A rate, too, is a place that stays taken after each run.
        elif is_full or _others_pass(past, here, late, waited):
            channels[int(channel)] = Limit(limit, _gap(past, here, late, limit))
    return channels, keys


def _others_pass(past: Past, here: Bools, late: Bools, waited: Bools) -> bool:
    """Return whether what was due elsewhere hardly waited, while this channel often did."""
    if late.sum() < OFTEN * here.sum():
        return False
    _, within = _covered(past, late, past.due)
    others = within & ~here
    return bool(others.sum() >= FEW and waited[others].mean() < OFTEN)


def _gap(past: Past, here: Bools, late: Bools, limit: int) -> float:
    """Return how long a place stayed empty after a run, while others waited for it."""
    length, inside = _covered(past, late, past.began[here])
    service = (past.ended - past.began)[here][inside]
    return max(0.0, (limit * length - float(service.sum())) / max(1, int(inside.sum())))


def _covered(past: Past, late: Bools, times: Floats) -> tuple[float, Bools]:
    """Return how long any of some attempts waited, and which times were within that."""
    order = np.argsort(past.due[late])
    begins, ends = past.due[late][order], np.maximum.accumulate(past.began[late][order])
    is_first = np.concatenate([[True], begins[1:] > ends[:-1]])
    firsts = begins[is_first]
    lasts = ends[np.concatenate([np.flatnonzero(is_first)[1:] - 1, [len(ends) - 1]])]
    index = np.searchsorted(firsts, times, side="right") - 1
    return float((lasts - firsts).sum()), (index >= 0) & (times <= lasts[np.maximum(index, 0)])


def _slots(past: Past, late: Bools, by_mean: bool) -> tuple[list[tuple[float, int]], float]:
    """Return how many slots there were from when on, and what lies between two runs."""
    first, last = float(past.due.min()), float(past.ended.max())
    edges = np.linspace(first, last + 1e-6, BUCKETS + 1)
    most = _most_by_bucket(past, edges)
    probes = np.linspace(first, last, BUCKETS * 20)
    bucket = np.minimum(np.searchsorted(edges, probes, side="right") - 1, BUCKETS - 1)
    full = np.full(BUCKETS, -1)
    gap = 0.0
    if late.any():
        at_begin = running_at(past.began, past)
        begun = np.clip(np.searchsorted(edges, past.began, side="right") - 1, 0, BUCKETS - 1)
        _, within = _covered(past, late, probes)
        running = running_at(probes, past)
        for each in np.unique(bucket[within]):
            here = within & (bucket == each)
            # A single late message says nothing about the whole stretch.
            if here.sum() >= 5:
                if by_mean:
                    full[each] = math.ceil(running[here].mean() - 0.1)
                    continue
                full[each] = int(np.quantile(running[here], 0.95))
                # Of short runs, moments seldom meet as many as there can be.
                begins = late & (begun == each)
                if begins.any():
                    full[each] = max(full[each], int(np.quantile(at_begin[begins], 0.9)))
        full = _smooth(full)
        if (full > 0).any():
            gap = _gap_of_slots(past, probes, within, running, full[bucket])
    return _steps(edges, full, most), gap


def _smooth(full: Ints) -> Ints:
    """Take a little less than nearby as an error of the estimate."""
    most = full.copy()
    for shift in range(1, NEAR + 1):
        most[shift:] = np.maximum(most[shift:], full[:-shift])
        most[:-shift] = np.maximum(most[:-shift], full[shift:])
    return np.where((full > 0) & (full >= FULL * most), most, full)


def _gap_of_slots(past: Past, probes: Floats, within: Bools, running: Ints, full: Ints) -> float:
    """Return the time between two runs of a slot, from how much of the slots was in use."""
    busy = within & (full > 0)
    used = float(running[busy].sum()) / max(1.0, float(full[busy].sum()))
    service = float((past.ended - past.began).mean())
    return max(0.0, service * (1 / max(used, 0.01) - 1)) if used < 1 else 0.0


def _most_by_bucket(past: Past, edges: Floats) -> Ints:
    most = np.zeros(len(edges) - 1, np.int64)
    bucket = np.clip(np.searchsorted(edges, past.began, side="right") - 1, 0, len(most) - 1)
    np.maximum.at(most, bucket, running_at(past.began, past))
    return np.maximum(most, running_at(edges[:-1], past))


def _steps(edges: Floats, full: Ints, most: Ints) -> list[tuple[float, int]]:
    """Where slots were not all taken, there were as many as at the nearest time when they were."""
    known = np.flatnonzero(full >= 0)
    if len(known):
        buckets = np.arange(len(full))
        after = np.minimum(np.searchsorted(known, buckets), len(known) - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.where(
            np.abs(known[after] - buckets) < np.abs(known[before] - buckets), after, before
        )
        slots = np.where(full >= 0, full, np.maximum(most, full[known[nearer]]))
    else:
        slots = np.full(len(full), int(most.max()))
    steps: list[tuple[float, int]] = []
    for edge, count in zip(edges[:-1].tolist(), slots.tolist(), strict=True):
        if not steps or steps[-1][1] != count:
            steps.append((edge, count))
    return steps
