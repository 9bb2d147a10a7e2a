"""Everything behind a pooler that gives each transaction another connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tests.chaos.harness.pooler import Pooler
from tests.chaos.harness.server import Server, nap, url
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

# Consumers renew no lease.
LOST_BY_WORKERS = """
SELECT coalesce(sum(lost), 0) FROM pgqueue_history WHERE channel NOT IN ('pulled', 'by hand')
"""

SIZE = 8  # connections to the server
# What a session keeps when a transaction is over: its next one may be another client's. What is
# left out here, pgbouncer sets as each of its clients has it.
KEPT = """
SELECT pg_backend_pid(),
       ARRAY (SELECT statement FROM pg_prepared_statements),
       ARRAY (SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
       ARRAY (SELECT pg_listening_channels()),
       ARRAY (
           SELECT name FROM pg_settings
           WHERE source = 'session' AND name NOT IN (
               'application_name', 'client_encoding', 'DateStyle', 'TimeZone',
               'standard_conforming_strings'
           )
       )
"""


@pytest.fixture
def pooler(stage: Stage, server: Server) -> Iterator[Pooler]:
    pooler = Pooler(server, size=SIZE)
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


def kept(pooler: Pooler) -> dict[int, list[Any]]:
    """Return what each of the pooler's connections to the server keeps; a transaction has one."""
    found = {}
    with ExitStack() as at_once:
        for _ in range(SIZE):
            its = at_once.enter_context(psycopg.connect(url(pooler.port), prepare_threshold=None))
            pid, *rest = its.execute(KEPT).fetchone() or ()
            found[pid] = rest
    return found


def test_workers_consumers_and_producers_work_behind_pgbouncer(
    stage: Stage, pooler: Pooler
) -> None:
    load(stage, pooler)
    operator = stage.operator(port=pooler.port, rest=0.05)

    stage.settles(500)
    eventually(lambda: "watch()" in operator.log, within=60, what="it gets to what is refused")
    sessions = kept(pooler)

    assert stage.ask("SELECT count(*) FROM pgqueue_worker WHERE notify_until IS NOT NULL") == (0,)
    stage.end()
    for each in [*stage.workers, *stage.others]:
        assert "failed" not in each.log
    assert list(sessions.values()) == [[[], [], [], []]] * SIZE
    # Nothing else is refused.
    complaints = [line for each in stage.others for line in each.log.splitlines()]
    assert all(each.startswith("hear: NothingToHear") for each in complaints), complaints


@pytest.mark.chaos
def test_processes_of_a_worker_that_are_killed_lose_nothing(stage: Stage, pooler: Pooler) -> None:
    for _ in range(2):
        stage.producer(rate=80, port=pooler.port)
    stage.kill_processes("--processes", "2", "--threads", "3", "--async", "20", port=pooler.port)

    stage.end()


@pytest.mark.chaos
def test_an_outage_longer_than_a_lease_charges_no_message_as_lost(
    stage: Stage, pooler: Pooler
) -> None:
    """The pooler keeps its clients meanwhile: their connections are as old as ever."""
    load(stage, pooler)

    for _ in range(3):
        stage.keep_busy(7)
        with stage.fault():
            stage.server.stop("fast")
            nap(4)
            stage.server.start()
        stage.settles(50)

    stage.end()
    assert stage.ask(LOST_BY_WORKERS) == (0,)
    assert stage.untouched()


@pytest.mark.chaos
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


@pytest.mark.nightly
@pytest.mark.parametrize(
    "settings",
    [
        {"DateStyle": "German", "TimeZone": "Pacific/Apia"},
        {"IntervalStyle": "iso_8601"},
        {"IntervalStyle": "sql_standard"},
    ],
    ids=str,
)
def test_a_database_whose_times_are_written_otherwise_serves_all_the_same(
    stage: Stage, pooler: Pooler, settings: dict[str, str]
) -> None:
    """pgbouncer keeps DateStyle for each client; versions before 1.20 don't keep IntervalStyle."""
    with stage.server.connect() as own:
        for name, value in settings.items():
            own.execute(f"ALTER DATABASE chaos SET {name} = '{value}'")
    pooler.kill()
    pooler.start()  # else connections would have the settings of before

    load(stage, pooler)
    stage.settles(200)

    with stage.server.connect() as own:  # the books are read without our sessions
        own.execute("ALTER DATABASE chaos RESET ALL")
    stage.end()
    for each in [*stage.workers, *stage.others]:
        assert "failed" not in each.log
        assert "parse" not in each.log
    assert stage.ask(LOST_BY_WORKERS) == (0,)
