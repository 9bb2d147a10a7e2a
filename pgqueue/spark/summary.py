"""A report in a few lines, for a terminal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgqueue.spark.report import Report

SHOWN = 5
"""The most rows of a table."""


def text(report: Report) -> str:
    """Return the summary of a report."""
    facts, tables = report.facts, report.tables
    since, until = facts["since"], facts["until"]
    assert isinstance(since, datetime)  # noqa: S101
    assert isinstance(until, datetime)  # noqa: S101
    lines = [f"{since:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S} UTC, {facts['source']}"]
    if not facts["messages"]:
        return "\n".join([*lines, "No message ended in this time."])
    all_ = tables["summary"].iloc[0]
    lines += [
        f"{all_.messages:.0f} messages ended, {_number(all_.per_s)} a second: "
        f"{_share(all_.success_rate)} succeeded, {_share(all_.death_rate)} died, "
        f"{_share(all_.retry_rate)} were retried, {_share(all_.loss_rate)} were lost.",
        "",
        f"{'':10}{'p50':>10}{'p95':>10}{'p99':>10}  ({facts['percentiles']})",
    ]
    for name in ("wait", "run"):
        times = "".join(f"{duration(all_[f'{name}_{p}_s']):>10}" for p in ("p50", "p95", "p99"))
        lines.append(f"{name:10}{times}")
    for by in ("channel", "task"):
        lines += ["", f"{by:40}{'messages':>10}{'died':>8}{'wait p99':>10}{'run p99':>10}"]
        rows = tables[f"by_{by}"]
        lines += [_row(row, by) for _, row in rows.head(SHOWN).iterrows()]
        lines += _rest(len(rows))
    flows = tables["flows"]
    if len(flows):
        lines += ["", f"{'flow':40}{'flows':>10}{'p50':>10}{'p95':>10}{'longest':>10}"]
        lines += [_flow(row) for _, row in flows.head(SHOWN).iterrows()]
        lines += _rest(len(flows))
    waits = tables["waits"]
    if len(waits):
        lines += ["", f"{'wait':40}{'waits':>10}{'p50':>10}{'p95':>10}{'longest':>10}"]
        lines += [_wait(row) for _, row in waits.head(SHOWN).iterrows()]
        lines += _rest(len(waits))
    return "\n".join(lines)


def _rest(rows: int) -> list[str]:
    return [f"and {rows - SHOWN} more"] if rows > SHOWN else []


def _flow(row: Any) -> str:
    times = (row.duration_p50_s, row.duration_p95_s, row.duration_max_s)
    return f"{row.flow[:39]:40}{row.flows:>10}" + "".join(f"{duration(each):>10}" for each in times)


def _wait(row: Any) -> str:
    name = f"{row.task.rpartition('.')[2]}, {row.step}"[:39]
    times = (row.wait_p50_s, row.wait_p95_s, row.wait_max_s)
    return f"{name:40}{row.waits:>10}" + "".join(f"{duration(each):>10}" for each in times)


def duration(seconds: float) -> str:
    """Return seconds in the unit that suits them; a dash for NaN."""
    if seconds != seconds:
        return "-"
    for limit, factor, unit in ((1, 1000, "ms"), (120, 1, "s"), (7200, 1 / 60, "min")):
        if seconds < limit:
            return f"{_number(seconds * factor)} {unit}"
    return f"{_number(seconds / 3600)} h"


def _row(row: Any, by: str) -> str:
    return (
        f"{row[by][:39]:40}{row.messages:>10}{_share(row.death_rate):>8}"
        f"{duration(row.wait_p99_s):>10}{duration(row.run_p99_s):>10}"
    )


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _share(share: float) -> str:
    return f"{100 * share:.3g} %"
