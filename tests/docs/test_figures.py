"""Figures that the pages state are those that were measured."""

from __future__ import annotations

import json
import re

import pytest

from tests.benchmarks.harness import pages
from tests.benchmarks.harness.report import Report
from tests.docs.blocks import ROOT

RESULTS = json.loads((ROOT / "tests/benchmarks/results.json").read_text("utf-8"))
ROW = re.compile(r"^\| .*? \| ([\d.,]+) \| `([\w -]+)` `(\w+)` \|$", re.M)
MEASURED = "enqueue --messages 200000", "drain --messages 1000000", "orm --messages 20000"


def shown(figure: float) -> str:
    return f"{figure:,}"


@pytest.mark.parametrize(
    ("page", "least"),
    [("benchmarks.md", 20), ("scale.md", 4), ("guide/tracing.md", 7), ("from-celery.md", 4)],
)
def test_each_figure_of_a_table_was_measured(page: str, least: int) -> None:
    rows = ROW.findall((ROOT / "docs" / page).read_text("utf-8"))

    assert len(rows) >= least
    assert [(said, run, name) for said, run, name in rows] == [
        (shown(RESULTS[run]["figures"][name]), run, name) for _, run, name in rows
    ]


def test_what_sizing_reckons_with_was_measured() -> None:
    text = (ROOT / "docs/operations.md").read_text("utf-8").partition("### Sizing")[2]
    enqueue, drain, orm = (RESULTS[run]["figures"] for run in MEASURED)

    assert re.findall(r"^\| .*? \| ([\d.,]+) \|", text.partition("\n\n*")[0], re.M) == [
        shown(enqueue["clients_busy_per_s"]),
        shown(enqueue["bulk_per_s"]),
        shown(drain["per_s"]),
        shown(orm["per_s"]),
    ]
    exported = RESULTS["spark --messages 1000000"]["figures"]["export_per_s"]
    assert f"At the {exported:,} rows".replace(",", " ") in (
        (ROOT / "docs/scale.md").read_text("utf-8").replace("\n", " ")
    )


@pytest.mark.parametrize("benchmark", pages.TABLES)
def test_a_table_that_a_benchmark_writes_has_the_figures_that_were_measured(benchmark: str) -> None:
    name, lines = pages.TABLES[benchmark]
    text = (pages.DOCS / name).read_text("utf-8")
    reports = [Report(**each) for each in RESULTS.values() if each["benchmark"] == benchmark]

    assert text == pages.written(text, benchmark, lines(reports[-1]) if reports else [])
