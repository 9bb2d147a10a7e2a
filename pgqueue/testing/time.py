from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Func, Model

from pgqueue.conf import settings
from pgqueue.models import Breaker, Channel, Cursor, Dedupe, Gate, Lane, Message, Step, TaskPause
from pgqueue.models.fields import exactly
from pgqueue.values.number_checks import as_timedelta

INSTANTS: dict[type[Model], list[str]] = {
    Message: ["created_at", "run_at", "expires_at", "lease_until", "claimed_at", "started_at"],
    Step: ["until"],
    Dedupe: ["expires_at"],
    Channel: ["paused_until"],
    Lane: ["tat", "wake_at", "paused_until"],
    TaskPause: ["until"],
    Gate: ["tat", "wake_at"],
    Breaker: ["open_until"],
    Cursor: ["retry_at"],
}


class _EachEarlier(Func):
    """An array of times, each earlier by a duration."""

    template = (
        "(SELECT coalesce(array_agg(each - given.span), '{}') "
        "FROM (SELECT %(expressions)s) given (times, span), unnest(given.times) each)"
    )


def advance(by: timedelta | float, *, database: str | None = None) -> None:
    """Move the stored times of the queue back by a duration, as if it had passed.

    Delayed messages and retries become due, also retries of a group's events. Durable runs wake up,
    held messages and messages with an expiry time expire, remembered dedupe keys are forgotten,
    rates allow the next starts, and pauses with an end are over, also those of circuit breakers. No
    message is run: call `run_all()` after it. The clocks of Python and PostgreSQL and the
    schedules do not change.

    Args:
        by: seconds or a timedelta, 0 or longer.
        database: the alias of the queue's database, if it is not the one of `PGQUEUE`.

    Raises:
        ValueError: `by` is negative.
    """
    span = as_timedelta(by)
    if span < timedelta():
        raise ValueError(f"advance({by!r}): time does not go back.")
    alias = database or settings().database
    with transaction.atomic(using=alias):
        for model, names in INSTANTS.items():
            earlier: dict[str, Any] = {name: F(name) - exactly(span) for name in names}
            model._base_manager.using(alias).update(**earlier)
        breakers = Breaker._base_manager.using(alias)
        breakers.update(failed_at=_EachEarlier(F("failed_at"), exactly(span)))
