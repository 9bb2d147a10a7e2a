"""The connections that workers own."""

from __future__ import annotations

from contextlib import closing

import pytest
from django.db import connection

from pgqueue.connections import connect

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("statement_timeout", "45s"),
        ("idle_in_transaction_session_timeout", "30s"),
        ("default_transaction_isolation", "read committed"),
        ("TimeZone", "UTC"),
        ("jit", "off"),
    ],
)
def test_a_connection_has_what_our_statements_expect(setting: str, value: str) -> None:
    with closing(connect("default", name="test")) as own:
        row = own.execute("SELECT current_setting(%s)", [setting]).fetchone()

    assert row == (value,)


def test_a_connection_of_the_projects_is_left_as_it_is() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")

        assert cursor.fetchone() == ("0",)
