"""The number of slots at each time: the slots of all living workers.

A worker has as many slots as it ran messages at once. It lives from its first run to the begin of
its last run; after that only slots with a run count. While no message waits, a worker may live
without a run. So the slots are then at least as many as at the last time when messages waited.

Some runs only seem to overlap. The times of two claims are a network's delay apart. A failed run
ends when its failure was stored. The times of a lost run are a guess (see `attempts`). So only runs
with exact times count. Runs of one claim may overlap for a moment; runs of two claims must overlap
for longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgqueue.spark.pipeline.past import Past, Periods, running_at
from pgqueue.spark.pipeline.queueing import Floats, Ints

SHARE = 0.05
"""The share of the time for which a number of slots must have been in use at once."""
AHEAD = 1.0
"""Seconds of work that a worker claims ahead. A message may wait this long for one worker while
another worker has free slots."""
APART = 0.05
"""Seconds by which the times of two claims may differ wrongly."""
FILLS = 3
"""The ratio of a claim's messages to the messages at once from which the worker is full."""
Steps = Sequence[tuple[float, int]]


def slots(past: Past, waited: Periods, *, idle: float = SHARE) -> list[tuple[float, int]]:
    """Return the times at which the number of slots changed, with the new numbers.

    Args:
        waited: The periods in which messages waited for a slot.
        idle: The share of the time for which slots must have been in use at once, for a worker that
            no message waited for; 0: for a moment.
    """
    runs = _counted(past)
    if not len(runs.due):
        return [(0.0, max(1, int(running_at(past.began, past).max())))]
    losers = set(past.worker[past.is_lost].tolist())
    times, counts = _living(runs, waited, losers, idle)
    return _filled(times, counts, waited)


def begins(past: Past) -> Floats:
    """Return the begin of each attempt, with a better guess for lost attempts.

    A lost run began when a slot of its worker became free, and kept the slot until the worker died.
    A worker claims more messages than it runs. Its other lost messages had not begun, and had no
    slot.
    """
    began = past.began.copy()
    runs = _counted(past)
    if not past.is_lost.any() or not len(runs.due):
        return began
    sizes = _sizes(runs, Periods(np.array([]), np.array([])), SHARE)
    usual = max(sizes.values())
    for worker in np.unique(past.worker[past.is_lost & (past.worker >= 0)]).tolist():
        mine = np.flatnonzero(past.is_lost & (past.worker == worker))
        size = sizes.get(worker, usual)
        running, others = mine[:size], mine[size:]
        began[others] = past.ended[others]
        ends = np.sort(runs.ended[runs.worker == worker])[-size:][: len(running)]
        took = ends[-1:] - ends
        running = running[: len(took)]
        began[running] = np.maximum(past.due[running], past.ended[running] - took)
    return began


def until(steps: Steps, end: float) -> Steps:
    """Return the slots up to a time, and 0 slots after it."""
    return [*((time, count) for time, count in steps if time < end), (end, 0)]


def top(steps: Steps) -> int:
    """Return the highest number of slots that lasted for some time, not only for a moment."""
    times, counts = (np.array(each) for each in zip(*steps, strict=True))
    return _held(counts[:-1], np.diff(times))


def added(all_steps: Sequence[Steps]) -> list[tuple[float, int]]:
    """Return the sum of the slots of several pools."""
    changes: dict[float, int] = {}
    for steps in all_steps:
        before = 0
        for time, count in steps:
            changes[time] = changes.get(time, 0) + count - before
            before = count
    times = sorted(changes)
    counts = np.cumsum([changes[time] for time in times]).tolist()
    return list(zip(times, counts, strict=True))


def _held(counts: Ints, lengths: Floats, share: float = SHARE) -> int:
    """Return the highest count that held for this share of the time with a count above 0."""
    some = counts > 0
    counts, lengths = counts[some], lengths[some]
    if not len(counts):
        return 0
    if not (share > 0 and lengths.sum() > 0):
        return int(counts.max())
    order = np.argsort(-counts, kind="stable")
    held = np.cumsum(lengths[order])
    return int(counts[order][np.searchsorted(held, share * held[-1])])


def _counted(past: Past) -> Past:
    """Return the runs that count for the slots: the ones with exact times, if any."""
    known = (past.worker >= 0) & ~past.is_lost
    exact = known & past.is_exact
    return past.only(exact if exact.any() else known)


def _by_worker(runs: Past) -> list[Ints]:
    """Return the indexes of the runs of each worker."""
    order = np.argsort(runs.worker, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(runs.worker[order])) + 1)


def _sizes(runs: Past, waited: Periods, idle: float) -> dict[int, int]:
    """Return the number of slots of each worker."""
    at_once = _at_once(runs)
    claimed = np.bincount(runs.claim)[runs.claim]
    sizes = {}
    for mine in _by_worker(runs):
        size = int(at_once[mine].max())
        # A claim of few messages does not fill a worker.
        if claimed[mine].max() < FILLS * size:
            size = max(size, _size(runs.began[mine], runs.ended[mine], waited, idle))
        sizes[int(runs.worker[mine[0]])] = size
    return sizes


def _at_once(runs: Past) -> Ints:
    """Return for each run the number of runs of its worker that surely overlap its begin."""
    found = running_at(runs.began, runs, runs.claim, runs.claim)
    long = runs.only(runs.ended - runs.began > 2 * APART)
    if len(long.due):
        surely = replace(long, began=long.began + APART, ended=long.ended - APART)
        found += running_at(runs.began, surely, long.worker, runs.worker)
        found -= running_at(runs.began, surely, long.claim, runs.claim)
    return found


def _living(runs: Past, waited: Periods, losers: set[int], idle: float) -> tuple[Floats, Ints]:
    """Return the times at which workers come and go, and the number of slots from each time."""
    sizes = _sizes(runs, waited, idle)
    changes: list[tuple[float, int]] = []
    for mine in _by_worker(runs):
        worker = int(runs.worker[mine[0]])
        size, began, ended = sizes[worker], runs.began[mine], runs.ended[mine]
        # The slots that seem free at the end of a dead worker had lost runs.
        last = float((ended if worker in losers else began).max())
        left = np.sort(ended[ended > last])
        changes += [(float(began.min()), size), (last, min(0, len(left) - size))]
        changes += [(end, -1) for end in left.tolist()[-size:]]
    times, index = np.unique([time for time, _ in changes], return_inverse=True)
    sums = np.zeros(len(times), np.int64)
    np.add.at(sums, index, [change for _, change in changes])
    return times, np.cumsum(sums)


def _size(began: Floats, ended: Floats, waited: Periods, idle: float) -> int:
    """Return the number of messages that a worker ran at once."""
    times = np.concatenate([began, ended])
    order = np.lexsort((np.repeat([1, -1], len(began)), times))
    times, levels = times[order], np.cumsum(np.repeat([1, -1], len(began))[order])
    lived = waited.until(np.minimum(times, began.max()))
    lengths = np.diff(lived)
    total = float(lengths.sum())
    if not total > 0:
        return _held(levels[:-1], np.diff(times), idle)
    held = _held(levels[:-1], lengths)
    if total < AHEAD:
        return held
    # Errors of times do not change the average, and it is never above the number of slots.
    return max(held, math.ceil(float((levels[:-1] * lengths).sum()) / total - 0.1))


def _filled(times: Floats, counts: Ints, waited: Periods) -> list[tuple[float, int]]:
    """Return the slots; while no message waits, at least as many as when messages waited before.

    Before the first wait, the number is the one at this wait.
    """
    long = waited.ends - waited.begins > 2 * AHEAD
    begins, ends = waited.begins[long], waited.ends[long]
    edges = np.unique(np.concatenate([[0.0], times, begins, begins + AHEAD, ends - AHEAD]))
    level = np.concatenate([[0], counts])[np.searchsorted(times, edges, side="right")]
    usual = np.full(len(edges), _held(counts[:-1], np.diff(times)))
    is_sure = np.zeros(len(edges), np.bool_)
    if len(begins):
        # The index of the period that contains a time, or ended before it.
        period = np.maximum(np.searchsorted(begins, edges, side="right") - 1, 0)
        first, last = (np.searchsorted(edges, each) for each in (begins + AHEAD, ends - AHEAD))
        usual = np.where(
            edges < begins[period] + AHEAD, level[first][period], level[last - 1][period]
        )
        is_sure = (edges >= begins[period] + AHEAD) & (edges < ends[period] - AHEAD)
    found = np.where(is_sure, level, np.maximum(level, usual))
    steps: list[tuple[float, int]] = []
    for time, count in zip(edges.tolist(), found.tolist(), strict=True):
        if not steps or steps[-1][1] != count:
            steps.append((time, count))
    return steps
