"""Remove from history what is kept for less long than the day it is in.

Days are dropped at the longest that anything is kept (`partitions.drop`). What goes before is
deleted here, in stretches of time, each of which is read but once: history has no index by channel
and outcome, which every settle would have to write to, only one that roughly tells where a time is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pgqueue.engine.values import Connection
from pgqueue.retention import Retention
from pgqueue.statements import load

SQL = load(__name__)

BATCH = 2000
REACH = 10_000
"""Rows, or somewhat more, that a step looks at."""


class Window(NamedTuple):
    """What is kept for `keep`, and when that of it ended which there may still be to purge."""

    keep: timedelta
    rules: str
    after: datetime
    before: datetime


class Step(NamedTuple):
    """How many messages were removed, and whether that was all there is to do now."""

    removed: int
    is_last: bool


def given(retention: Retention) -> Mapping[str, Any]:
    """Return the parameters of what is kept where a channel says nothing of its own."""
    return {"outcomes": list(retention), "keeps": list(retention.values())}


def windows(connection: Connection, retention: Retention) -> list[Window]:
    """Return what there may be to purge, of each length of time that something is kept."""
    return [Window(*row) for row in connection.execute(SQL["windows"], given(retention))]


def purge(connection: Connection, window: Window, retention: Retention) -> Step:
    """Remove the next up to 2 000 messages of a window; note how far that came.

    What somebody has locked is passed over, and goes with its day.
    """
    parameters = {**given(retention), **window._asdict(), "reach": REACH, "limit": BATCH}
    seen, end = connection.execute(SQL["reach"], parameters).fetchone() or (0, None)
    until = min(end, window.before) if end and seen == REACH else window.before
    removed = connection.execute(SQL["purge"], {**parameters, "before": until}).rowcount
    if removed == BATCH:
        return Step(removed, is_last=False)
    connection.execute(SQL["note"], {**parameters, "until": until})
    return Step(removed, is_last=until == window.before)
