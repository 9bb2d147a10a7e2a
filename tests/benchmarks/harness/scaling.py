"""The model of docs/scale.md: where the next limit is, from the costs of a message."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.harness.report import Report
from tests.benchmarks.harness.results import markdown

CORES = (2, 4, 8, 16, 32)
"""Of PostgreSQL."""
LEAST = 0.5
"""Percent from which on a wait event has a row of its own."""
COSTS = {
    "server_us": "processor time of PostgreSQL for a message, µs",
    "worker_us": "processor time of a worker for a message, µs",
    "wal_bytes": "WAL for a message, bytes",
    "locks": "most locks of a session at once",
    "claims_per_s": "claims and settles of 32 sessions, per s",
    "per_s": "their messages, per s",
}


def lines(report: Report) -> list[str]:
    """Return the tables of the page: the waits, the costs, and the rates that they allow."""
    waits = {
        name.removeprefix("percent_"): value
        for name, value in report.figures.items()
        if name.startswith("percent_")
    }
    shown = sorted(waits.items(), key=lambda each: -each[1])
    return [
        *markdown(
            [
                ("32 sessions wait for", "% of their time"),
                *((f"`{name}`", f"{value:,}") for name, value in shown if value >= LEAST),
            ]
        ),
        "",
        *markdown([("cost", "measured"), *_costs(report)]),
        "",
        *markdown(
            [
                ("cores of PostgreSQL", "messages per s", "cores of workers", "WAL, MB per s"),
                *_rates(report),
            ]
        ),
    ]


def _costs(report: Report) -> Iterator[tuple[str, str]]:
    for name, words in COSTS.items():
        if name in report.figures:
            yield words, f"{report.figures[name]:,}"


def _rates(report: Report) -> Iterator[tuple[str, ...]]:
    """Return the rates that numbers of cores allow, if nothing else limits the queue earlier."""
    if "server_us" not in report.figures:
        return
    for cores in CORES:
        rate = cores * 1e6 / report.figures["server_us"]
        workers = rate * report.figures["worker_us"] / 1e6
        wal = rate * report.figures["wal_bytes"] / 1e6
        yield str(cores), f"{float(f'{rate:.3g}'):,.0f}", f"{workers:.1f}", f"{wal:.0f}"
