"""Everything behind a pooler that gives each transaction another connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.harness.pooler import Pooler
from tests.chaos.harness.server import Server, nap
from tests.chaos.harness.stage import Stage


@pytest.fixture
def pooler(stage: Stage, server: Server) -> Iterator[Pooler]:
    pooler = Pooler(server)
    pooler.start()
    try:
        yield pooler
    finally:
        pooler.kill()
        print(pooler.log()[-3000:])


def load(stage: Stage, pooler: Pooler) -> None:
    for _ in range(2):
        stage.producer(rate=80, port=pooler.port, also="pulled")
    for _ in range(2):
        stage.worker("--exclude", "pulled", port=pooler.port)
        stage.consumer(port=pooler.port)
    stage.settles(100)


def test_workers_consumers_and_producers_work_behind_pgbouncer(
    stage: Stage, pooler: Pooler
) -> None:
    load(stage, pooler)

    stage.settles(500)

    assert stage.ask("SELECT count(*) FROM pgqueue_worker WHERE notify_until IS NOT NULL") == (0,)
    stage.end()
    for each in [*stage.workers, *stage.others]:
        assert "failed" not in each.log


def test_a_pgbouncer_that_dies_or_whose_server_restarts_is_survived(
    stage: Stage, pooler: Pooler
) -> None:
    load(stage, pooler)

    for how in ["fast", "immediate"]:
        with stage.fault():
            pooler.kill()
            nap(stage.random.uniform(0, 0.5))
            pooler.start()
        stage.settles(30)
        with stage.fault():
            stage.server.stop(how)
            nap(stage.random.uniform(0, 0.5))
            stage.server.start()
        stage.settles(30)

    stage.end()
