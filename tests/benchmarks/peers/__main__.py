"""Measure peers, and fail where we miss what we must reach."""

from __future__ import annotations

import argparse
import sys

from tests.benchmarks.harness import musts, results
from tests.benchmarks.harness.database import database
from tests.benchmarks.harness.report import Report, repeat

MESSAGES = 120_000
ROUNDS = 5
FINISHED = 1_000_000


def main() -> int:
    """Measure, print, write, and return the exit code."""
    options = _options()
    with database():
        report = _measured(options)
    print(report.as_json() if options.format == "json" else results.table(report), flush=True)
    is_part = bool(options.names or options.only)
    is_whole = not is_part and (options.messages, options.rounds) == (MESSAGES, ROUNDS)
    if options.write or is_whole:
        _write(report)
    # A part of it lacks what the musts are about.
    missed = [] if is_part else [*musts.missed(report), *_not_measured(report)]
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


def _measured(options: argparse.Namespace) -> Report:
    # Imported late: it needs Django, which needs the database.
    from tests.benchmarks.peers.rounds import measuring

    finished = max(1000, FINISHED * options.messages // MESSAGES)
    with measuring(options.names, only=options.only, finished=finished) as (rounds, remarks):
        return repeat(
            "peers",
            rounds.measure,
            messages=options.messages,
            rounds=options.rounds,
            remarks=remarks,
        )


def _not_measured(report: Report) -> list[str]:
    """Say whom ours was not compared with: the best of the others may be among them."""
    from tests.benchmarks.peers.rounds import MISSING

    return [f"{name} {said}" for name, said in report.remarks.items() if said.startswith(MISSING)]


def _write(report: Report) -> None:
    from tests.benchmarks.peers import chart, table

    results.write([report])
    chart.draw(report, results.FOLDER / table.CHART)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.peers",
        description="Measure pgqueue and other queues side by side, on the server of "
        "DATABASE_URL or else on an embedded one. A whole run is written to RESULTS.md.",
    )
    parser.add_argument("names", nargs="*", metavar="PEER", help="beside ours (all)")
    parser.add_argument(
        "--messages",
        type=int,
        default=MESSAGES,
        metavar="N",
        help="of ours in a drain; all else in proportion (%(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--only", action="append", metavar="MEASUREMENT", help="such as drain; may be repeated"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--write", action="store_true", help="a part of it, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
