"""How figures are written in the admin's pages: each number by `grouped` or `figure`."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import django
from django import template
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from pgqueue.exceptions import InvalidSchedule
from pgqueue.models import Lane, Schedule
from pgqueue.options.ticks import Every
from pgqueue.states import Outcome, State

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

register = template.Library()

STATES = dict([*State.choices, *Outcome.choices, *Lane.State.choices])


@register.filter
def state(value: str | None) -> StrOrPromise:
    """Return the word for a state of a message or a lane, or for how a message ended."""
    return STATES.get(value or "", value or "")


@register.filter
def badge(value: str | None) -> str:
    """Return the word for a state or an outcome as a coloured badge; "": there is none."""
    if not value:
        return ""
    return format_html('<span class="pgqueue-state is-{}">{}</span>', value, state(value))


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


def grouped(value: float, *, places: int = 0) -> str:
    """Return a number as the language of the page writes it: 1,234.5 or 1.234,5."""
    return number_format(value, places, force_grouping=True)


def figure(value: float) -> str:
    """Return a number with three digits, likewise: 1,230 or 0.0123."""
    return number_format(Decimal(f"{value:.3g}"), force_grouping=True)


@register.inclusion_tag("admin/pgqueue/breadcrumbs.html")
def breadcrumbs(opts: Any, title: str, back: str | None = None) -> dict[str, Any]:
    """Show the way to a page, in the markup of Django's own pages.

    Args:
        opts: the `_meta` of the page's model.
        back: the address of the model's list; None: this page has the list's place.
    """
    steps = [(reverse("admin:app_list", args=[opts.app_label]), opts.app_config.verbose_name)]
    if back is not None:
        steps.append((back, capfirst(opts.verbose_name_plural)))
    # Before 6.1 they are links in a line, and the style sheet knows no list of them.
    return {"steps": steps, "title": title, "is_list": django.VERSION >= (6, 1)}


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
        return _("%s s") % grouped(seconds, places=1)
    if seconds < 3600:
        return _("%d min") % (seconds // 60)
    if seconds < 2 * 86_400:
        return _("%(hours)d h %(minutes)d min") % {
            "hours": seconds // 3600,
            "minutes": seconds % 3600 // 60,
        }
    return _("%d days") % (seconds // 86_400)
