"""Measure peers, and fail where we miss what we must reach."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

import psycopg

from tests.benchmarks.harness import musts, results
from tests.benchmarks.harness.database import database
from tests.benchmarks.harness.report import Report, repeat

if TYPE_CHECKING:
    from tests.benchmarks.peers.peer import Peer
    from tests.benchmarks.peers.places import Place

MESSAGES = 120_000
ROUNDS = 5
FINISHED = 1_000_000
MISSING = "was not measured"


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
    # Imported late: they need Django, which needs the database.
    from tests.benchmarks.peers.peer import ADAPTERS
    from tests.benchmarks.peers.places import places
    from tests.benchmarks.peers.rounds import OURS, Rounds

    with places() as (empty, full):
        # Adapters look for where they store when they are imported.
        os.environ.update(empty.environment)
        names = options.names or ADAPTERS
        wanted = [each for each in ADAPTERS if each in (OURS, *names)]
        finished = max(1000, FINISHED * options.messages // MESSAGES)
        found, remarks = _found(wanted, lambda peer: _install(peer, empty, full, finished))
        return repeat(
            "peers",
            Rounds(found, empty, full, only=options.only).measure,
            messages=options.messages,
            rounds=options.rounds,
            remarks=remarks,
        )


def _found(
    names: Iterable[str], install: Callable[[Peer], None]
) -> tuple[list[Peer], dict[str, str]]:
    """Return the peers that can be had, and remarks on all."""
    from tests.benchmarks.peers.measures import Failed
    from tests.benchmarks.peers.peer import module

    found, remarks = [], {}
    for name in names:
        try:
            peer: Peer = import_module(module(name)).PEER
            install(peer)
        except (ImportError, KeyError, psycopg.Error, Failed) as error:
            # KeyError: it looked for a Redis that is not there.
            print(f"    {error!r}", file=sys.stderr)
            remarks[name] = f"{MISSING}: {str(error).splitlines()[0]} is missing or failed."
        else:
            found.append(peer)
            remarks[name] = f"{peer.title} {peer.version}: {peer.settings}."
    return found, remarks


def _not_measured(report: Report) -> list[str]:
    """Say whom ours was not compared with: the best of the others may be among them."""
    return [f"{name} {said}" for name, said in report.remarks.items() if said.startswith(MISSING)]


def _install(peer: Peer, empty: Place, full: Place, finished: int) -> None:
    from tests.benchmarks.peers import measures

    print(f"  installing: {peer.title}", file=sys.stderr, flush=True)
    for place in (empty, full):
        measures.install(peer, place)
    if peer.finished:
        full.execute(peer.finished, {"count": finished})
        peer.settle_down(full)


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
