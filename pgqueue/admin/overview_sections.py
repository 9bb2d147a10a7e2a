from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string

from pgqueue.admin.overview_data import Snapshot

SECTIONS = (
    "headline",
    "dead",
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
"""The parts of the page that go on while it is open, each of a template of its own."""


def rendered(snapshot: Snapshot) -> dict[str, str]:
    """Return the HTML of each section."""
    return {
        name: render_to_string(f"admin/pgqueue/overview/{name}.html", {"it": snapshot})
        for name in SECTIONS
    }


def payload(snapshot: Snapshot) -> dict[str, Any]:
    """Return what an open page takes over."""
    return {"sections": rendered(snapshot), "chart": snapshot.chart}
