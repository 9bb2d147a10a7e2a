"""When schedules tick: at the times that a cron line names, or in a steady rhythm.

A tick is an instant, in UTC. Which instants are ticks depends on nothing but the rhythm:
every process gets the same ones at any time.
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
"""A tick without a message for so long was missed."""
MOST = 1000
"""Missed ticks that are made up for: the last ones."""


@dataclass(frozen=True)
class Cron:
    """The times that a cron line names, in a time zone.

    Where the clock changes it does as Debian's cron: what is set for a time of day (no star at
    the beginning of minute and hour) comes once a day, at the first moment after a gap if its own
    is left out, and the first time where it comes twice. What goes on all day goes by real time.

    Where it is set by half an hour, as on Lord Howe Island, what goes on all day may miss a tick
    just then, or not, depending on the instant it is computed from: cronsim goes on by whole hours.

    Args:
        line: minute, hour, day of the month, month, day of the week; or an alias: @daily, …
        timezone: by its name: Europe/Berlin.

    Raises:
        InvalidSchedule: this is no cron line, it names no time, or there is no such time zone.
    """

    line: str
    timezone: str

    def __post_init__(self) -> None:
        if len(self._fields.split()) != FIELDS:
            # A sixth one would be taken for seconds, and come first.
            raise InvalidSchedule(
                f"{self.line!r} is no cron line: it takes minute, hour, day of the month, month "
                f"and day of the week, or one of {', '.join(ALIASES)}."
            )
        self.after(EPOCH)

    def after(self, instant: datetime) -> datetime:
        """Return the first tick after an instant."""
        for tick in self._from(instant):
            # In the second of two equal hours, the first one's are told as still to come.
            if (found := tick.astimezone(UTC)) > instant:
                return found
        raise InvalidSchedule(f"{self.line!r} names a day that there never is.")

    def in_words(self) -> str:
        """Say when that is."""
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
    """The multiples of an interval since 1970 began, in UTC: every 5 minutes are :00, :05, …

    Args:
        interval: a second or more, a year at most.

    Raises:
        InvalidSchedule: it is shorter, or longer.
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
        """Say when that is."""
        return f"Every {self.interval}"


Rhythm: TypeAlias = Cron | Every


def to_do(rhythm: Rhythm, first: datetime, now: datetime, missed: str) -> list[datetime]:
    """Return the ticks that are to have a message, in their order.

    All of them have, as long as none is late by a minute: then no tick was missed, one worker only
    took over from another.

    Args:
        first: the first tick that was not done yet.
        missed: what to do where one is: "skip" them, which leaves the last one if that is not late
            by a minute yet; one message "once" for all of them, which is the last one's; or "all",
            the last 1 000 of them.
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
    """Return the last ticks up to now, looking no further back than it takes to find them."""
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
