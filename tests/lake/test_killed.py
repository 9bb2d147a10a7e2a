"""An export that is killed at any moment, while messages end, loses none and repeats none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from pgqueue.models import Export
from tests.factories import Connection, ended
from tests.lake.lakes import OurLake
from tests.lake.test_exporting import all_ids
from tests.processes import ROOT, database_url
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import positions, publish


def start(lake: OurLake, *, batch: int) -> subprocess.Popen[str]:
    """Start an export in a process group of its own."""
    return subprocess.Popen(
        [
            *(sys.executable, "manage.py", "pgqueue_export", f"--to={lake.folder}"),
            *(f"--tables-format={lake.name}", f"--batch={batch}"),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.worker_settings",
            "DATABASE_URL": database_url(),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def write(url: str, stopping: threading.Event) -> None:
    """Let messages end, in transactions that overlap."""
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        while not stopping.wait(0.2):
            ended(first, 20)
            ended(first, 10, at=datetime.now(UTC) - timedelta(days=1))
            ended(second, 20)
            publish(first, 10)
            publish(second, 10, at=datetime.now(UTC) - timedelta(days=1))
            second.commit()
            first.commit()


def commits(connection: Connection) -> tuple[int, int]:
    """Return how far the database knows the export to be."""
    row = Export.objects.values_list("message_id", "event_position").first()
    return row or (0, 0)


def kill(process: subprocess.Popen[str], connection: Connection, *, after: float) -> None:
    """Kill an export some seconds after its next batch was noted."""
    before = commits(connection)
    until = time.monotonic() + 60
    while commits(connection) == before and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(after)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_it_is_the_same_to_every_reader(lake: OurLake, connection: Connection) -> None:
    chance = random.Random(7)
    stopping = threading.Event()
    ended(connection, 2000)
    publish(connection, 2000)
    writers = [threading.Thread(target=write, args=(lake.url, stopping)) for _ in range(2)]
    for each in writers:
        each.start()
    try:
        for _ in range(3):
            kill(start(lake, batch=20), connection, after=chance.random())
    finally:
        stopping.set()
        for each in writers:
            each.join()
    wait_for_horizon(lake.url)

    last = start(lake, batch=5000)
    _, err = last.communicate(timeout=300)

    assert last.returncode == 0, err
    assert lake.values("history", "id") == all_ids(connection)
    assert len(positions(connection)) > 2000
    assert lake.values("events", "position") == sorted(positions(connection), key=str)
