"""Exports in processes of their own, which are killed while messages end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from tests.factories import ended
from tests.processes import ROOT, database_url, environment
from tests.spark.log import publish


def start(folder: Path, *options: str, batch: int, alias: str = "default") -> subprocess.Popen[str]:
    """Start an export of a database, with its processes in a process group of its own."""
    return subprocess.Popen(
        [
            *(sys.executable, "manage.py", "pgqueue_export"),
            *(f"--to={folder}", f"--batch={batch}", *options),
        ],
        cwd=ROOT,
        env=environment(DATABASE_URL=database_url(alias)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def kill(
    process: subprocess.Popen[str],
    has_moved: Callable[[], bool],
    *,
    after: float,
    within: float,
) -> None:
    """Kill an export and all its processes.

    Args:
        has_moved: returns whether the export has come to the moment that is meant.
        after: seconds from that moment to the kill.
        within: seconds in which that moment must come.
    """
    until = time.monotonic() + within
    while not has_moved() and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(after)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, err


@contextmanager
def messages_ending(url: str, *, every: float) -> Iterator[None]:
    """Let messages end and events be published in the block, in transactions that overlap.

    Args:
        every: seconds between two pairs of transactions.
    """
    stopping = threading.Event()
    writers = [threading.Thread(target=_write, args=(url, stopping, every)) for _ in range(2)]
    for each in writers:
        each.start()
    try:
        yield
    finally:
        stopping.set()
        for each in writers:
            each.join()


def _write(url: str, stopping: threading.Event, every: float) -> None:
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        while not stopping.wait(every):
            ended(first, 20)
            ended(first, 10, at=datetime.now(UTC) - timedelta(days=1))
            ended(second, 20)
            publish(first, 10)
            publish(second, 10, at=datetime.now(UTC) - timedelta(days=1))
            second.commit()
            first.commit()
