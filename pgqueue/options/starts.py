"""The start of a group or a subscription in the log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from django.utils import timezone

from pgqueue.values.instants import as_instant
from pgqueue.values.number_checks import as_count

Start: TypeAlias = "Literal['now', 'beginning'] | int | datetime"
STARTS = "now, beginning, a position, or a time such as 2026-11-24T08:30:00Z"


def as_start(value: Any) -> Start:
    """Return `value` if it is a valid start of a group or a subscription.

    Raises:
        TypeError, ValueError: it is invalid.
    """
    if isinstance(value, datetime):
        return as_instant(value)
    if isinstance(value, str):
        if value not in ("now", "beginning"):
            raise ValueError("it must be 'now', 'beginning', a position or a time.")
        return "now" if value == "now" else "beginning"
    return as_count(value, least=0, most=2**62)


def parse_start(text: str) -> Start:
    """Parse a start: "now", "beginning", a position, or a time (UTC without a zone).

    Raises:
        ValueError: the text has another form.
    """
    if text in ("now", "beginning"):
        return as_start(text)
    if text.isascii() and text.isdecimal() and len(text) < 20:
        return as_start(int(text))
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if timezone.is_naive(time) else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"it must be {STARTS}.") from None
