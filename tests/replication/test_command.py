"""`manage.py pgqueue_replication`, and `runworker --replication`."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from pgqueue.engine import log, replication
from pgqueue.engine.values import Connection
from pgqueue.events.publishing import publish
from pgqueue.replication import slots
from tests.eventually import eventually
from tests.feeding import by_wal, feeding, in_environment
from tests.processes import environment, worker
from tests.starting import Popen


def told(*arguments: str) -> str:
    output = StringIO()
    call_command("pgqueue_replication", *arguments, stdout=output)
    return output.getvalue()


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, in a process of its own."""
    process = Popen(
        ["manage.py", "pgqueue_replication", *arguments],
        env=environment(**in_environment()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def streamed_by(connection: Connection, slot: str) -> int | None:
    """Return the pid of the server process that streams; None: nobody does."""
    found = replication.state(connection, slot, "tests").slot
    return found.pid if found else None


def head(connection: Connection) -> int:
    return log.bounds(connection).head


class TestRun:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_follows_the_wal_until_it_is_told_to_end(
        self, connection: Connection, slot: str, number: signal.Signals
    ) -> None:
        with running() as process:
            eventually(lambda: streamed_by(connection, slot), within=20)
            publish("order.paid", 1)
            eventually(lambda: head(connection) == 1)
            process.send_signal(number)
            said, _ = process.communicate(timeout=10)

        assert process.returncode == 0
        assert f"Following the WAL, by the slot {slot}" in said
        assert streamed_by(connection, slot) is None

    def test_takes_over_from_a_process_that_is_killed(
        self, connection: Connection, slot: str
    ) -> None:
        with running() as first, ExitStack() as others:
            before = eventually(lambda: streamed_by(connection, slot), within=20)
            others.enter_context(running())
            first.kill()
            eventually(
                lambda: streamed_by(connection, slot) not in (before, None),
                within=20,
                what="the other follows",
            )
            publish("order.paid", 1)
            eventually(lambda: head(connection) == 1)

    def test_takes_the_slot_from_one_that_lives_where_it_is_told_to(
        self, connection: Connection, slot: str
    ) -> None:
        with feeding():
            before = streamed_by(connection, slot)
            with running("--takeover") as process:
                eventually(lambda: streamed_by(connection, slot) not in (before, None), within=20)
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=10)

    def test_needs_what_is_to_be_made_first(self, connection: Connection, slot: str) -> None:
        slots.drop(connection, slot, "tests")

        with pytest.raises(CommandError, match="no publication 'tests'.*--make"):
            told()

    def test_in_a_worker_follows_the_wal(self, connection: Connection, slot: str) -> None:
        settings = {
            name.removeprefix("PGQUEUE_").lower(): value for name, value in in_environment().items()
        }
        with worker("--replication", "--threads", "1", "--no-duties", **settings) as process:
            eventually(lambda: streamed_by(connection, slot), within=20)
            publish("order.paid", 1)
            eventually(lambda: head(connection) == 1)
            process.signal(signal.SIGTERM)
            assert process.exit_status() == 0

        assert streamed_by(connection, slot) is None

    def test_in_a_worker_needs_the_setting(self) -> None:
        with (
            override_settings(PGQUEUE={"FEED": "poll"}),
            pytest.raises(CommandError, match=r"--replication needs PGQUEUE\['FEED'\]"),
        ):
            call_command("runworker", "--replication")


class TestMake:
    def test_makes_what_is_missing_and_drop_drops_it(
        self, connection: Connection, slot: str
    ) -> None:
        assert told("--make") == "Both exist.\n"
        assert told("--drop") == f"Dropped the slot {slot} and the publication tests.\n"
        assert told("--drop") == "Neither exists.\n"
        assert told("--make") == f"Made the publication tests and the slot {slot}.\n"
        replication.drop_slot(connection, slot)
        assert told("--make") == f"Made the slot {slot}.\n"

    def test_publishes_no_more_than_ids_of_the_inbox(
        self, connection: Connection, slot: str
    ) -> None:
        query = (
            "SELECT tablename, attnames::text FROM pg_publication_tables WHERE pubname = 'tests'"
        )

        assert connection.execute(query).fetchall() == [("pgqueue_event_inbox", "{id}")]

    def test_may_have_names_of_any_letters(self, connection: Connection, slot: str) -> None:
        odd = 'Shop\'s "{feed}", %s'
        with by_wal(PUBLICATION=odd):
            told("--make")
            try:
                with feeding():
                    publish("order.paid", 1)
                    eventually(lambda: head(connection) == 1)
            finally:
                replication.drop_publication(connection, odd)

    def test_drops_no_slot_that_is_followed(self, slot: str) -> None:
        with feeding(), pytest.raises(CommandError, match="A process streams from the slot"):
            told("--drop")

    def test_says_what_a_role_must_be_allowed(self, connection: Connection, slot: str) -> None:
        role = f"plain_{uuid4().hex}"
        connection.execute(
            f"CREATE ROLE {role}; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
        )
        slots.drop(connection, slot, "tests")
        options = connections["default"].settings_dict["OPTIONS"]
        try:
            options["assume_role"] = role
            with pytest.raises(CommandError, match="made by the owner of the tables"):
                told("--make")
            slots.make_feed(connection, slot, "tests")
            replication.drop_slot(connection, slot)
            with pytest.raises(CommandError, match="a slot by a role with REPLICATION"):
                told("--make")
        finally:
            del options["assume_role"]
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")

    def test_takes_no_slot_of_another_kind(self, connection: Connection, slot: str) -> None:
        """Slots belong to the whole server: another database, or a tool, may have that name."""
        other = f"{slot[:50]}_other"
        connection.execute("SELECT pg_create_physical_replication_slot(%s)", [other])
        try:
            with (
                by_wal(REPLICATION_SLOT=other),
                pytest.raises(CommandError, match="set another name in PGQUEUE"),
            ):
                told("--make")
        finally:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [other])


class TestStatus:
    def test_says_what_there_is(self, connection: Connection, slot: str) -> None:
        with feeding():
            followed = told("--status")
        idle = told("--status")
        slots.drop(connection, slot, "tests")
        publish("order.paid", 1)
        missing = told("--status")

        assert "followed by pid" in followed
        # Of all databases: others may write meanwhile.
        assert re.search(r"followed by nobody; \d+\.\d MB of WAL behind", idle)
        assert f"slot {slot}" in missing
        assert missing.count("missing") == 2
        assert re.search(r"the first for \d", missing)

    def test_of_a_server_that_takes_the_feed_for_a_standby(
        self, connection: Connection, slot: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        state = replication.state(connection, slot, "tests")._replace(is_standby=True)
        monkeypatch.setattr(replication, "state", lambda *given: state)

        assert "synchronous_standby_names" in told("--status")

    def test_of_a_server_whose_wal_has_no_events(self, monkeypatch: pytest.MonkeyPatch) -> None:
        state = replication.FeedState(
            "replica", has_publication=False, has_inbox=False, waiting=None, slot=None
        )
        monkeypatch.setattr(replication, "state", lambda *given: state)

        assert "replica" in told("--status")
        with pytest.raises(CommandError, match="wal_level = logical"):
            told("--make")


def test_a_slot_that_has_to_wait_says_for_what(
    connection: Connection, other: Connection, slot: str
) -> None:
    """PostgreSQL makes no slot while a transaction is open that began before."""
    replication.drop_slot(connection, slot)
    with other.transaction():
        other.execute("SELECT pg_current_xact_id()")
        connection.execute("SET statement_timeout = '300ms'")
        with pytest.raises(slots.FeedUnavailable, match="waits for earlier transactions"):
            slots.make_feed(connection, slot, "tests")


def test_a_database_that_can_not_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any, **named: Any) -> None:
        raise psycopg.OperationalError("no route to host")

    monkeypatch.setattr("pgqueue.management.commands.pgqueue_replication.connect", fails)

    with pytest.raises(CommandError, match="is unreachable: no route"):
        told("--status")
