"""A real worker: `manage.py runworker`, with what it does by default."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from pgqueue.database.sql_files import load
from tests.benchmarks.harness.database import ROOT
from tests.benchmarks.harness.session import ask

SQL = load(__name__)
PATIENCE = 60.0  # seconds


@dataclass(frozen=True)
class Worker:
    """One that runs, and where its log goes."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def wait_until(
        self, condition: Callable[[], bool], *, every: float = 0.02, patience: float = PATIENCE
    ) -> None:
        """Ask again and again.

        Raises RuntimeError where the worker is dead, or nothing comes of it.
        """
        until = time.monotonic() + patience
        while not condition():
            if self.process.poll() is not None or time.monotonic() > until:
                self.log.seek(0)
                said = self.log.read().decode(errors="replace")
                what = getattr(condition, "__name__", condition)
                raise RuntimeError(
                    f"The worker did not do what it was to do: {what}. It said:\n{said}"
                )
            time.sleep(every)

    def rss_mb(self) -> float:
        """Return the most memory it ever had, in MB of a million bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        lines = dict(line.split(":", 1) for line in status.splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024 / 1e6


@contextmanager
def running(name: str = "runworker", *arguments: str, **environment: str) -> Iterator[Worker]:
    """Have a worker while this lasts: ours, or what another command runs."""
    with started([*command(name, *arguments), "--verbosity", "0"], **environment) as worker:
        yield worker


def command(*arguments: str) -> list[str]:
    """Return what runs a management command."""
    return [sys.executable, str(ROOT / "manage.py"), *arguments]


@contextmanager
def started(program: Sequence[str], **environment: str) -> Iterator[Worker]:
    """Have a program run while this lasts."""
    with TemporaryFile() as log:
        process = subprocess.Popen(
            program,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield Worker(process, log)
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_idle() -> bool:
    """Say whether a worker has nothing left, and waits for notices."""
    return bool(ask(SQL["idle"])[0])


def is_busy() -> bool:
    """Say whether the worker asks for no notices."""
    return bool(ask(SQL["busy"])[0])
