"""The period of a report, in buckets of equal width."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

BUCKETS = 200
"""The most buckets in a period."""
WIDTHS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 2_592_000, 31_536_000),
)
"""The possible widths of a bucket in seconds."""


class Period(NamedTuple):
    """The period of a report: from `since` to before `until`, aware times in UTC."""

    since: datetime
    until: datetime

    @property
    def seconds(self) -> float:
        """The length of the period."""
        return (self.until - self.since).total_seconds()

    @property
    def width(self) -> int:
        """The seconds of a bucket."""
        fitting = (width for width in WIDTHS if self.seconds <= width * BUCKETS)
        return next(fitting, WIDTHS[-1])

    @property
    def buckets(self) -> int:
        """The number of buckets; the last one may be shorter."""
        return max(1, -int(-self.seconds // self.width))

    @property
    def starts(self) -> list[datetime]:
        """The beginnings of the buckets."""
        return [self.since + timedelta(seconds=self.width * i) for i in range(self.buckets)]

    def bucket(self, time: Column) -> Column:
        """Return the number of a time's bucket; -1: before the period; `buckets`: after it."""
        index = F.floor(self.place(time) / self.width)
        within = F.least(F.greatest(F.lit(-1), index), F.lit(self.buckets))
        return F.when(time.isNotNull(), within.cast("int"))

    def place(self, time: Column) -> Column:
        """Return the seconds from the beginning of the period to a time."""
        return (F.unix_micros(time) - F.lit(_micros(self.since))) / 1e6


def _micros(time: datetime) -> int:
    return (time - datetime.fromisoformat("1970-01-01T00:00:00Z")) // timedelta(microseconds=1)
