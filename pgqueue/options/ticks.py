"""The ticks of schedules: at the times of a cron line, or at a fixed interval.

A tick is an instant in UTC. The ticks depend only on the rhythm, so that every process computes the
same ones at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pgqueue.exceptions import InvalidSchedule

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=366)

LATE = timedelta(minutes=1)
"""A tick is missed after this time without a message."""
MOST = 1000
"""The maximum number of missed ticks that get a message: the last ones."""


@dataclass(frozen=True)
class Cron:
    """The times of a cron line in a time zone.

    At changes of the clock it follows Debian's cron. A line for a time of day (minute and hour do
    not begin with a star) ticks once a day. If its time falls into a gap, it ticks at the first
    moment after the gap; if its time comes twice, it ticks the first time. A line that ticks all
    day follows real time.

    On Lord Howe Island the clock changes by half an hour. There a line that ticks all day may miss
    one tick at the change, depending on the instant of the computation: cronsim steps by whole
    hours.

    Args:
        line: minute, hour, day of the month, month, day of the week; or an alias: @daily, …
        timezone: the name of the time zone: Europe/Berlin.

    Raises:
        InvalidSchedule: the line is invalid or never ticks, or the time zone does not exist.
    """

    line: str
    timezone: str

    def __post_init__(self) -> None:
        if len(self._fields.split()) != FIELDS:
            # cronsim would read six fields as seconds first.
            raise InvalidSchedule(
                f"{self.line!r} is no cron line: it takes minute, hour, day of the month, month "
                f"and day of the week, or one of {', '.join(ALIASES)}."
            )
        self.after(EPOCH)

    def after(self, instant: datetime) -> datetime:
        """Return the first tick after an instant."""
        for tick in self._from(instant):
            # In the second of two equal hours, cronsim returns ticks of the first one again.
            if (found := tick.astimezone(UTC)) > instant:
                return found
        raise InvalidSchedule(f"{self.line!r} names a day that does not exist.")

    def in_words(self) -> str:
        """Return a description of the times for people."""
        return f"{self._parsed(EPOCH).explain()} ({self.timezone})"

    def _from(self, instant: datetime) -> Iterator[datetime]:
        return iter(self._parsed(instant.astimezone(self._zone)))

    def _parsed(self, start: datetime) -> CronSim:
        try:
            return CronSim(self._fields, start)
        except (CronSimError, ValueError) as error:
            raise InvalidSchedule(f"{self.line!r} is no cron line: {error}.") from error

    @property
    def _fields(self) -> str:
        return ALIASES.get(self.line.strip().lower(), self.line)

    @property
    def _zone(self) -> ZoneInfo:
        try:
            return ZoneInfo(self.timezone)
        except (LookupError, ValueError, OSError) as error:
            raise InvalidSchedule(f"There is no time zone {self.timezone!r}.") from error


@dataclass(frozen=True)
class Every:
    """The multiples of an interval since 1970-01-01 UTC: every 5 minutes are :00, :05, …

    Args:
        interval: a second or more, a year at most.

    Raises:
        InvalidSchedule: the interval is shorter or longer.
    """

    interval: timedelta

    def __post_init__(self) -> None:
        if not SHORTEST <= self.interval <= LONGEST:
            raise InvalidSchedule(
                f"Every {self.interval}: it must be a second or more, and a year at most."
            )

    def after(self, instant: datetime) -> datetime:
        """Return the first tick after an instant."""
        return EPOCH + self.interval * ((instant - EPOCH) // self.interval + 1)

    def in_words(self) -> str:
        """Return a description of the interval for people."""
        return f"Every {self.interval}"


Rhythm: TypeAlias = Cron | Every


def to_do(rhythm: Rhythm, first: datetime, now: datetime, missed: str) -> list[datetime]:
    """Return the ticks that must get a message, in their order.

    While no tick is late by a minute, all of them get a message: then no tick was missed, and one
    worker only took over from another.

    Args:
        first: the first tick without a message.
        missed: the reaction to missed ticks. "skip": none gets a message, except the last one if it
            is less than a minute late; "once": the last one gets a message; "all": the last 1 000
            get messages.
    """
    if missed == "all" or now - first < LATE:
        return _last(rhythm, first, now, MOST)
    ticks = _last(rhythm, first, now, 1)
    return [tick for tick in ticks if missed != "skip" or now - tick < LATE]


def upcoming(rhythm: Rhythm, after: datetime, count: int) -> list[datetime]:
    """Return the next ticks after an instant."""
    ticks: list[datetime] = []
    for _ in range(count):
        ticks.append(rhythm.after(ticks[-1] if ticks else after))
    return ticks


def _last(rhythm: Rhythm, first: datetime, now: datetime, count: int) -> list[datetime]:
    """Return the last `count` ticks up to now, searched backwards from now."""
    window = LATE
    while now - window > first:
        ticks = _between(rhythm, now - window, now)
        if len(ticks) >= count:
            return ticks[-count:]
        window *= 2
    return [first, *_between(rhythm, first, now)][-count:] if first <= now else []


def _between(rhythm: Rhythm, after: datetime, until: datetime) -> list[datetime]:
    ticks = []
    tick = rhythm.after(after)
    while tick <= until:
        ticks.append(tick)
        tick = rhythm.after(tick)
    return ticks
