"""The input of the simulation: arrays of attempts, and counts of waits and runs at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pgqueue.spark.pipeline.queueing import Floats, Ints

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Past:
    """Attempts that began, in the order in which they were due; times in seconds.

    Attributes:
        due: The times at which the attempts were due.
        began: The times at which they began.
        ended: The times at which they ended.
        channel: Their channels, numbers from 0.
        key: Their keys, numbers from 0.
        worker: Their workers, numbers from 0; -1: unknown.
        claim: Their claims, numbers from 0. The times of one claim fit each other exactly.
        is_exact: Whether begin and end are measured: neither is estimated, and the end is not the
            time of its storage.
        is_lost: Whether the worker died, or lost its connection.
    """

    due: Floats
    began: Floats
    ended: Floats
    channel: Ints
    key: Ints
    worker: Ints
    claim: Ints
    is_exact: Bools
    is_lost: Bools

    @property
    def waits(self) -> Floats:
        """The waits of the attempts."""
        return self.began - self.due

    def only(self, selected: Bools) -> Past:
        """Return the selected attempts."""
        return Past(*(getattr(self, each.name)[selected] for each in fields(self)))


class Periods(NamedTuple):
    """Stretches of time, one after the other."""

    begins: Floats
    ends: Floats

    @property
    def length(self) -> float:
        """The length of all periods in seconds."""
        return float((self.ends - self.begins).sum())

    def contain(self, times: Floats) -> Bools:
        """Return for each time whether it is within a period."""
        if not len(self.begins):
            return np.zeros(len(times), np.bool_)
        index = np.searchsorted(self.begins, times, side="right") - 1
        return np.asarray((index >= 0) & (times <= self.ends[np.maximum(index, 0)]), np.bool_)

    def until(self, times: Floats) -> Floats:
        """Return the length of the periods before each time, in seconds."""
        if not len(self.begins):
            return np.zeros(len(times))
        edges = np.stack([self.begins, self.ends], axis=1).ravel()
        lengths = np.stack([np.zeros(len(self.begins)), self.ends - self.begins], axis=1).ravel()
        return np.asarray(np.interp(times, edges, np.cumsum(lengths)), np.float64)


def waiting(past: Past, late: Bools) -> Periods:
    """Return the periods in which at least one of the selected attempts waited."""
    if not late.any():
        return Periods(np.array([]), np.array([]))
    order = np.argsort(past.due[late])
    begins, ends = past.due[late][order], np.maximum.accumulate(past.began[late][order])
    is_first = np.concatenate([[True], begins[1:] > ends[:-1]])
    lasts = ends[np.concatenate([np.flatnonzero(is_first)[1:] - 1, [len(ends) - 1]])]
    return Periods(begins[is_first], lasts)


def running_at(
    times: Floats, past: Past, group: Ints | None = None, of: Ints | None = None
) -> Ints:
    """Return the number of runs at some times: of all attempts, or of the group `of` each time.

    Args:
        group: the groups of the attempts, numbers from 0.
    """
    first = float(min(past.due.min(), past.began.min()))
    span = int((float(past.ended.max()) - first) * 1e6) + 2

    def places(moments: Floats, groups: Ints | None) -> Ints:
        micros = np.clip(np.rint((moments - first) * 1e6).astype(np.int64), 0, span - 1)
        return micros if groups is None else micros + groups.astype(np.int64) * span

    at = places(times, of)
    begun = np.searchsorted(np.sort(places(past.began, group)), at, side="right")
    over = np.searchsorted(np.sort(places(past.ended, group)), at, side="right")
    return (begun - over).astype(np.int64)
