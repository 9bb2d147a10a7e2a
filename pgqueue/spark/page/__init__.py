"""The report as one HTML page, which needs nothing beside it: no network, no script, no font."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from pgqueue.spark.page import flows, future, groups, headline, hours, objectives, timeline, trouble
from pgqueue.spark.page.rows import Data

if TYPE_CHECKING:
    from pgqueue.spark.report import Report

SECTIONS = {
    "over_time": timeline.timeline,
    "by_hour": hours.hours,
    "slo": objectives.objectives,
    "by_channel": groups.channels,
    "by_task": groups.tasks,
    "by_key": groups.keys,
    "flows": flows.flows,
    "errors": trouble.errors,
    "retry_storms": trouble.storms,
    "what_if": future.what_if,
    "change_points": future.changes,
    "forecast": future.forecast,
}
"""What is on the page, by the table without which it is left out."""
_JOINTS = re.compile(r"([._/@:-])(?=\w)")


def render(report: Report) -> str:
    """Return a report as an HTML document.

    What an empty table is about gets a sentence that says why it is empty; what a table is about
    that the report doesn't have gets none.
    """
    data = Data(report)
    sections = [section(data) for table, section in SECTIONS.items() if table in report.tables]
    return _template().render(head=headline.headline(data), sections=sections)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader(__name__),
        # Texts of errors contain anything.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template("page.html")


def _breakable(text: str) -> Markup:
    """Let a long name break after its dots and underscores."""
    return Markup(_JOINTS.sub(r"\1<wbr>", str(escape(text))))  # noqa: S704


__all__ = ["render"]
