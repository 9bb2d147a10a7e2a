"""Recall.ai: NOTIFY serialized the commits of a whole cluster, and stopped other databases with it.

A transaction that notifies takes one lock of the cluster as it commits. So another application that
notifies in each commit slows down everybody who does. A producer of pgqueue notifies only where a
worker is idle, and a busy fleet needs none: it goes on while nobody else gets past the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

HELD = """
SELECT count(*) FROM pg_locks
WHERE locktype = 'object' AND database = 0 AND classid = 'pg_database'::regclass AND objid = 0
  AND granted
"""
WAITING = HELD.replace("AND granted", "AND NOT granted")
ENQUEUE = "SELECT pgqueue_enqueue('tests.chaos.tasks.plain', %s, max_attempts => 1000)"
BUSY = "SELECT count(*) = 1 AND bool_and(notify_until IS NULL) FROM pgqueue_worker"


@contextmanager
def lock_held(stage: Stage) -> Iterator[None]:
    """Have another application hold the lock in a commit that does not end.

    It waits for a synchronous standby that there is not, behind its NOTIFY. Only its own session
    waits for standbys.
    """
    with closing(stage.server.connect(dbname="postgres")) as administrator:
        administrator.execute("CREATE TABLE IF NOT EXISTS theirs (n int)")
        # First no other session waits for standbys. In one step, a commit of a session that has not
        # read its new setting yet would wait for ever.
        administrator.execute("ALTER SYSTEM SET synchronous_commit = local")
        administrator.execute("SELECT pg_reload_conf()")
        eventually(lambda: stage.ask("SHOW synchronous_commit") == ("local",))
        nap(0.3)
        administrator.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        administrator.execute("SELECT pg_reload_conf()")
        eventually(lambda: stage.ask("SHOW synchronous_standby_names") == ("nobody",))
        other = stage.server.connect(dbname="postgres", application_name="another application")

        def notify() -> None:
            with suppress(psycopg.Error):  # the end of the test
                other.execute(
                    "SET synchronous_commit = on; BEGIN; INSERT INTO theirs VALUES (1); "
                    "NOTIFY something; COMMIT"
                )

        thread = threading.Thread(target=notify)
        thread.start()
        eventually(lambda: stage.ask(HELD) == (1,), what="it holds the lock")
        try:
            yield
        finally:
            administrator.execute("ALTER SYSTEM RESET synchronous_standby_names")
            administrator.execute("SELECT pg_reload_conf()")
            thread.join(20)
            other.close()
            assert not thread.is_alive()


@pytest.mark.nightly
def test_a_busy_fleet_goes_on_while_nobody_gets_past_the_lock_of_notifications(
    stage: Stage,
) -> None:
    def enqueue(count: int, seconds: float) -> None:
        # A commit that waits for the lock fails: it must not wait until the test is ended.
        with stage.server.connect(options="-c statement_timeout=10s") as connection:
            for number in stage.numbers("plain", count):
                connection.execute(ENQUEUE, [Jsonb({"args": [number, seconds], "kwargs": {}})])

    enqueue(100, 0.02)
    enqueue(600, 0.1)  # which keep the worker busy for longer than the lock is held
    stage.worker("--threads", "4")
    eventually(lambda: stage.settled() > 100, within=30, what="the worker is busy")
    assert stage.ask(BUSY) == (True,)

    with stage.fault(), lock_held(stage):
        enqueue(100, 0)  # each commits at once: the worker is busy, and is not notified
        stage.settles(100, within=20)
        assert stage.ask(HELD) == (1,)

    stage.end()


def test_an_enqueue_for_an_idle_worker_waits_for_the_lock_and_is_heard_behind_it(
    stage: Stage,
) -> None:
    """The one moment at which another application's notifications delay a producer."""
    worker = stage.worker()
    query = "SELECT notify_until > clock_timestamp() FROM pgqueue_worker WHERE pid = %s"
    eventually(lambda: stage.ask(query, worker.pid) == (True,), within=30, what="it is idle")
    [number] = stage.numbers("plain", 1)
    thread = threading.Thread(target=stage.enqueue, args=["plain", number])

    with lock_held(stage):
        thread.start()
        eventually(lambda: stage.ask(WAITING) == (1,), what="the enqueue waits")
        nap(0.2)
        assert stage.settled() == 0
    thread.join(20)

    eventually(lambda: stage.settled() == 1, within=5, what="the worker hears of it")
    stage.end()
