"""The report as a table: a row for each system and phase."""

from __future__ import annotations

from tests.benchmarks.harness.report import Report
from tests.benchmarks.harness.results import markdown
from tests.benchmarks.neutral.scenarios import PHASES

LABELS = {
    "done_per_s": "ended runs, per s",
    "p99_ms": "p99 of the waits, ms",
    "depth": "most that waited",
    "dead": "dead rows",
}
"""The columns by the names of figures, without system and phase."""


def name_of(system: str, figure: str, phase: str) -> str:
    """Return the name that a figure has in the report."""
    return f"{system}_{figure}_{phase}"


def lines(report: Report) -> list[str]:
    """Return the table in Markdown; `report.remarks` has the systems and their versions."""
    rows = [
        (version, phase, *(_cell(report, name_of(system, figure, phase)) for figure in LABELS))
        for system, version in report.remarks.items()
        for phase in PHASES
    ]
    return markdown([("", "phase", *LABELS.values()), *rows])


def _cell(report: Report, name: str) -> str:
    """Return a figure; nothing where no sample had one."""
    return f"{report.figures[name]:,}" if name in report.figures else "–"
