"""A server whose disk is full: it refuses, or crashes; what it took is there all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.harness.disk import Disk, small
from tests.chaos.harness.server import Server, nap
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

pytestmark = pytest.mark.chaos


@pytest.fixture
def disk(server: Server, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """The disk of the server's tables, or of its WAL; to be asked for before the stage."""
    part, megabytes = request.param
    with small(Path(server.data, part), megabytes=megabytes) as disk:
        server.wrapper = disk.wrapper
        yield disk
        server.stop("immediate")


@pytest.mark.parametrize("disk", [("base", 100)], ids=["tables"], indirect=True)
def test_tables_that_cannot_grow_refuse_loudly_and_lose_nothing(disk: Disk, stage: Stage) -> None:
    load(stage)

    with stage.fault():
        disk.fill()
        eventually(lambda: "No space left on device" in stage.server.log(), within=30)
        nap(3)
        disk.clear()

    stage.end()
    assert any("No space left" in each for each in stage.complaints)


@pytest.mark.parametrize("disk", [("pg_wal", 150)], ids=["wal"], indirect=True)
def test_a_wal_that_cannot_grow_stops_the_server_and_loses_nothing(
    disk: Disk, stage: Stage
) -> None:
    load(stage)

    with stage.fault():
        disk.fill()
        # Of what lies ready to be written to again, some is left.
        eventually(lambda: stage.ask("SELECT pg_switch_wal()") is None, within=30)
        eventually(lambda: "No space left on device" in stage.server.log(), within=30)
        nap(1)
        disk.clear()
        if not stage.server.is_alive:
            stage.server.start()

    stage.end()


def load(stage: Stage) -> None:
    for _ in range(2):
        stage.producer(rate=200)
    for _ in range(2):
        stage.worker()
    stage.settles(50)
