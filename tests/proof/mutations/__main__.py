"""Plant one fault after another, and run proofs until the checker finds it.

Exit with 1 if a fault is not found by one of its rules. The table is Markdown, for docs/proof.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.proof.checker.account import account_of
from tests.proof.checker.anomaly import Anomaly
from tests.proof.checker.rules import check
from tests.proof.director import prove
from tests.proof.mutations import Mutation, named
from tests.proof.mutations.planted import PLANTED

EACH = 40.0
"""Seconds of load of one proof: an anomaly is found at its end."""


def find(
    mutation: Mutation, *, within: float, proof: Callable[[Mutation], list[Anomaly]]
) -> tuple[float, Anomaly | None, set[str]]:
    """Run proofs with a fault until one of its rules finds it.

    Args:
        within: seconds.
        proof: runs a proof with the fault, and returns the anomalies.

    Returns:
        The seconds that it took, the anomaly with the shortest history (None: not found), and the
        names of the other rules that found something.
    """
    began = time.monotonic()
    others: set[str] = set()
    while (spent := time.monotonic() - began) < within:
        found = proof(mutation)
        spent = time.monotonic() - began
        others |= {each.rule for each in found} - set(mutation.found_by)
        if telling := mutation.telling(found):
            return spent, telling, others
    return spent, None, others


def prove_with(mutation: Mutation) -> list[Anomaly]:
    """Run a proof with a fault, and return the anomalies."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "history"
        logs.mkdir()
        only = set(mutation.faults)
        prove(logs, Path(folder), lasts=EACH, mutation=mutation.name, only=only)
        return [each for anomalies in check(account_of(logs)).values() for each in anomalies]


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
        seconds, found, others = find(mutation, within=options.minutes * 60, proof=prove_with)
        missed += found is None
        if found is None:
            by = f"not by {mutation.found_by}, but by {sorted(others)} | |"
        else:
            by = f"{found.rule} | {found.words} |"
        print(f"| **{mutation.name}**: {mutation.about} | {seconds:.0f} s | {by}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
