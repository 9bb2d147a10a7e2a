from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from pgqueue.admin.overview_data import OverviewSnapshot
from pgqueue.templatetags.pgqueue_admin import duration, grouped

SECTIONS = (
    "headline",
    "dead",
    "flows",
    "limited",
    "channels",
    "tasks",
    "workers",
    "schedules",
    "log",
    "webhooks",
    "duties",
    "history",
)
"""The sections of the page that are updated while it is open; each has its own template."""


def rendered(snapshot: OverviewSnapshot) -> dict[str, str]:
    """Return the HTML of each section."""
    return {
        name: render_to_string(f"admin/pgqueue/overview/{name}.html", {"it": snapshot})
        for name in SECTIONS
    }


def in_words(snapshot: OverviewSnapshot) -> dict[str, str]:
    """Return a description of each chart for screen readers."""
    totals = snapshot.totals
    if not totals["runs"]:
        return dict.fromkeys(("runs", "times"), _("Nothing ran."))
    runs = ngettext(
        "%(runs)s run, %(failures)s failed.", "%(runs)s runs, %(failures)s failed.", totals["runs"]
    )
    times = _("Mean wait %(wait)s, mean run time %(run)s.")
    return {
        "runs": runs % {"runs": grouped(totals["runs"]), "failures": grouped(totals["failures"])},
        "times": times % {name: duration(totals[name]) for name in ("wait", "run")},
    }


def payload(snapshot: OverviewSnapshot) -> dict[str, Any]:
    """Return the update for an open page."""
    return {
        "sections": rendered(snapshot),
        "chart": snapshot.chart,
        "in_words": in_words(snapshot),
    }
