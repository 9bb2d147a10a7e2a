"""Reports as text: for the terminal, and in RESULTS.md with results.json beside it."""

import ast
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.musts import Must, musts_of
from tests.benchmarks.harness.report import Report

FOLDER = Path(__file__).resolve().parents[1]
HEAD = """\
# Results

Written by `make bench`, `make bench-peers` and `make bench-neutral`; the figures as JSON are in
results.json. Each is the median of some rounds, with the least and the most in brackets; a ratio is
the median of the rounds' own ratios. The file of a benchmark explains the names of its figures.
That no limit is exceeded, nothing lost or stuck, and nothing deadlocked is not measured but tested:
`make model` ends at the first.

Below each table are its day and its machine. Since 2026-11-29 that line says how many loops of
Python a second one core runs. The machines differ by a factor of 2.5 (a drain of 11,700/s, or of
28,400/s, by the same code), so figures compare only within a run, and ratios beyond it.

All tables are of 2026-12-01 but these:

- `backlog` (2026-11-20) and `pinned` (2026-11-23) are older than flows, for which messages and
  history have columns of their own, and than what the other lines name.
- `events --minutes 20` (2026-11-25) is older than the constraints on the values of tables.
- `search` (2026-11-28) is newer than batch tasks, log lines of runs, tenants, weights, and circuit
  breakers. It is older than the shorter settle of a success.
- `neutral` (2026-11-29) is of a slow machine, and older than the warm-up of its runner, and than
  the analysis of the tables.
- `peers`, `lake`, `spark` and `sustained` are of 2026-11-30, on quick machines. COPY reads
  for Spark by a sub-select since then.

The machine of 2026-12-01 was shared: one core ran between 50 and 85 million loops a second, and
figures were up to 15 % less than on quiet machines. By turns with `7e26d7d7`, a commit of
2026-11-28, a drain had 25,730/s and 30,690/s (27,660 and 28,040), and a bulk of 200,000 calls had
87,100/s (85,900; medians of eight). A saturated claim took 5.99 and 7.68 ms (6.96 and 8.05). So the
code of today is not slower.

These were measured by turns with `7e26d7d7`, the last commit before batch tasks, on 2026-11-29, in
three rounds; its figures are in brackets. A drain had 28,380/s (26,990), governed lanes 12,960/s
(13,190), a saturated claim took 5.9 ms (5.5), a task began after 2.57 ms (2.46), and ORM tasks had
2,133/s (2,028). A governed claim counts the messages of a lane once since then: 4 to 5 % less time.

The claim of the next step of a chain before any other look was measured by turns on the slow
machine, without anything else: `chain_step_ms` was 15.5 before it, and 11.5 with it (medians of six
chains of 200 steps).

`spark` measures a warm session, and no longer counts the deletion of the messages that it has
enqueued. Exports one after the other, without anything between, came to 134,000/s (131,000 to
140,000). The report took 22 s before Spark kept all generated classes, and 17 then (by turns).
`reader_per_s` is of one thread of DuckDB: a commit later, it has two outside of Spark.

DuckDB reads many rows for Spark, too, since 2026-11-30. On one connection, a million rows of eight
columns were read at 790,000/s, in place of 290,000 by COPY as text. Rows of all columns came at
316,000/s (148,000), and redacted ones at 263,000/s (117,000).

A report's replays of 84,546 attempts take 7.4 s of a processor on a slow machine, in place of 10.7
(medians by turns), with equal results. A replay compares whole numbers, and none is made twice. A
process beside Spark's for the replays was tried. The first report of a session took 34.2 s in place
of 36.9, and later ones as long as before (21.6 and 22.1 s; by turns), since Spark keeps both cores
busy. So the replays stay in the driver.

Workflows beside two peers were also measured alone on 2026-11-28, in 3 rounds on 2 quick cores:
pgqueue 2,238/s (1,704–2,345), DBOS 211 (202–215), django-absurd 409 (402–434).
"""
COLUMNS = ("metric", "measured", "must", "aim", "verdict")
SHOWN = {"peers", "neutral"}
"""Benchmarks with too many figures for a list: their `lines()` return tables."""


def table(report: Report) -> str:
    """Return a report for a terminal."""
    listed = [COLUMNS, *rows(report)]
    widths = [max(len(row[column]) for row in listed) for column in range(len(COLUMNS))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in listed]
    return "\n".join([_title(report), _circumstances(report), "", *lines, ""])


def write(reports: Iterable[Report], *, folder: Path = FOLDER) -> None:
    """Put these in the place of earlier ones, and leave those of other benchmarks."""
    file = folder / "results.json"
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    kept |= {_title(report): asdict(report) for report in reports}
    kept = dict(sorted(kept.items()))
    file.write_text(json.dumps(kept, indent=2) + "\n")
    sections = [_section(Report(**report)) for report in kept.values()]
    (folder / "RESULTS.md").write_text("\n".join([HEAD, *sections]))


def _section(report: Report) -> str:
    name = f"tests.benchmarks.{report.benchmark}"
    lines = import_module(name).lines if report.benchmark in SHOWN else _lines
    settings = ", ".join(f"{name} {value}" for name, value in report.machine["settings"].items())
    return "\n".join(
        [
            f"## {_title(report)}\n",
            f"{_about(name)}\n",
            *lines(report),
            f"\n{_circumstances(report)} Server: {settings}.\n",
        ]
    )


def _about(name: str) -> str:
    """Return the first line of a benchmark, without importing what it measures with."""
    spec = find_spec(name)
    source = Path(spec.origin).read_text("utf-8") if spec and spec.origin else ""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _lines(report: Report) -> list[str]:
    return markdown([COLUMNS, *rows(report)])


def markdown(table: Sequence[Sequence[str]]) -> list[str]:
    """Return a table's lines, its first row being the head."""
    head, *body = table
    return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *body)]


def _title(report: Report) -> str:
    size = f"--minutes {report.minutes:g}" if report.minutes else f"--messages {report.messages}"
    feed = "" if report.feed == "poll" else f" --feed {report.feed}"
    return f"{report.benchmark} {size}{feed}"


def _circumstances(report: Report) -> str:
    on = report.machine
    # Reports of before 2026-11-29 don't have it.
    speed = (
        f" of {on['million_loops_per_s']} million loops/s" if "million_loops_per_s" in on else ""
    )
    return (
        f"{report.measured_at}, {report.rounds} rounds, {on['cpu']}, {on['cores']} cores{speed}, "
        f"{on['memory_gb']} GB, load before {on['load_before']}; PostgreSQL {on['postgresql']}, "
        f"Python {on['python']}, Django {on['django']}, psycopg {on['psycopg']}."
    )


def rows(report: Report) -> list[tuple[str, ...]]:
    """Return what was measured, metric by metric, and how it was judged."""
    musts = musts_of(report)
    return [
        (metric, _measured(value, report.spread[metric]), *_judged(musts.get(metric), value))
        for metric, value in report.metrics.items()
    ]


def _measured(value: float, spread: Iterable[float]) -> str:
    least, most = spread
    return f"{value:,} ({least:,}–{most:,})"


def _judged(must: Must | None, value: float) -> tuple[str, str, str]:
    if must is None:
        return "", "", ""
    return f"{must.sign} {must.must:,}", f"{must.sign} {must.aim:,}", must.judge(value)
