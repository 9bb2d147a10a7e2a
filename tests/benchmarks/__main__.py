"""Run benchmarks, and fail where one misses what it must reach."""

import argparse
import sys
from importlib import import_module
from pkgutil import iter_modules

from tests import benchmarks
from tests.benchmarks.harness import musts, pages, results
from tests.benchmarks.harness.database import database
from tests.benchmarks.harness.report import Report

NAMES = sorted(
    module.name
    for module in iter_modules(benchmarks.__path__)
    if not module.ispkg and not module.name.startswith("_")
)
LASTING = {"events", "pinned", "sustained"}
"""Those that may also be measured for minutes."""
FED = {"events"}
"""Those that may also be measured with another feed of the log."""


def main() -> int:
    """Measure what was asked for, print it, and return the exit code."""
    options = _options()
    reports = []
    with database(by_wal=options.feed == "wal"):
        for name in options.names or NAMES:
            for report in _measured(name, options):
                reports.append(report)
                print(
                    report.as_json() if options.format == "json" else results.table(report),
                    flush=True,
                )
                if options.write or not options.names:
                    results.write([report])
                    pages.write([report])
    missed = [line for report in reports for line in musts.missed(report)]
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


def _measured(name: str, options: argparse.Namespace) -> list[Report]:
    # Imported late: the tasks need Django, which needs the database.
    benchmark = import_module(f"tests.benchmarks.{name}")
    if options.feed == "wal":
        count = options.messages or benchmark.SIZES[0]
        return [benchmark.measure_fed(messages=count, rounds=options.rounds)]
    if options.minutes:
        return [benchmark.measure_for(minutes=options.minutes, rounds=options.rounds)]
    # Several sizes only in the whole run: a user who names one benchmark waits for it.
    sizes = benchmark.SIZES[:1] if options.names else benchmark.SIZES
    return [
        benchmark.measure(messages=size, rounds=options.rounds)
        for size in ([options.messages] if options.messages else sizes)
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure pgqueue; exit with 1 where a must is missed. "
        "On the server of DATABASE_URL, or else on an embedded one.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (all)")
    parser.add_argument("--messages", type=_count, metavar="N", help="instead of its own size")
    parser.add_argument("--rounds", type=_count, metavar="N", help="(3; with --minutes 1)")
    parser.add_argument(
        "--minutes", type=float, metavar="N", help=f"how long, of {', '.join(LASTING)} only"
    )
    parser.add_argument(
        "--feed",
        choices=["poll", "wal"],
        default="poll",
        help=f"of the log, for {', '.join(FED)} only: wal needs a server with wal_level = logical",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument(
        "--write",
        action="store_true",
        help="to RESULTS.md, and to the page of its table; all together always do",
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    if options.minutes and (not options.names or set(options.names) - LASTING):
        parser.error(f"--minutes needs a NAME of these: {', '.join(LASTING)}.")
    if options.feed != "poll" and (not options.names or set(options.names) - FED):
        parser.error(f"--feed needs a NAME of these: {', '.join(FED)}.")
    options.rounds = options.rounds or (1 if options.minutes else 3)
    if options.messages and not options.names:
        parser.error("--messages needs a NAME: sizes differ.")
    return options


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more.")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
