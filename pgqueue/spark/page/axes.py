"""Axes: the place of a value between 0 and 1, and the usual ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pgqueue.spark.page import units

DURATIONS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 60, 600, 3_600, 86_400, 864_000)
"""The ticks of an axis of durations, in seconds: powers of ten, then minutes, hours and days."""
MINUTE, HOUR, DAY = 60, 3_600, 86_400
STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE * each for each in (1, 2, 5, 10, 15, 30)),
    *(HOUR * each for each in (1, 2, 3, 6, 12)),
    *(DAY * each for each in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""Seconds between the ticks of an axis of time."""


class Tick(NamedTuple):
    """A mark on an axis."""

    at: float
    """0 is the beginning of the axis, 1 its end."""
    label: str
    is_second: bool = False
    """Whether the tick may be left out on a narrow page."""


class Axis(NamedTuple):
    """The values of an axis, from `low` to `high`."""

    low: float
    high: float
    ticks: Sequence[Tick] = ()
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the place of a value; a value beyond the axis is at its end."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def with_ticks(self, at: Iterable[float], label: Callable[[float], str]) -> Axis:
        """Return the same axis with ticks at some values."""
        ticks = [
            Tick(self.place(each), label(each), number % 2 == 1) for number, each in enumerate(at)
        ]
        return self._replace(ticks=ticks)


def from_zero(values: Iterable[float | None], label: Callable[[float], str] = units.number) -> Axis:
    """Return a linear axis from 0 to a round number that is not below any value."""
    highest = max((each for each in values if each is not None), default=0.0)
    if highest <= 0:
        return Axis(0, 1).with_ticks([0], label)
    size = 60 ** _sixties(highest) if label is units.seconds else 1
    step = _round_up(highest / size / 4) * size
    count = math.ceil(highest / step * 0.9999)
    return Axis(0, step * count).with_ticks((step * each for each in range(count + 1)), label)


def of_durations(values: Iterable[float | None]) -> Axis:
    """Return a logarithmic axis of seconds that contains all values above 0."""
    above = [each for each in values if each]
    if not above:
        return Axis(0.001, 1, is_log=True).with_ticks([0.001, 0.01, 0.1, 1], units.seconds)
    low = max((each for each in DURATIONS if each <= min(above)), default=DURATIONS[0])
    high = min((each for each in DURATIONS if each >= max(above)), default=max(above))
    if low == high:
        high = low * 10
    found = [each for each in DURATIONS if low <= each <= high]
    if len(found) > 7:
        found = found[::2]
    # A narrow axis would have two labels only.
    if len(found) <= 2:
        found = sorted({*found, *(low * each for each in (2, 5) if low * each < high)})
    return Axis(low, high, is_log=True).with_ticks(found, units.seconds)


def of_time(since: datetime, until: datetime, most: int = 8) -> Axis:
    """Return an axis of time, in seconds since 1970, with `most` ticks at most, in UTC."""
    low, high = since.timestamp(), max(until.timestamp(), since.timestamp() + 1)
    step = next((each for each in STEPS if (high - low) / each <= most), (high - low) / most)
    # Weeks begin on a Monday: 1970 began on a Thursday.
    first = 4 * DAY if step % (7 * DAY) == 0 else 0
    begin = math.ceil((low - first) / step) * step + first
    ticks = [begin + step * each for each in range(int((high - begin) // step) + 1)]
    axis = Axis(low, high).with_ticks(ticks, _time)
    days = [number for number, at in enumerate(ticks) if at % DAY == 0]
    if days and days[0] % 2:
        # On a narrow page, the days stay.
        axis = axis._replace(
            ticks=[each._replace(is_second=not each.is_second) for each in axis.ticks]
        )
    return axis


def _time(at: float) -> str:
    time = datetime.fromtimestamp(at, UTC)
    if at % DAY == 0:
        return units.day(time)
    return f"{time:%H:%M}" if at % MINUTE == 0 else f"{time:%H:%M:%S}"


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 2.5, 5 and 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= value * 0.9999)


def _sixties(seconds: float) -> int:
    return 2 if seconds >= 2 * HOUR else 1 if seconds >= 2 * MINUTE else 0
