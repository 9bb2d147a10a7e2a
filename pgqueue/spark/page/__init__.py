"""The report as one HTML page, which needs nothing beside it: no network, no script, no font."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from pgqueue.spark.page import future, groups, headline, hours, objectives, timeline, trouble
from pgqueue.spark.page.rows import Data

if TYPE_CHECKING:
    from pgqueue.spark.report import Report

SECTIONS = (
    timeline.timeline,
    hours.hours,
    objectives.objectives,
    groups.channels,
    groups.tasks,
    groups.keys,
    trouble.errors,
    trouble.storms,
    future.what_if,
    future.changes,
    future.forecast,
)


def render(report: Report) -> str:
    """Return a report as an HTML document."""
    data = Data(report)
    return _template().render(
        head=headline.headline(data), sections=[section(data) for section in SECTIONS]
    )


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
    return environment.get_template("page.html")


__all__ = ["render"]
