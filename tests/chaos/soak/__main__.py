"""Run it, plot it, and fail where something was lost or it has become slower."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.harness.stage import SEED
from tests.chaos.soak.director import soak
from tests.chaos.soak.record import Record
from tests.chaos.soak.verdict import judge


def main(arguments: list[str] | None = None) -> int:
    """Do as the command line says; return the exit status."""
    # Of the extra `soak`, which not everybody has.
    from tests.chaos.soak.plot import plot

    options = _options(arguments)
    options.into.mkdir(parents=True, exist_ok=True)
    raw, picture = options.into / "soak.jsonl", options.into / "soak.png"
    lasts = options.minutes * 60
    print(f"{options.minutes:g} minutes; CHAOS_SEED={SEED}", flush=True)
    try:
        with tempfile.TemporaryDirectory() as folder, Record(raw) as record:
            record.write("run", seed=SEED, minutes=options.minutes)
            probes = soak(record, Path(folder), lasts=lasts)
    finally:
        plot(raw, picture)
    verdict = judge(probes, lasts)
    print(f"{verdict}\n{picture}")
    return 0 if verdict.is_good else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.soak",
        description="Mixed load with faults; exit with 1 where it becomes slower. "
        "CHAOS_SEED repeats the choices of a run.",
    )
    parser.add_argument("--minutes", type=float, default=60, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--into",
        type=Path,
        default=Path("tests/benchmarks"),
        metavar="FOLDER",
        help="where soak.png and soak.jsonl go (%(default)s)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
