"""An export that is killed at any moment, while messages end, loses none and repeats none."""

from __future__ import annotations

import random
import subprocess

import pytest

from pgqueue.models import Export
from tests import killed_exports
from tests.factories import Connection, ended
from tests.killed_exports import messages_ending, start
from tests.lake.lakes import OurLake
from tests.lake.test_exporting import all_ids
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import positions, publish


def commits(connection: Connection) -> tuple[int, int]:
    """Return how far the database knows the export to be."""
    row = Export.objects.values_list("message_id", "event_position").first()
    return row or (0, 0)


def kill(process: subprocess.Popen[str], connection: Connection, *, after: float) -> None:
    """Kill an export some seconds after its next batch was noted."""
    before = commits(connection)
    killed_exports.kill(process, lambda: commits(connection) != before, after=after, within=60)


@pytest.mark.timeout(400)
def test_it_is_the_same_to_every_reader(lake: OurLake, connection: Connection) -> None:
    chance = random.Random(7)
    of_lake = f"--tables-format={lake.name}"
    ended(connection, 2000)
    publish(connection, 2000)
    with messages_ending(lake.url, every=0.2):
        for _ in range(3):
            kill(start(lake.folder, of_lake, batch=20), connection, after=chance.random())
    wait_for_horizon(lake.url)

    last = start(lake.folder, of_lake, batch=5000)
    _, err = last.communicate(timeout=300)

    assert last.returncode == 0, err
    assert lake.values("history", "id") == all_ids(connection)
    assert len(positions(connection)) > 2000
    assert lake.values("events", "position") == sorted(positions(connection), key=str)
