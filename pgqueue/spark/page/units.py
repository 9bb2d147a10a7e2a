"""Readable texts of numbers, durations, shares and times. A missing value is a dash."""

from __future__ import annotations

from datetime import UTC, datetime

MISSING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SPACE = "\N{NARROW NO-BREAK SPACE}"

_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_DURATIONS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def number(value: float | None) -> str:
    """Return 12345 as '12.3 k'."""
    if value is None:
        return MISSING
    if value < 0:
        return f"{MINUS}{number(-value)}"
    for size, letter in _THOUSANDS:
        if value >= size * 0.9995:
            return f"{_short(value / size)}{SPACE}{letter}"
    return _short(value)


def seconds(value: float | None) -> str:
    """Return 0.0123 as '12.3 ms', and 150 as '2.5 min'."""
    if value is None:
        return MISSING
    if value < 0:
        return f"{MINUS}{seconds(-value)}"
    for size, unit in _DURATIONS:
        # 90 s is clearer than 1.5 min.
        if value >= size * 1.9995 or value == size:
            return f"{number(value / size)}{SPACE}{unit}"
    if value >= 0.9995:
        return f"{_short(value)}{SPACE}s"
    if value >= 0.001 * 0.9995 or value == 0:
        return f"{_short(value * 1_000)}{SPACE}ms"
    return f"{_short(value * 1_000_000)}{SPACE}µs"


def share(value: float | None) -> str:
    """Return 0.9923 as '99.2 %'; only 1 gives 100 %, and only 0 gives 0 %."""
    if value is None:
        return MISSING
    if value < 0:
        return f"{MINUS}{share(-value)}"
    percent = value * 100
    if 0 < percent < 0.001:
        return f"<{SPACE}0.001{SPACE}%"
    if 99.999 < percent < 100:
        return f">{SPACE}99.999{SPACE}%"
    for digits in range(1, 4):
        text = f"{percent:.{digits}f}"
        if (float(text) not in (0, 100) or percent in (0, 100)) and percent < 1_000:
            return f"{_without_zeros(text)}{SPACE}%"
    return f"{number(percent)}{SPACE}%"


def times(value: float | None) -> str:
    """Return 2.41 as '2.41 x' with a real multiplication sign."""
    return MISSING if value is None else f"{number(value)}{SPACE}\N{MULTIPLICATION SIGN}"


def when(value: datetime | None) -> str:
    """Return a time in UTC as '24 Nov 08:15'."""
    if value is None:
        return MISSING
    value = value.astimezone(UTC)
    return f"{day(value)} {value:%H:%M}"


def day(value: datetime) -> str:
    """Return a time in UTC as '24 Nov'."""
    value = value.astimezone(UTC)
    return f"{value.day}{SPACE}{MONTHS[value.month - 1]}"


def weekday(value: datetime) -> str:
    """Return a time in UTC as 'Tue 24 Nov'."""
    return f"{WEEKDAYS[value.astimezone(UTC).weekday()]} {day(value)}"


def _short(value: float) -> str:
    """Return a number below 1 000 with three significant digits at most."""
    if value and value < 0.01:
        return f"{value:.1g}"
    return _without_zeros(f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}")


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
