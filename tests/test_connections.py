"""The connections that workers own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

import pytest
from django.db import connection
from psycopg import InternalError, OperationalError
from psycopg.errors import IdleInTransactionSessionTimeout

from pgqueue.conf import settings
from pgqueue.database import connections
from pgqueue.database.connections import Contact, Session, connect
from pgqueue.database.transactions import in_short, is_pooled

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


@pytest.mark.parametrize(
    ("options", "shown"),
    [({}, "pgqueue test"), ({"application_name": "web"}, "web pgqueue test")],
)
def test_a_connection_says_whose_it_is_and_what_for(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], shown: str
) -> None:
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)

    with closing(connect("default", name="test")) as own:
        row = own.execute("SHOW application_name").fetchone()

    assert row == (shown,)


def test_a_connection_knows_before_a_third_of_a_lease_that_the_server_is_gone() -> None:
    with closing(connect("default", name="test")) as own:
        given = own.info.get_parameters()

    idle, interval, count = (
        int(given[f"keepalives_{name}"]) for name in ("idle", "interval", "count")
    )
    assert idle + interval * count <= settings().heartbeat.total_seconds()
    assert int(given["tcp_user_timeout"]) <= settings().heartbeat.total_seconds() * 1000


def test_a_server_that_is_read_only_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    read_only = {"options": "-c default_transaction_read_only=on"}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", read_only)

    with pytest.raises(OperationalError, match="read-only"):
        connect("default", name="test")


@pytest.mark.new_sessions
def test_a_pooler_that_passes_pids_on_is_told_by_what_django_wants_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)

    with closing(connect("default", name="test")) as own:
        row = own.execute("SELECT count(*) FROM pg_settings WHERE source = 'session'").fetchone()

        assert is_pooled(own)
    assert row == (0,)


@pytest.mark.parametrize(
    ("sqlstate", "is_closed"),
    [("25006", True), ("25P02", True), ("XX000", False), ("XX002", False), ("2BP01", False)],
)
def test_a_session_goes_on_after_what_another_connection_would_not_mend(
    sqlstate: str, is_closed: bool
) -> None:
    session = Session("default", name="test")
    with pytest.raises(InternalError) as raised:
        session.connection.execute(
            f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{sqlstate}'; END $$"
        )

    session.close_after(raised.value)

    assert session.is_open != is_closed
    session.close()


def test_a_session_is_closed_once_nothing_fits_its_question() -> None:
    session = Session("default", name="test")
    session.open()

    session.close_after(InternalError("got no result from the query"))  # as psycopg says it

    assert not session.is_open


class Clock:
    """Time that passes as a test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Server:
    """A connection, how long it takes to answer, and by how much its clock was set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.takes = 0.01
        self.is_ahead = 0.0

    def execute(self, query: str) -> Server:
        self._clock.now += self.takes
        return self

    def fetchone(self) -> tuple[float]:
        return (self._clock.now + self.is_ahead,)


def after_a_step(after: Callable[[float], timedelta], server: Server, step: float) -> timedelta:
    """Return how long a contact of twenty seconds lasts in which the server's clock has stepped."""
    after(9)
    after(9)
    server.is_ahead = step
    after(1)
    return after(1)


class TestAContact:
    """For how long a database has answered."""

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> Clock:
        clock = Clock()
        monkeypatch.setattr(connections, "time", clock)
        return clock

    @pytest.fixture
    def server(self, clock: Clock) -> Server:
        return Server(clock)

    @pytest.fixture
    def after(self, clock: Clock, server: Server) -> Callable[[float], timedelta]:
        """A function that returns how long the contact has lasted, so many seconds later."""
        contact = Contact(lease=timedelta(seconds=30))
        contact.lasting(server)

        def after(seconds: float) -> timedelta:
            clock.now += seconds
            return contact.lasting(server)

        return after

    def test_lasts_while_it_answers(self, after: Callable[[float], timedelta]) -> None:
        assert [round(after(1).total_seconds()) for _ in range(30)] == list(range(1, 31))

    def test_begins_again_after_an_answer_that_took_long(
        self, after: Callable[[float], timedelta], server: Server
    ) -> None:
        # As behind a pooler, which keeps the connection while the server is away.
        after(10)
        server.takes = 40
        after(1)
        server.takes = 0.01

        assert after(1) < timedelta(seconds=2)

    def test_begins_again_where_no_question_came_for_long(
        self, after: Callable[[float], timedelta]
    ) -> None:
        # As after a stop of the whole process.
        after(10)
        after(40)

        assert after(1) < timedelta(seconds=2)

    def test_begins_again_after_anything_that_took_long(self, clock: Clock, server: Server) -> None:
        contact = Contact(lease=timedelta(seconds=30))
        contact.lasting(server)
        clock.now += 10
        contact.lasting(server)
        clock.now += 40
        contact.note_answer()

        assert contact.lasting(server) < timedelta(seconds=2)

    def test_goes_on_where_what_took_long_answered_now_and_then(
        self, clock: Clock, server: Server
    ) -> None:
        contact = Contact(lease=timedelta(seconds=30))
        contact.lasting(server)
        for _ in range(8):
            clock.now += 5
            contact.note_answer()

        assert contact.lasting(server) >= timedelta(seconds=40)

    @pytest.mark.parametrize("step", [20, 40, 3600])
    def test_begins_again_where_the_servers_clock_stepped_forward(
        self, after: Callable[[float], timedelta], server: Server, step: float
    ) -> None:
        # All leases are over then, though their workers live.
        assert after_a_step(after, server, step) < timedelta(seconds=2)

    @pytest.mark.parametrize("step", [0.5, -20, -3600])
    def test_goes_on_where_the_servers_clock_ends_no_lease(
        self, after: Callable[[float], timedelta], server: Server, step: float
    ) -> None:
        assert after_a_step(after, server, step) > timedelta(seconds=19)

    def test_begins_again_with_another_connection(self, clock: Clock, server: Server) -> None:
        contact = Contact(lease=timedelta(seconds=30))
        contact.lasting(server)
        clock.now += 10

        assert contact.lasting(server) > timedelta(seconds=9)
        assert contact.lasting(Server(clock)) == timedelta()


def test_a_short_transaction_is_bounded_behind_a_pooler_too() -> None:
    with closing(connect("default", name="test")) as own:
        own.execute("RESET idle_in_transaction_session_timeout")
        own.prepare_threshold = None  # as behind one
        with pytest.raises(IdleInTransactionSessionTimeout), in_short(own):
            row = own.execute("SHOW idle_in_transaction_session_timeout").fetchone()
            own.execute("SET LOCAL idle_in_transaction_session_timeout = 50")
            time.sleep(0.3)
            own.execute("SELECT 1")

    assert row == ("30s",)
