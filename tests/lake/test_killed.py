"""An export that is killed at any moment, while messages end, loses none and repeats none."""

from __future__ import annotations

import random
import subprocess
from contextlib import ExitStack

import pytest

from pgqueue.database.connections import conninfo
from tests import killed_exports
from tests.factories import Connection, ended
from tests.killed_exports import messages_ending, start
from tests.lake.lakes import OurLake
from tests.lake.test_exporting import all_ids
from tests.lake.test_sources import ALIASES, catalog_of, found, ids, us
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import positions, publish

__all__ = ["us"]


def commits(connection: Connection) -> object:
    """Return how far the database knows the export to be."""
    return connection.execute("SELECT message_id, event_position FROM pgqueue_export").fetchone()


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


@pytest.mark.nightly  # the processes of two exports at once, three times
@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True, databases=["default", "second"])
def test_two_sources_lose_and_repeat_nothing_when_both_are_killed(
    lake: OurLake, connection: Connection, us: Connection
) -> None:
    chance = random.Random(11)
    queues = dict(zip(ALIASES, (connection, us), strict=True))

    def begin(source: str, batch: int) -> subprocess.Popen[str]:
        options = [f"--tables-format={lake.name}", f"--source={source}"]
        if catalog := catalog_of(lake):
            options.append(f"--catalog={catalog}")
        return start(lake.folder, *options, batch=batch, alias=ALIASES[source])

    def complete(*processes: subprocess.Popen[str]) -> None:
        for each in processes:
            _, err = each.communicate(timeout=300)
            assert each.returncode == 0, err

    for source, queue in queues.items():
        ended(queue, 500)
        publish(queue, 500)
        complete(begin(source, 5000))  # the tables are there: only their rows come at once
        ended(queue, 1000)
        publish(queue, 1000)
    with ExitStack() as stack:
        for alias in ALIASES.values():
            stack.enter_context(messages_ending(conninfo(alias), every=0.2))
        for _ in range(3):
            running = {source: begin(source, 20) for source in queues}
            for source, process in running.items():
                kill(process, queues[source], after=chance.random())
    for alias in ALIASES.values():
        wait_for_horizon(conninfo(alias))

    complete(*(begin(source, 5000) for source in queues))

    assert found(lake) == {source: ids(queue) for source, queue in queues.items()}
    in_logs = {source: positions(queue) for source, queue in queues.items()}
    assert found(lake, "events", "position") == in_logs
    assert min(map(len, in_logs.values())) > 1500
