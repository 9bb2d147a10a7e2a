"""Plant one fault after another, and run proofs until the checker finds it.

Exit with 1 if a fault is not found. The table that is printed is Markdown, for docs/proof.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.proof.checker.account import account_of
from tests.proof.checker.anomaly import Anomaly, shortest
from tests.proof.checker.rules import check
from tests.proof.director import prove
from tests.proof.mutations import Mutation, named
from tests.proof.mutations.planted import PLANTED

EACH = 40.0
"""Seconds of load of one proof: an anomaly is found at its end."""


def find(mutation: Mutation, *, within: float) -> tuple[float, Anomaly | None]:
    """Run proofs with a fault until one shows an anomaly.

    Args:
        within: seconds.

    Returns:
        The seconds that it took, and the anomaly with the shortest history; None: not found.
    """
    began = time.monotonic()
    while (spent := time.monotonic() - began) < within:
        with tempfile.TemporaryDirectory() as folder:
            logs = Path(folder) / "history"
            logs.mkdir()
            only = set(mutation.faults)
            prove(logs, Path(folder), lasts=EACH, mutation=mutation.name, only=only)
            found = [each for anomalies in check(account_of(logs)).values() for each in anomalies]
        spent = time.monotonic() - began
        if found:
            # Many faults keep a proof from its end: another rule tells more.
            telling = [each for each in found if each.rule != "waiting"] or found
            best = [each for _, each in shortest(telling).values()]
            return spent, min(best, key=lambda each: each.length)
    return spent, None


def main(arguments: list[str] | None = None) -> int:
    """Do as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.mutations")
    parser.add_argument("--minutes", type=float, default=10, help="for each fault (%(default)s)")
    parser.add_argument("names", nargs="*", help="of the faults; none: all")
    options = parser.parse_args(arguments)
    chosen = [named(name) for name in options.names] or PLANTED
    print("| planted fault | found after | by | shortest history |\n|---|---|---|---|", flush=True)
    missed = 0
    for mutation in chosen:
        seconds, found = find(mutation, within=options.minutes * 60)
        missed += found is None
        by = "not found | |" if found is None else f"{found.rule} | {found.words} |"
        print(f"| **{mutation.name}**: {mutation.about} | {seconds:.0f} s | {by}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
