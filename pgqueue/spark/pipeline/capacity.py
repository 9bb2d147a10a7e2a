"""Estimates of the slots and limits of the past, from the times of messages.

History names the worker of each message, but no policies. The slots are the ones of the living
workers at each time (see `fleet`). A channel or a key that waited while others did not has a limit.
The time between two runs of a slot comes from the slots that were empty while messages waited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pgqueue.spark.pipeline import fleet
from pgqueue.spark.pipeline.fleet import Steps
from pgqueue.spark.pipeline.past import Bools, Past, Periods, running_at, waiting
from pgqueue.spark.pipeline.queueing import Floats, Ints, Limit, Rules

PROBES = 8000
"""Moments at which the use of the slots is counted."""
USUAL = 0.05
"""The most seconds that a message waits although a slot is free."""
FEW = 20
"""The least number of messages that waited, for a channel or a key with a limit."""
FULL = 0.7
"""The share of the highest concurrency from which on a queue, channel or key counts as full."""
OFTEN = 0.2
"""The share of messages that must have waited, for a channel that often waited."""


class Served(NamedTuple):
    """The estimated service of the past.

    Attributes:
        rules: the slots and limits.
        latencies: the seconds that each message took to begin although a slot was free.
    """

    rules: Rules
    latencies: Floats


def estimates(past: Past) -> Iterator[Served]:
    """Yield several estimates of the service of some attempts.

    The time to claim a message is unknown, so each estimate assumes another one. The last estimate
    assumes that a slot was always free.
    """
    usual = max(0.02, 5 * min(float(np.quantile(past.waits, 0.05)), USUAL))
    for times in (1, 6, math.inf):
        served = estimate(past, usual * times)
        yield served
        yield Served(replace(served.rules, takes_turns=False), served.latencies)


def variants(served: Served) -> Iterator[Served]:
    """Yield the same service with shorter and longer gaps of a slot between two runs, if any."""
    for share in (0.0, 0.33, 0.67, 1.33) if served.rules.gap else ():
        yield Served(replace(served.rules, gap=served.rules.gap * share), served.latencies)


def estimate(past: Past, usual: float) -> Served:
    """Return an estimate of the service of some attempts.

    Args:
        usual: the most seconds that a message takes to begin although a slot is free.
    """
    waits = past.waits
    # The begin of a lost run is a guess.
    waited = (waits > usual) & ~past.is_lost
    channels, keys = _limits(past, waited)
    has_limit = np.isin(past.channel, list(channels)) | np.isin(past.key, list(keys))
    for_slots = waiting(past, waited & ~has_limit)
    slots = fleet.slots(past, for_slots, idle=fleet.SHARE if usual < math.inf else 0.0)
    gap = _gap_of_slots(past, for_slots, slots)
    rules = Rules(slots=slots, gap=gap, channels=channels, keys=keys)
    met_free = waits[_met_free(past, slots) & ~has_limit]
    if len(met_free) < FEW:
        met_free = waits[~waited]
    if not len(met_free):
        met_free = np.array([float(waits.min())])
    return Served(rules, met_free)


def _met_free(past: Past, slots: Steps) -> Bools:
    """Return the attempts that were due when fewer waited and ran than there were slots."""
    over = np.searchsorted(np.sort(past.ended), past.due, side="right")
    before = np.arange(len(past.due)) - over
    return np.asarray(before < _at(slots, past.due), np.bool_)


def _limits(past: Past, waited: Bools) -> tuple[dict[int, Limit], dict[int, Limit]]:
    """Find the channels and keys that waited although others could run."""
    measured = past.only(past.is_exact) if past.is_exact.any() else past
    most = int(running_at(measured.began, measured).max())
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
        # A rate limit, too, is a place that stays taken after each run.
        elif is_full or _others_pass(past, here, late, waited):
            channels[int(channel)] = Limit(limit, _gap(past, here, late, limit))
    return channels, keys


def _others_pass(past: Past, here: Bools, late: Bools, waited: Bools) -> bool:
    """Return whether this channel often waited, while messages of others hardly waited."""
    if late.sum() < OFTEN * here.sum():
        return False
    others = waiting(past, late).contain(past.due) & ~here
    return bool(others.sum() >= FEW and waited[others].mean() < OFTEN)


def _gap(past: Past, here: Bools, late: Bools, limit: int) -> float:
    """Return the seconds that a place stayed empty after a run, while messages waited for it."""
    waited = waiting(past, late)
    inside = waited.contain(past.began[here])
    service = (past.ended - past.began)[here][inside]
    return max(0.0, (limit * waited.length - float(service.sum())) / max(1, int(inside.sum())))


def _gap_of_slots(past: Past, waited: Periods, slots: Steps) -> float:
    """Return the seconds between two runs of a slot, from the use of the slots."""
    probes = np.linspace(float(past.due.min()), float(past.ended.max()), PROBES)
    probes = probes[waited.contain(probes)]
    used = float(running_at(probes, past).sum()) / max(1.0, float(_at(slots, probes).sum()))
    service = float((past.ended - past.began).mean())
    return max(0.0, service * (1 / max(used, 0.01) - 1)) if len(probes) else 0.0


def _at(slots: Steps, times: Floats) -> Ints:
    """Return the number of slots at some times."""
    since, counts = (np.array(each) for each in zip(*slots, strict=True))
    return counts[np.maximum(np.searchsorted(since, times, side="right") - 1, 0)]
