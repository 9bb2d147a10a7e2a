"""The WAL feed under faults: each event is in the log once, and somebody follows again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence

import pytest

from pgqueue.engine import replication
from tests.chaos.harness.logstage import SLOT, LogStage
from tests.chaos.harness.processes import Process
from tests.chaos.harness.server import Server, nap, run
from tests.chaos.harness.statements import names_of
from tests.eventually import eventually

ALSO = pytest.mark.chaos
DROP = """
SELECT pg_terminate_backend(active_pid, 5000), pg_drop_replication_slot(slot_name)
FROM pg_replication_slots WHERE slot_name = %s
"""
STATUS = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"
CONFIRMED = "SELECT confirmed_flush_lsn < %s FROM pg_replication_slots WHERE slot_name = %s"
HEAD = "SELECT coalesce(max(position), 0) FROM pgqueue_event"
FILLER = """
SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 40)
"""


def followed_again(stage: LogStage, feed: Process, times: int) -> None:
    """Wait until it has begun to follow so many times, and does."""
    eventually(
        lambda: feed.log.count("Following the WAL") >= times and stage.is_followed,
        within=60,
        what=stage.later(lambda: f"it follows again: {feed.log}"),
    )


def test_a_slot_that_is_dropped_is_made_again_and_nothing_is_lost(log_stage: LogStage) -> None:
    stage = log_stage
    feed = stage.feed()
    stage.publisher()
    stage.reader("atomic")
    stage.handles("atomic", 30)

    with stage.recovers("atomic"):
        # In vain, where the feed has come back before the slot is dropped.
        eventually(lambda: stage.ask(DROP, SLOT), within=30, what="it is dropped")

    eventually(lambda: "is missing" in feed.log, within=30, what="it is noticed")
    followed_again(stage, feed, 2)
    stage.handles("atomic", 100)
    stage.end_log()


@ALSO
def test_a_connection_that_is_cut_is_made_again_and_nothing_is_lost(log_stage: LogStage) -> None:
    stage = log_stage
    proxy = stage.proxy()
    feed = stage.feed(port=proxy.port)
    stage.publisher()
    stage.reader("atomic")

    for times in range(2, 7):
        stage.handles("atomic", 30)
        with stage.recovers("atomic"):
            proxy.snap()
        followed_again(stage, feed, times)

    stage.handles("atomic", 100)
    stage.end_log()


def test_a_feed_that_is_killed_between_the_move_and_its_confirmation_repeats_nothing(
    log_stage: LogStage,
) -> None:
    stage = log_stage
    proxy = stage.proxy()
    victim = stage.feed(port=proxy.port)
    other = stage.feed(is_first=False)
    stage.publisher()

    def kill(sent: str, before: Sequence[str]) -> None:
        if victim.is_alive and sent == "COMMIT" and "sequence.move" in names_of(before[-1]):
            stage.lose(victim)

    proxy.meddler = kill
    eventually(lambda: not victim.is_alive, within=30, what="it moves, and is killed")
    followed_again(stage, other, 1)

    with stage.recovers("atomic"):
        stage.reader("atomic")
    stage.handles("atomic", 100)
    stage.end_log()


@pytest.mark.parametrize(
    "hows", [["killed"], pytest.param(["immediate", "killed", "fast", "killed"], marks=ALSO)]
)
def test_a_server_that_is_killed_is_followed_again_and_nothing_is_lost(
    log_stage: LogStage, hows: list[str]
) -> None:
    stage = log_stage
    feed = stage.feed()
    stage.publisher()
    stage.reader("atomic")

    for times, how in enumerate(hows, 2):
        stage.handles("atomic", 30)
        with stage.recovers("atomic"):
            stage.server.stop(how)
            nap(stage.random.uniform(0, 0.5))
            stage.server.start()
        followed_again(stage, feed, times)

    stage.handles("atomic", 100)
    stage.end_log()


@ALSO
def test_a_slot_that_has_lost_its_wal_is_made_again_and_nothing_is_lost(
    log_stage: LogStage,
) -> None:
    stage = log_stage
    with stage.server.connect() as connection:
        connection.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'")
        connection.execute("ALTER SYSTEM SET max_wal_size = '64MB'")
        connection.execute("SELECT pg_reload_conf()")
    feed = stage.feed()
    stage.publisher()
    stage.reader("atomic")
    stage.handles("atomic", 30)

    with stage.recovers("atomic"):
        feed.signal(signal.SIGSTOP)

        def is_lost() -> bool:
            with stage.server.connect() as connection:
                connection.execute(FILLER)
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
            return bool(stage.ask(STATUS, SLOT) == ("lost",))

        eventually(is_lost, within=60)
        # Meanwhile readers give positions themselves.
        stage.handles("atomic", 30)
        feed.signal(signal.SIGCONT)

    followed_again(stage, feed, 2)
    assert "has lost its WAL" in feed.log
    stage.handles("atomic", 100)
    stage.end_log()


def test_an_event_whose_commit_waits_for_a_standby_is_in_the_log_once_it_can_be_seen(
    log_stage: LogStage,
) -> None:
    """The WAL announces it long before; and nothing else has anybody look again."""
    stage = log_stage
    stage.feed()
    with stage.server.connect() as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
        eventually(
            lambda: connection.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",)
        )
        publishing = threading.Thread(target=stage.publish)
        publishing.start()
        eventually(lambda: stage.ask(WAITS) == (1,), what="it waits for a standby")
        (at,) = stage.ask("SELECT pg_current_wal_lsn()")
        nap(1)  # for which the feed asks again and again
        assert stage.ask(CONFIRMED, at, SLOT) == (True,)
        assert stage.ask(HEAD) == (0,)

        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        connection.execute("SELECT pg_reload_conf()")
        publishing.join(20)

    eventually(lambda: stage.ask(HEAD) == (1,), what="it is moved")
    eventually(lambda: stage.ask(CONFIRMED, at, SLOT) == (False,), what="it is confirmed")
    stage.end_log()


def test_a_server_that_takes_the_feed_for_a_standby_is_followed_again_once_it_does_not(
    log_stage: LogStage,
) -> None:
    """The commit would wait for the feed, and the feed for the commit."""
    stage = log_stage
    feed = stage.feed()
    with stage.server.connect() as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        eventually(
            lambda: connection.execute(SYNC_STATE).fetchone() == ("sync",), what="it is a standby"
        )
        publishing = threading.Thread(target=stage.publish)
        publishing.start()
        eventually(lambda: stage.ask(WAITS) == (1,), what="it waits for a standby")

        eventually(lambda: not stage.is_followed, within=30, what="the feed is no standby")
        eventually(lambda: "synchronous_standby_names" in feed.log, what="it says why")

        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        connection.execute("SELECT pg_reload_conf()")
        publishing.join(20)

    followed_again(stage, feed, 2)
    eventually(lambda: stage.ask(HEAD) == (1,), what="it is moved")
    stage.end_log()


def test_a_commit_is_known_by_the_lower_half_of_its_number_when_that_has_begun_anew(
    server: Server,
) -> None:
    """Also one behind the newest that others know: the WAL may announce it before."""
    run("pg_resetwal", "--epoch=1", "-D", server.data)
    server.start()
    with server.connect() as connection, server.connect() as other, other.transaction():
        other.execute("SELECT pg_current_xact_id()")
        row = connection.execute(OPEN_AND_NEWEST).fetchone()
        assert row
        is_open, newest = row
        assert is_open > 2**32

        asked = [number % 2**32 for number in (is_open - 5, is_open, newest + 5)]
        assert replication.unseen(connection, asked) == asked[1:]


OPEN_AND_NEWEST = """
SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint
FROM pg_current_snapshot() s
"""
SYNC_STATE = "SELECT sync_state FROM pg_stat_replication"
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
