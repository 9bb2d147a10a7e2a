"""The report as tables: ratios with their verdicts, and peers beside each other."""

from __future__ import annotations

from tests.benchmarks.harness.report import Report
from tests.benchmarks.harness.results import COLUMNS, markdown, rows
from tests.benchmarks.peers.peer import ADAPTERS

CHART = "peers.svg"
LABELS = {
    "enqueue_per_s": "enqueued one by one, per s",
    "bulk_per_s": "enqueued in bulk, per s",
    "clients_per_s": "enqueued by 32 clients, per s",
    "drain_per_s": "no-ops, per s",
    "compat_drain_per_s": "no-ops declared as Celery's, per s",
    "chord_per_s": "chords of 1 000, per s",
    "compat_chord_per_s": "chords of 1 000 by Celery's words, per s",
    "connecting_drain_per_s": "no-ops at CONN_MAX_AGE 0, per s",
    "full_drain_per_s": "no-ops beside 1 M finished, per s",
    "nap_drain_per_s": "sleeping 5 ms, per s",
    "connecting_nap_drain_per_s": "sleeping 5 ms at CONN_MAX_AGE 0, per s",
    "query_drain_per_s": "one ORM query each, per s",
    "connecting_query_drain_per_s": "one ORM query each at CONN_MAX_AGE 0, per s",
    "workflows_per_s": "workflows of 3 steps that do nothing, per s",
    "pickup_p50_ms": "pick-up, p50, ms",
    "pickup_p99_ms": "pick-up, p99, ms",
    "lost": "kill -9: lost",
    "stuck": "kill -9: stuck after 15 s",
    "doubled": "kill -9: doubled",
}
"""Figures in the order they are shown, without the peer's name."""


def lines(report: Report) -> list[str]:
    """Return all of it in Markdown."""
    ratios = [row for row in rows(report) if row[0].startswith("ratios.")]
    return [
        *markdown([COLUMNS, *ratios]),
        "",
        f"![How the peers compare]({CHART})",
        "",
        *markdown([("", *ADAPTERS), *(_row(report, figure) for figure in LABELS)]),
        "",
        *(f"- **{name}** {remark}" for name, remark in report.remarks.items()),
    ]


def _row(report: Report, figure: str) -> tuple[str, ...]:
    return LABELS[figure], *(_cell(report, f"{peer}_{figure}") for peer in ADAPTERS)


def _cell(report: Report, name: str) -> str:
    """Return a median with its spread; nothing where a peer has no such thing, or failed."""
    if name not in report.figures:
        return "–"
    least, most = report.spread[f"figures.{name}"]
    return f"{report.figures[name]:,} ({least:,}–{most:,})"
