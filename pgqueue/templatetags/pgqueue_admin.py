"""How figures are written in the admin's pages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django import template
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from pgqueue.exceptions import InvalidSchedule
from pgqueue.models import Lane, Schedule
from pgqueue.states import Outcome, State
from pgqueue.ticks import Every

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

register = template.Library()

STATES = dict([*State.choices, *Outcome.choices, *Lane.State.choices])


@register.filter
def state(value: str | None) -> StrOrPromise:
    """Return the word for a state of a message or a lane, or for how a message ended."""
    return STATES.get(value or "", value or "")


@register.filter
def when(schedule: Schedule) -> str:
    """Return when a schedule ticks, or why that is unknown."""
    try:
        rhythm = schedule.rhythm
    except InvalidSchedule as error:
        return str(error)
    if isinstance(rhythm, Every):
        return _("Every %s") % rhythm.interval
    # A cron line is explained in English, or not at all.
    is_english = (get_language() or "en").startswith("en")
    return rhythm.in_words() if is_english else f"{rhythm.line} ({rhythm.timezone})"


@register.filter
def duration(value: float | timedelta | None) -> str:
    """Return a duration as text, with two or three digits. Nothing: a dash.

    Args:
        value: a timedelta, or seconds.
    """
    if value is None:
        return "-"
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds < 1:
        return _("%d ms") % round(1000 * seconds)
    if seconds < 60:
        return _("%.1f s") % seconds
    if seconds < 3600:
        return _("%d min") % (seconds // 60)
    if seconds < 2 * 86_400:
        return _("%(hours)d h %(minutes)d min") % {
            "hours": seconds // 3600,
            "minutes": seconds % 3600 // 60,
        }
    return _("%d days") % (seconds // 86_400)
