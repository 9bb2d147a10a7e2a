"""Sessions that one test after another uses."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
from django.db import connections

from pgqueue.database.connections import connect
from tests import left_sessions
from tests.left_sessions import sessions

pytestmark = pytest.mark.django_db(transaction=True)

STATE = """
SELECT current_setting('statement_timeout'), current_setting('TimeZone'), current_user,
       (SELECT count(*) FROM pg_listening_channels()), to_regclass('pg_temp.own') IS NULL,
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""
USES = """
SELECT generic_plans + custom_plans FROM pg_prepared_statements WHERE statement = 'SELECT 42'
"""


def state() -> tuple[int, object]:
    with connections["default"].cursor() as cursor:
        pid = cursor.connection.info.backend_pid
        return pid, cursor.execute(STATE).fetchone()


def test_the_next_test_finds_nothing_of_the_test_before() -> None:
    connections["default"].close()  # it may be older than the first test
    before = state()
    with connections["default"].cursor() as cursor:
        cursor.execute("SET statement_timeout = '7s'; SET TIME ZONE 'Asia/Tokyo'; LISTEN own")
        cursor.execute("CREATE TEMP TABLE own (); SELECT pg_advisory_lock(1)")
        cursor.execute("SET ROLE pg_monitor")
    assert state() != before

    connections["default"].close()

    assert state() == before


def test_prepared_statements_are_kept() -> None:
    def uses() -> object:
        with closing(connect("default", name="test")) as own:
            own.execute("SELECT 42", prepare=True)
            return own.execute(USES).fetchall()

    assert (uses(), uses()) == ([(1,)], [(2,)])


def test_a_session_in_a_transaction_is_closed() -> None:
    own = connect("default", name="test")
    before = own.info.backend_pid
    own.execute("BEGIN")
    own.close()

    with closing(connect("default", name="test")) as own:
        assert own.info.backend_pid != before


def test_a_session_that_the_server_has_ended_is_not_used() -> None:
    with closing(connect("default", name="test")) as own:
        before = own.info.backend_pid
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [before])

    with closing(connect("default", name="test")) as own:
        assert own.execute("SELECT 1").fetchone() == (1,)
        assert own.info.backend_pid != before


def test_a_closed_session_stays_closed_for_its_former_user() -> None:
    own = connect("default", name="test")
    own.close()

    with pytest.raises(psycopg.OperationalError, match="the connection is closed"):
        own.execute("SELECT 1")
    assert own.closed


@pytest.mark.new_sessions
def test_a_marked_test_has_sessions_of_its_own() -> None:
    with closing(connect("default", name="test")) as own:
        before = own.info.backend_pid

    with closing(connect("default", name="test")) as own:
        assert own.info.backend_pid != before


def test_a_session_that_is_left_behind_has_the_name_of_its_test(
    request: pytest.FixtureRequest,
) -> None:
    with closing(connect("default", name="left")) as own:
        own.execute("SELECT 'left'")
        [left] = [each for each in sessions(connections["default"]) if "left" in each.name]

    assert str(left) == f"{request.node.nodeid}: 'pgqueue left' is idle after \"SELECT 'left'\""


def test_a_test_is_found_by_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_sessions, "_began", [(10.0, "one"), (20.0, "two")])

    assert [left_sessions.test_at(each) for each in (None, 9, 10, 15, 21)] == [
        *("before the first test", "before the first test", "one", "one", "two")
    ]
