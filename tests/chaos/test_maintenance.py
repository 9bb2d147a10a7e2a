"""An administrator vacuums, reindexes and detaches a running database, with a standby beside it.

LiteLLM and Spacelift had outages by a vacuum against wraparound, by a drained queue whose heap was
cut off while replicas read it, and by a partition that was left halfway detached.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgqueue.conf import settings
from pgqueue.engine import partitions
from tests.chaos.harness.server import Server, run
from tests.chaos.harness.stage import Stage
from tests.chaos.harness.standby import following
from tests.eventually import eventually

INVALID = """
SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relname LIKE 'pgqueue%%'
"""


def test_a_queue_goes_on_while_it_is_frozen_and_reindexed(stage: Stage) -> None:
    for _ in range(2):
        stage.producer(rate=100)
    stage.worker()
    stage.settles(100)

    with stage.fault():
        login = ["-h", stage.server.home, "-p", stage.server.port, "-U", "postgres", "-d", "chaos"]
        run("vacuumdb", *login, "--freeze", "--analyze", "--quiet")
        run("reindexdb", *login, "--concurrently", "--quiet")
        stage.settles(50)

    stage.end()
    assert stage.ask("SELECT sum(lost) FROM pgqueue_history") == (0,)
    assert stage.ask(INVALID) == (0,)


@pytest.mark.nightly
def test_a_reindex_that_is_cancelled_leaves_a_queue_that_goes_on(stage: Stage) -> None:
    stage.producer(rate=100)
    stage.worker()
    stage.settles(50)

    with (
        stage.fault(),
        closing(stage.server.connect()) as reader,
        closing(stage.server.connect()) as administrator,
    ):
        with reader.transaction():
            reader.execute("SELECT count(*) FROM pgqueue_message")  # the reindex waits for it
            administrator.execute("SET statement_timeout = '2s'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                administrator.execute("REINDEX TABLE CONCURRENTLY pgqueue_message")
        assert stage.ask(INVALID) > (0,)
        stage.settles(100)

    stage.end()
    assert stage.ask("SELECT sum(lost) FROM pgqueue_history") == (0,)


def test_a_day_that_was_left_halfway_detached_stops_neither_settles_nor_retention(
    stage: Stage,
) -> None:
    today = datetime.now(UTC).date()
    names = {ago: f"pgqueue_history_{today - timedelta(days=ago):%Y%m%d}" for ago in (2, 90)}
    stage.producer(rate=50)
    stage.worker()
    stage.settles(20)

    with (
        stage.fault(),
        closing(stage.server.connect()) as connection,
        closing(stage.server.connect()) as reader,
    ):
        for ago, name in names.items():
            first = today - timedelta(days=ago)
            connection.execute(
                f"CREATE TABLE {name} PARTITION OF pgqueue_history "
                f"FOR VALUES FROM ('{first} 00:00Z') TO ('{first + timedelta(days=1)} 00:00Z')"
            )
        with reader.transaction():
            reader.execute("SELECT count(*) FROM pgqueue_history")
            connection.execute("SET statement_timeout = '1s'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute(
                    f"ALTER TABLE pgqueue_history DETACH PARTITION {names[2]} CONCURRENTLY"
                )
        connection.execute("SET statement_timeout = 0")
        stage.settles(50)
        assert partitions.ensure(connection, ahead=timedelta(days=20))
        dropped = partitions.drop(connection, settings().retention)

    assert dropped == [today - timedelta(days=90)]
    stage.end()


@pytest.fixture
def standby(stage: Stage) -> Iterator[Server]:
    with following(stage.server) as follower:
        yield follower


FILL = """
INSERT INTO pgqueue_message (channel, task, payload, state, max_attempts)
SELECT 'default', 'tests.chaos.tasks.nothing', '{"args": [-1], "kwargs": {}}', 'ready', 5
FROM generate_series(1, 30000)
"""
DRAINED = "SELECT count(*) = 0 FROM pgqueue_message WHERE task = 'tests.chaos.tasks.nothing'"
STRICT = {"max_standby_streaming_delay": "0"}
"""A standby that lets no query hold up the replay."""
REPLAYED = "SELECT pg_last_wal_replay_lsn() >= %s"


@pytest.mark.nightly
def test_a_drained_queue_ends_no_query_of_a_standby(stage: Stage, standby: Server) -> None:
    """To cut the heap off, a vacuum locks the table. The standby replays the lock."""
    worker = stage.worker()
    with closing(stage.server.connect()) as primary, closing(standby.connect()) as reader:
        with closing(standby.connect()) as administrator:
            for name, value in STRICT.items():
                administrator.execute(f"ALTER SYSTEM SET {name} = {value}")
            administrator.execute("SELECT pg_reload_conf()")
        eventually(lambda: ask(standby, "SHOW max_standby_streaming_delay") == ("0",))
        primary.execute("ALTER TABLE pgqueue_message SET (autovacuum_enabled = off)")
        primary.execute(FILL)
        eventually(lambda: primary.execute(DRAINED).fetchone() == (True,), within=60)
        [(size,)] = primary.execute("SELECT pg_relation_size('pgqueue_message')").fetchall()
        assert size > 1_000_000
        stage.retire(worker)  # whose statements would keep dead rows

        with reader.transaction():
            # Without rows of the queue in it, so that only the lock may end it.
            reader.execute("SELECT count(*) FROM pgqueue_message WHERE id < 0")
            primary.execute("VACUUM pgqueue_message")
            [(lsn,)] = primary.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
            primary.execute("SELECT pg_switch_wal()")
            eventually(
                lambda: ask(standby, REPLAYED, lsn) == (True,),
                within=20,
                what="the standby waits for the query",
            )
            reader.execute("SELECT 1")
    stage.end()


def ask(server: Server, query: str, *parameters: object) -> Any:
    with closing(server.connect()) as connection:
        return connection.execute(query, parameters).fetchone()
