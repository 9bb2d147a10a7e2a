"""The progress of a message as a bar on its page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from pgqueue.templatetags.pgqueue_admin import grouped

LARGEST = 10**15
"""Larger numbers are no counts: a float cannot divide all of them."""


@dataclass(frozen=True, kw_only=True)
class ProgressShare:
    """The part of its work that a message has done.

    Attributes:
        percent: the part, from 0 to 100.
        done, total: the numbers that it was computed of; None: the task has noted the percentage.
    """

    percent: float
    done: float | None = None
    total: float | None = None

    def in_words(self) -> str:
        """Return the numbers as a text."""
        percent = _("%s %%") % grouped(self.percent, places=int(self.percent % 1 != 0))
        if self.done is None or self.total is None:
            return percent
        said = {"done": grouped(self.done), "total": grouped(self.total), "percent": percent}
        return _("%(percent)s, %(done)s of %(total)s") % said


def share_of(text: str | None) -> ProgressShare | None:
    """Return the part that a progress says; None: it says none.

    Args:
        text: the progress as JSON: an object with `percent`, or with `total` and `done` or
            `current`.
    """
    try:
        noted = json.loads(text or "null")
    except ValueError:
        return None  # it is longer than an excerpt
    if not isinstance(noted, Mapping):
        return None
    if _is_within(noted.get("percent"), 100):
        return ProgressShare(percent=round(noted["percent"], 1))
    total, done = noted.get("total"), noted.get("done", noted.get("current"))
    if not (_is_within(total, LARGEST) and total and _is_within(done, total)):
        return None
    return ProgressShare(percent=round(100 * done / total, 1), done=done, total=total)


def section(text: str | None) -> str:
    """Return the section of the page as HTML; empty if the progress is no part of a whole."""
    share = share_of(text)
    if share is None:
        return ""
    return render_to_string("admin/pgqueue/message/progress.html", {"share": share})


def _is_within(value: Any, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
