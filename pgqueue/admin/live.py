"""What pages say of themselves that go on while they are open."""

from __future__ import annotations

from django.utils.translation import gettext as _


def words() -> dict[str, str]:
    """Return what `live.js` says, in the language of now."""
    return {
        "live": _("Live"),
        "lost": _("Not live: the connection is lost, and is tried again"),
        "denied": _("Not live: you may not see this any more. Log in again."),
    }
