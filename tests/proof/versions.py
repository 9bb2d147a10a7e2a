"""Two versions of pgqueue at once: `python -m tests.proof.versions COMMIT…`.

For each commit or tag, its own code makes the tables, and its workers, producers and readers begin.
A worker of this checkout comes and must wait for `migrate`, which then runs under load. After it,
each process that is started is of the one version or of the other one, in turn, while faults
happen. The checker decides about all of it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests import programs
from tests.chaos.harness.migrated import migrate
from tests.chaos.harness.processes import Process
from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import SEED
from tests.eventually import eventually
from tests.proof.checker.account import account_of
from tests.proof.checker.rules import check
from tests.proof.director import ProofDirector, Ran, set_up
from tests.proof.report import Report
from tests.proof.stage import ProofStage
from tests.starting import ROOT

OURS = ("chaos", "proof")
"""Folders of tests whose programs take part, in both versions."""
FAULTS = {"kill_a_worker", "deploy", "kill_a_process", "stop_a_process", "kill_a_maker"} | {
    *("kill_a_reader", "terminate_a_backend", "reset_connections")
}
WAITS = "run manage.py migrate"
HEAD = "| version | migrations under load | operations | faults | anomalies |"


def check_out(version: str, folder: Path) -> None:
    """Write the files of a version into a folder, with the programs of this proof.

    Raises:
        SystemExit: the version has no durable tasks, which these programs use.
    """
    git = [programs.find("git", package="git"), "archive", "--format=zip", version]
    packed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True).stdout
    with ZipFile(BytesIO(packed)) as files:
        files.extractall(folder)
    if not (folder / "pgqueue" / "durable").is_dir():
        raise SystemExit(f"{version} has no durable tasks: name a version that has migration 0009.")
    for name in OURS:
        shutil.copytree(ROOT / "tests" / name, folder / "tests" / name, dirs_exist_ok=True)


def migrations(root: Path) -> set[str]:
    """Return the names of a checkout's migrations."""
    return {each.stem for each in (root / "pgqueue" / "migrations").glob("0*.py")}


class MixedStage(ProofStage):
    """Starts processes of an old version, or of both in turn.

    Attributes:
        is_mixed: whether this checkout's processes take part.
        missing: the migrations that the old version does not have.

    Args:
        old: its checkout.
    """

    def __init__(self, old: Path, *given: Any, **options: Any) -> None:
        self._old = old
        self.missing = migrations(ROOT) - migrations(old)
        self._started = count()
        self.is_mixed = False
        super().__init__(*given, **options)

    def _process(
        self,
        name: str,
        arguments: list[str],
        port: int | None,
        environment: Mapping[str, str],
        root: Path | None,
    ) -> Process:
        if root is None and not (self.is_mixed and next(self._started) % 2):
            root = self._old
        return super()._process(name, arguments, port, environment, root)


class MixedDirector(ProofDirector):
    """Migrates under load, before the faults begin."""

    _stage: MixedStage

    _is_migrated = False

    def _fill(self) -> None:
        super()._fill()
        if not self._is_migrated:
            self._is_migrated = True
            nap(5)
            if self._stage.missing:
                self._let_happen(self.migrate)
            self._stage.is_mixed = True

    def migrate(self) -> None:
        """Have a new worker wait for the tables, and migrate."""
        stage = self._stage
        new = stage.worker(root=ROOT, serves=lambda each: WAITS in each.log)
        nap(3)
        assert "Serving" not in new.log, "the new worker did not wait for migrate"
        migrate(stage.server)
        eventually(lambda: "Serving" in new.log, within=120, what="the new worker serves")
        stage.retire(new)


def mix(version: str, logs: Path, folder: Path, *, lasts: float) -> tuple[Ran, int]:
    """Run a version beside this checkout; leave the logs and the dump.

    Returns:
        Its course, and the number of migrations that ran under load.
    """
    old = folder / "old"
    old.mkdir()
    check_out(version, old)
    with set_up(partial(MixedStage, old), logs, folder, root=old) as stage:
        return MixedDirector(stage, FAULTS).run(lasts), len(stage.missing)


def main(arguments: list[str] | None = None) -> int:
    """Do as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.versions")
    parser.add_argument("--minutes", type=float, default=2, help="for each version (%(default)s)")
    parser.add_argument("versions", nargs="+", help="tags or commits")
    options = parser.parse_args(arguments)
    print(f"{HEAD}\n{'|---' * HEAD.count(' | ')}|---|", flush=True)
    bad = 0
    for version in options.versions:
        with tempfile.TemporaryDirectory() as folder:
            logs = Path(folder) / "history"
            logs.mkdir()
            ran, migrated = mix(version, logs, Path(folder), lasts=options.minutes * 60)
            account = account_of(logs)
            report = Report(ran, account, check(account), seed=SEED)
        found = sum(map(len, check(account).values()))
        bad += not report.is_good
        row = [version, migrated, len(account.operations), ran.faults.total(), found]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
        if not report.is_good:
            print(report.text(), file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
