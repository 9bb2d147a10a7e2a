"""Tables in pages of the docs that a benchmark writes with its results, between two comments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.benchmarks.harness import scaling
from tests.benchmarks.harness.report import Report
from tests.benchmarks.neutral import table as neutral

DOCS = Path(__file__).resolve().parents[3] / "docs"
TABLES: Mapping[str, tuple[str, Callable[[Report], list[str]]]] = {
    "contention": ("scale.md", scaling.lines),
    "neutral": ("benchmarks.md", neutral.lines),
}
"""The page of each benchmark that has a table there, and the function that returns its lines."""
END = "<!-- The end of the table. -->\n"


def begin(benchmark: str) -> str:
    """Return the comment above a benchmark's table."""
    return f"<!-- Written by `--write` of the benchmark {benchmark}. -->\n"


def written(text: str, benchmark: str, lines: Iterable[str]) -> str:
    """Return a page with these lines as the table of a benchmark.

    Raises:
        ValueError: the page has no place for the table.
    """
    before, mark, rest = text.partition(begin(benchmark))
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"The page must have the comment {begin(benchmark)!r}, and its end.")
    table = "".join(f"{line}\n" for line in lines)
    return f"{before}{mark}\n{table}\n{end}{after}"


def write(reports: Iterable[Report], *, folder: Path = DOCS) -> None:
    """Write the table of each report that has a page."""
    for report in reports:
        if report.benchmark in TABLES:
            name, lines = TABLES[report.benchmark]
            page = folder / name
            page.write_text(
                written(page.read_text("utf-8"), report.benchmark, lines(report)), "utf-8"
            )
