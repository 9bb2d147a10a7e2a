"""What a report is about: a period of time, in buckets of equal width."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

BUCKETS = 200
"""Buckets in a period, at most."""
WIDTHS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 2_592_000, 31_536_000),
)
"""Seconds that a bucket may be wide."""


class Period(NamedTuple):
    """What a report is about: from `since` to before `until`, aware times in UTC."""

    since: datetime
    until: datetime

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.until - self.since).total_seconds()

    @property
    def width(self) -> int:
        """The seconds of one of its buckets."""
        fitting = (width for width in WIDTHS if self.seconds <= width * BUCKETS)
        return next(fitting, WIDTHS[-1])

    @property
    def buckets(self) -> int:
        """How many buckets there are; the last one may be cut short."""
        return max(1, -int(-self.seconds // self.width))

    @property
    def starts(self) -> list[datetime]:
        """When the buckets begin."""
        return [self.since + timedelta(seconds=self.width * i) for i in range(self.buckets)]

    def bucket(self, time: Column) -> Column:
        """Return the number of the bucket that a time is in; -1: before the period."""
        index = F.floor(self.place(time) / self.width)
        return F.when(time.isNotNull(), F.greatest(F.lit(-1), index).cast("int"))

    def place(self, time: Column) -> Column:
        """Return the seconds from the beginning of the period to a time."""
        return (F.unix_micros(time) - F.lit(_micros(self.since))) / 1e6


def _micros(time: datetime) -> int:
    return (time - datetime.fromisoformat("1970-01-01T00:00:00Z")) // timedelta(microseconds=1)
