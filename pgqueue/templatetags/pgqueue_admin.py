"""How figures are written in the admin's pages."""

from __future__ import annotations

from datetime import timedelta

from django import template
from django.utils.translation import gettext as _

register = template.Library()


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
