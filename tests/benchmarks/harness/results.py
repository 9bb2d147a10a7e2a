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

What was measured before 2026-11-26 is older than flows, for which messages and history have columns
of their own.

The figures up to 2026-11-26 are older than the constraints on the values of tables, and than
`guard` around calls of the user's code.

The figures up to 2026-11-27 are older than notifications of requests to cancel, and than classes of
other packages as arguments.

Figures of the code of 2026-11-28: `governed`, `latency`, `orm`, `batch`, `search`, `contention`,
and `drain` with 200,000 messages. The others are older than batch tasks, log lines of runs,
tenants, weights, urgent messages, pauses with an end, circuit breakers, shared commits of steps,
and `--drain` with shorter naps. `9c402f8` is older than all these, and older than the constraints
on values. It was measured beside the newest code on 2026-11-29, in three rounds by turns. Since
then a drain became a tenth slower, claims of lanes an eighth, ORM tasks 4 %, and an idle worker
begins a task 0.4 ms later.

`governed`, `latency`, `orm` and `drain` are older than the shorter settle of a success and the
shorter claim of governed lanes. On 2026-11-29 the newest code was measured by turns with
`7e26d7d7`, the last commit before batch tasks, in three rounds. Its figures are in brackets. A
drain had 28,380/s (26,990), and governed lanes 12,960/s (13,190). A saturated claim took 5.9 ms
(5.5), and a task began after 2.57 ms (2.46). ORM tasks had 2,133/s (2,028).

`governed` is also older than a claim that counts the messages of a lane once. By turns on a slower
machine, a saturated claim then took 4 to 5 % less time, and 2 to 3 % more than at `7e26d7d7`.

All figures here are older than the last changes of 2026-11-29: settles of failures have a
transaction of their own, retries and deferrals look whether a durable run has begun, and a durable
step behind new values is stored as it begins. None of them was measured.

`durable` is newer than the features named here, but older than the
router that waits for no flush. `flows` and `ordered` are older than both.

Workflows beside two peers were measured alone on 2026-11-28, in 3 rounds of one run on 2 cores:
pgqueue 2,238/s (1,704–2,345), DBOS 211 (202–215), django-absurd 409 (402–434). The ratios were 11.1
(7.9–11.1, must 10) and 5.4 (4.2–5.6, must 4). An earlier run had 10.5 (9.9–11.4) and 5.1 (4.8–5.2).
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
