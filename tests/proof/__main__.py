"""Run a proof, check it, and write its report; exit with 1 if there is an anomaly."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.harness.stage import SEED
from tests.proof.checker.account import account_of
from tests.proof.checker.rules import check
from tests.proof.director import prove
from tests.proof.report import Report


def main(arguments: list[str] | None = None) -> int:
    """Do as the command line says; return the exit status."""
    options = _options(arguments)
    logs: Path = options.into / "history"
    logs.mkdir(parents=True, exist_ok=True)
    for old in logs.iterdir():
        old.unlink()
    print(f"{options.minutes:g} minutes; CHAOS_SEED={SEED}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ran = prove(
            logs,
            Path(folder),
            lasts=options.minutes * 60,
            mutation=options.mutation,
            only=set(options.fault),
        )
    account = account_of(logs)
    report = Report(ran, account, check(account), seed=SEED, mutation=options.mutation)
    page = options.into / "report.html"
    page.write_text(report.page())
    print(f"{report.text()}\n{page}")
    return 0 if report.is_good else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof",
        description="Load with faults, and a checker of the history. "
        "CHAOS_SEED repeats the choices of a run.",
    )
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--into",
        type=Path,
        default=Path("build/proof"),
        metavar="FOLDER",
        help="where report.html and the history go (%(default)s)",
    )
    parser.add_argument("--mutation", default="", metavar="NAME", help="plant this fault")
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME", help="only these faults happen"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
