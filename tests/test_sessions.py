"""Django's session between two tests that commit."""

from __future__ import annotations

import pytest
from django.db import connections, transaction

from tests.conftest import _reset

pytestmark = pytest.mark.django_db(transaction=True)

STATE = """
SELECT current_setting('statement_timeout'), current_setting('TimeZone'), current_user,
       (SELECT count(*) FROM pg_listening_channels()), to_regclass('pg_temp.own') IS NULL,
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


def state() -> tuple[int, object]:
    with connections["default"].cursor() as cursor:
        pid = cursor.connection.info.backend_pid
        return pid, cursor.execute(STATE).fetchone()


def test_a_reset_leaves_nothing_of_a_test() -> None:
    before = state()
    with connections["default"].cursor() as cursor:
        cursor.execute("SET statement_timeout = '7s'; SET TIME ZONE 'Asia/Tokyo'; LISTEN own")
        cursor.execute("CREATE TEMP TABLE own (); SELECT pg_advisory_lock(1)")
        cursor.execute("SET ROLE pg_monitor")
    assert state() != before

    _reset(connections["default"])

    assert state() == before


def test_a_session_in_a_transaction_is_closed() -> None:
    before, _ = state()

    with pytest.raises(LookupError), transaction.atomic():
        _reset(connections["default"])
        raise LookupError

    assert state()[0] != before
