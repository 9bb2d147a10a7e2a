"""Texts of pages that are updated while they are open."""

from __future__ import annotations

from django.utils.translation import gettext as _


def words() -> dict[str, str]:
    """Return the texts of `live.js` in the current language."""
    return {
        "live": _("Live"),
        "news": _("{count} new: show"),
        "changed": _("Changed: show"),
        "lost": _("Not live: the connection is lost, and is tried again"),
        "denied": _("Not live: you may not see this any more. Log in again."),
    }
