"""What a role of PostgreSQL needs: no superuser, and no table of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from pgqueue.engine import lease, promote, settle
from pgqueue.models import Message
from tests.claims import GovernedClaims
from tests.factories import (
    OVER,
    Connection,
    claim,
    done,
    enqueue,
    limit,
    register,
    schedule,
)


@pytest.fixture
def role(connection: Connection) -> Iterator[str]:
    """A role that may nothing so far."""
    name = f"role_{uuid4().hex}"
    connection.execute(f"CREATE ROLE {name}")
    yield name
    connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_a_worker_need_only_read_and_write_rows(
    connection: Connection, other: Connection, role: str
) -> None:
    connection.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}; "
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
    )
    limit("ruled", max_running=1)
    other.execute(f"SET ROLE {role}")

    register(other, notify_for=timedelta(minutes=1))
    enqueue(other, 2)
    enqueue(other, 2, channel="ruled", key="a")
    schedule(other, run_after=timedelta())
    promote.promote(other)
    claim(other, limit=1, lease=OVER)
    lease.rescue(other, max_lost=3)
    claims = [*claim(other), *GovernedClaims(other).claim(9)]

    assert len(claims) == 4
    assert len(settle.complete(other, [done(each) for each in claims])) == 4


def test_a_producer_may_be_let_in_by_a_function_alone(
    connection: Connection, other: Connection, role: str
) -> None:
    connection.execute(
        """CREATE FUNCTION send_mail(payload jsonb) RETURNS bigint
           LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
           AS $$ SELECT pgqueue_enqueue('', payload, channel => 'mail') $$"""
    )
    try:
        other.execute(f"SET ROLE {role}")

        other.execute("""SELECT send_mail('{"to": "ada"}')""")

        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute("SELECT pgqueue_enqueue('', channel => 'chat')")
    finally:
        connection.execute("DROP FUNCTION send_mail")

    message = Message.objects.get()
    assert (message.channel, message.payload) == ("mail", {"to": "ada"})
