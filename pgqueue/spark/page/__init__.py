"""The report as one self-contained HTML page: without network, scripts and fonts."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from pgqueue.spark.page import (
    flows,
    future,
    groups,
    headline,
    hours,
    objectives,
    timeline,
    trouble,
    waits,
)
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
    "waits": waits.waits,
    "errors": trouble.errors,
    "retry_storms": trouble.storms,
    "what_if": future.what_if,
    "change_points": future.changes,
    "forecast": future.forecast,
}
"""The sections of the page, by their tables. A section without its table is left out."""
_JOINTS = re.compile(r"([._/@:-])(?=\w)")


def render(report: Report) -> str:
    """Return a report as an HTML document.

    A section whose table is empty gets a sentence with the reason. A section whose table is missing
    in the report is left out.
    """
    data = Data(report)
    sections = [section(data) for table, section in SECTIONS.items() if table in report.tables]
    return _template().render(head=headline.headline(data), sections=sections)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader(__name__),
        # Texts of errors may contain markup.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template("page.html")


def _breakable(text: str) -> Markup:
    """Return a name with possible line breaks after its dots and underscores."""
    return Markup(_JOINTS.sub(r"\1<wbr>", str(escape(text))))  # noqa: S704


__all__ = ["render"]
