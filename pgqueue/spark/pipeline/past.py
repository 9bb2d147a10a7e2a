"""The past as the simulation takes it: arrays of attempts, and how many waited and ran when."""

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
        due: when each was due.
        began: when it began.
        ended: when it ended.
        channel: its channel, a number from 0.
        key: its key, a number from 0.
        worker: the worker that ran it, a number from 0; -1: it is not known.
        claim: the claim that it came with, a number from 0. All times of a claim are exact beside
            each other.
        is_exact: whether its begin and its end are measured: not estimated, and not the time when
            the end was stored.
        is_lost: whether its worker died, or was cut off.
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
        """How long each waited."""
        return self.began - self.due

    def only(self, selected: Bools) -> Past:
        """Return some of the attempts."""
        return Past(*(getattr(self, each.name)[selected] for each in fields(self)))


class Periods(NamedTuple):
    """Stretches of time, one after the other."""

    begins: Floats
    ends: Floats

    @property
    def length(self) -> float:
        """How long all of them are, in seconds."""
        return float((self.ends - self.begins).sum())

    def contain(self, times: Floats) -> Bools:
        """Return which times are within one of them."""
        if not len(self.begins):
            return np.zeros(len(times), np.bool_)
        index = np.searchsorted(self.begins, times, side="right") - 1
        return np.asarray((index >= 0) & (times <= self.ends[np.maximum(index, 0)]), np.bool_)

    def until(self, times: Floats) -> Floats:
        """Return how much of them is before each time, in seconds."""
        if not len(self.begins):
            return np.zeros(len(times))
        edges = np.stack([self.begins, self.ends], axis=1).ravel()
        lengths = np.stack([np.zeros(len(self.begins)), self.ends - self.begins], axis=1).ravel()
        return np.asarray(np.interp(times, edges, np.cumsum(lengths)), np.float64)


def waiting(past: Past, late: Bools) -> Periods:
    """Return the periods in which any of some attempts waited."""
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
    """Return how many ran at some times: of all, or of the groups `of` at each time.

    Args:
        group: the group of each attempt, a number from 0.
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
