"""`pgqueue.operating.health`, and `manage.py pgqueue_health` for probes and monitors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from pgqueue import Channel, receive, webhooks
from pgqueue.database.connections import Contact, connect
from pgqueue.duties.all import all_duties
from pgqueue.duties.maintain import maintain
from pgqueue.duties.run import run_duty
from pgqueue.engine import (
    channels,
    duty,
    groups,
    live_counts,
    partitions,
    replication,
    workers,
)
from pgqueue.engine import health as engine
from pgqueue.engine.event_partitions import SIZE
from pgqueue.engine.health import Holder
from pgqueue.engine.values import Position
from pgqueue.events import subscribing
from pgqueue.models import Breaker, LogFloor, Subscription, Webhook
from pgqueue.operating import health
from pgqueue.operating.health import Check, HealthLimits, Status
from pgqueue.options.webhook_options import new_secret
from pgqueue.tasks import scheduling
from tests.duties.kinds import Lasting, Notes
from tests.eventually import eventually
from tests.factories import (
    LEASE,
    bury,
    ended,
    enqueue,
    exported,
    insert,
    log_as_migrated,
    logged,
    one,
    past,
    register,
    subscribed,
)
from tests.feeding import by_wal, feeding, slot_made

pytestmark = pytest.mark.django_db(transaction=True)

Connection = psycopg.Connection[Any]
LIMITS = HealthLimits()


def do_all_duties() -> None:
    list(
        maintain(
            "default",
            all_duties(database="default", scheduling=scheduling, subscribing=subscribing),
        )
    )


@pytest.fixture
def connection(transactional_db: None) -> Iterator[Connection]:
    """A connection such as a worker's."""
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture
def without_tables(transactional_db: None) -> Iterator[None]:
    """A database as it is before the first `migrate`."""
    options = connections["default"].settings_dict["OPTIONS"]
    connections["default"].close()
    with patch.dict(options, options="-c search_path=nowhere"):
        yield
        connections["default"].close()


@contextmanager
def monitoring(connection: Connection) -> Iterator[str]:
    """Look as a role that may do nothing but read the tables; its name."""
    role = f"monitor_{uuid4().hex}"
    connection.execute(
        f"CREATE ROLE {role}; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}; "
        f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}"
    )
    try:
        with connections["default"].cursor() as cursor:
            cursor.execute(f"SET ROLE {role}")
        yield role
    finally:
        connections["default"].close()
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def check(name: str, limits: HealthLimits = LIMITS) -> Check:
    """Make one check."""
    (made,) = health.examine("default", limits, [name])
    return made


def status(name: str, **limits: Any) -> Status:
    return check(name, replace(LIMITS, **limits)).status


def told(*arguments: str) -> tuple[int, str]:
    """Return the exit status of the command, and what it says."""
    output = StringIO()
    with pytest.raises(SystemExit) as raised:
        call_command("pgqueue_health", *arguments, stdout=output)
    assert isinstance(raised.value.code, int)
    return raised.value.code, output.getvalue()


class TestWorkers:
    def test_fail_where_none_is_alive(self, connection: Connection) -> None:
        register(connection)
        connection.execute("UPDATE pgqueue_worker SET last_seen = last_seen - interval '1 hour'")

        assert status("workers") == Status.FAILING
        assert status("workers", min_workers=0) == Status.OK

    def test_are_told_by_host_and_version(self, connection: Connection) -> None:
        register(connection)
        connection.execute("""UPDATE pgqueue_worker SET info = '{"version": "0.1.0"}'""")

        made = check("workers")

        assert (made.status, made.said) == (Status.OK, "1 alive, of version 0.1.0")
        (alive,) = made.figures["alive"]
        assert (alive["host"], alive["pid"], alive["version"]) == ("somewhere", 1, "0.1.0")

    def test_warn_of_one_without_a_free_thread_for_long(self, connection: Connection) -> None:
        id = register(connection)
        workers.beat(connection, id, notify_for=None, busy_for=59)
        assert check("workers").figures["alive"][0]["busy_for"] == 0

        workers.beat(connection, id, notify_for=None, busy_for=4000)

        assert status("workers", max_busy=5000) == Status.OK
        made = check("workers", replace(LIMITS, max_busy=3600))
        assert made.status == Status.WARNING
        assert "without a free thread: 1, for 4000 s the process 1 on somewhere" in made.said
        workers.beat(connection, id, notify_for=None, busy_for=0)
        assert status("workers", max_busy=3600) == Status.OK

    def test_warn_of_rows_that_one_leaves_out(self, connection: Connection) -> None:
        id = register(connection)
        assert check("rows") == Check("rows", Status.OK, "none is left out", {"processes": []})

        workers.beat(connection, id, notify_for=None, left_out=2)

        made = check("rows")
        assert made.status == Status.WARNING
        assert made.said.startswith("2 left out by the process 1 on somewhere")
        assert made.figures["processes"][0]["left_out"] == 2
        workers.beat(connection, id, notify_for=None)
        assert status("rows") == Status.OK

    def test_are_those_that_run_tasks(self, connection: Connection) -> None:
        register(connection, channels=[])  # as with --threads 0
        with receive("mail") as receiver:
            receiver.take()

            made = check("workers")

        assert made.status == Status.FAILING
        assert made.said == "0 alive; consumers: 1; for duties alone: 1"
        assert made.figures["alive"] == []
        assert {each["kind"] for each in made.figures["others"]} == {"consumer", "duties"}

    def test_of_one_host_are_counted_alone(self, connection: Connection) -> None:
        register(connection)

        assert status("workers", host="somewhere") == Status.OK
        assert status("workers", host="elsewhere") == Status.FAILING


class TestAge:
    def test_is_that_of_the_oldest_message_that_could_run(self, connection: Connection) -> None:
        aged(connection, "mail", seconds=400)
        aged(connection, "chat", seconds=10)

        assert status("age") == Status.FAILING
        assert status("age", max_age=500) == Status.WARNING
        assert status("age", max_age=1000) == Status.OK
        assert check("age").said.endswith("s in mail")
        assert set(check("age").figures["seconds"]) == {"mail", "chat"}

    def test_of_a_paused_channel_is_told_and_not_judged(self, connection: Connection) -> None:
        aged(connection, "mail", seconds=400)
        Channel("mail").pause()

        made = check("age")

        assert (made.status, made.said) == (Status.OK, "nothing waits")
        assert made.figures["seconds"]["mail"] >= 400


class TestBreakers:
    def test_warn_while_they_are_open(self, connection: Connection) -> None:
        Channel("mail").policy(breaker=(1, 60, 3600))
        before = check("breakers")
        Breaker.objects.create(
            channel="mail", key="", failed_at=[], open_until=datetime.now(UTC) + timedelta(hours=1)
        )

        made = check("breakers")

        assert (before.status, before.said) == (Status.OK, "none is open")
        assert made.status == Status.WARNING
        assert made.said == "1 open, so that no message starts: 1 in mail"
        assert made.figures == {"open": {"mail": 1}}


class TestDeadLetters:
    def test_warn_beyond_the_limit(self, connection: Connection) -> None:
        bury(connection, 2, channel="mail")
        bury(connection)

        assert status("dead", max_dead=3) == Status.OK
        assert status("dead", max_dead=2) == Status.WARNING
        assert check("dead").figures["letters"] == {"mail": 2, "default": 1}

    def test_beyond_what_is_counted_are_an_estimate(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live_counts, "BOUND", 5)
        monkeypatch.setattr(live_counts, "LEAST", 5)
        bury(connection, 9)

        assert check("dead").said.startswith("about ")


class TestDuties:
    @pytest.fixture(autouse=True)
    def _done(self, connection: Connection) -> None:
        do_all_duties()

    def test_are_well_when_all_were_done(self) -> None:
        assert check("duties").status == Status.OK
        assert check("duties").figures["purge"]["done_seconds_ago"] < 60

    @pytest.mark.parametrize(
        "change",
        [
            "DELETE FROM pgqueue_duty WHERE name = 'purge'",
            # It was never done.
            "UPDATE pgqueue_duty SET ran_at = NULL, due_at = due_at - interval '10 minutes' "
            "WHERE name = 'purge'",
            "UPDATE pgqueue_duty SET due_at = due_at - interval '10 minutes' WHERE name = 'purge'",
            # It fails, and is put off again and again.
            "UPDATE pgqueue_duty SET ran_at = ran_at - interval '4 hours' WHERE name = 'purge'",
        ],
    )
    def test_fail_where_one_is_overdue(self, connection: Connection, change: str) -> None:
        connection.execute(change)

        made = check("duties")

        assert (made.status, made.said) == (Status.FAILING, "overdue: purge")

    def test_that_fail_are_named(self, connection: Connection) -> None:
        """One that is put off again and again is never late."""

        class Fails(Notes):
            def run(self, connection: Connection) -> timedelta:
                raise ZeroDivisionError

        class FailsAside(Lasting):
            def run(self, connection: Connection) -> timedelta:
                raise ZeroDivisionError

        aside = FailsAside()
        aside.name = "purge"
        for each in (Fails("purge"), aside):
            with pytest.raises(ZeroDivisionError):
                run_duty(connection, each, contact=Contact(lease=LEASE), early=True)
            made = check("duties")
            assert made.status == Status.WARNING
            assert made.said == "purge fails for 0 s, as the log says"
            assert made.figures["purge"]["failing_seconds"] >= 0

        connection.execute(
            "UPDATE pgqueue_duty SET failing_since = failing_since - interval '6 minutes' "
            "WHERE name = 'purge'"
        )
        assert check("duties").status == Status.FAILING
        do_all_duties()
        assert check("duties").said == "all were done"

    def test_that_no_worker_has_done_yet_are_no_failure(self, connection: Connection) -> None:
        connection.execute("DELETE FROM pgqueue_duty")
        made = check("duties")
        assert (made.status, made.said) == (
            Status.UNKNOWN,
            "none was done yet: no worker has run here",
        )

        duty.due(connection, list(made.figures))
        assert check("duties").status == Status.UNKNOWN
        run_duty(connection, Notes("lanes"), contact=Contact(lease=LEASE))

        made = check("duties")
        assert made.status == Status.OK
        assert made.said.startswith("not done yet: ")


class TestNotifications:
    def test_are_well_where_their_queue_is_empty(self) -> None:
        made = check("notifications")

        assert (made.status, made.said) == (Status.OK, "0% of their queue is full")

    @pytest.mark.parametrize(
        ("used", "expected"), [(0.2, Status.OK), (0.3, Status.WARNING), (0.95, Status.FAILING)]
    )
    def test_that_pile_up_are_told_with_who_may_keep_them(
        self, connection: Connection, used: float, expected: Status
    ) -> None:
        with connection.transaction():
            connection.execute("SELECT 1")
            _, oldest = engine.notifications(connection)
            with patch.object(engine, "notifications", lambda _: (used, oldest)):
                made = check("notifications")

        assert made.status == expected
        assert made.figures["used"] == used
        assert ("a listening session" in made.said) == (expected != Status.OK)

    def test_are_kept_by_a_session_that_listens_in_a_transaction(
        self, connection: Connection
    ) -> None:
        with closing(connect("default", name="listens")) as other:
            other.execute("LISTEN anything")
            with other.transaction():
                other.execute("SELECT 1")
                for _ in range(20):
                    connection.execute(
                        "SELECT pg_notify('anything', repeat('x', 7000) || n) "
                        "FROM generate_series(1, 200) n"
                    )
                used, oldest = engine.notifications(connection)

                assert used > 0.0001
                assert any(f"pid {other.info.backend_pid} " in each for each in oldest)


class TestChannels:
    def test_beyond_a_thousand_are_looked_at(self, connection: Connection) -> None:
        connection.execute(
            "INSERT INTO pgqueue_channel (name) SELECT 'c' || n FROM generate_series(1, 1100) n"
        )
        enqueue(connection, channel="z")
        bury(connection, 101, channel="zz")
        connection.execute("UPDATE pgqueue_message SET run_at = run_at - interval '1 hour'")

        made = check("age")

        assert made.status == Status.FAILING
        assert made.said.endswith(" s in z")
        assert check("dead").status == Status.WARNING

    def test_that_are_too_many_are_said(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(channels, "MOST", 2)
        connection.execute("INSERT INTO pgqueue_channel (name) VALUES ('a'), ('b'), ('c')")

        made = check("age")

        assert made.status == Status.UNKNOWN
        assert made.said == "nothing waits; of more channels, 2 were looked at, from a"


class TestPartitions:
    @pytest.fixture(autouse=True)
    def _made_again(self, connection: Connection) -> Iterator[None]:
        yield
        partitions.ensure(connection)

    @pytest.mark.parametrize(
        ("gap", "expected", "days"),
        [
            (15, Status.OK, 14),
            (3, Status.WARNING, 2),
            (1, Status.FAILING, 0),
            (0, Status.FAILING, -1),
        ],
    )
    def test_are_counted_up_to_the_first_that_is_missing(
        self, connection: Connection, gap: int, expected: Status, days: int
    ) -> None:
        day = datetime.now(UTC) + timedelta(days=gap)
        connection.execute(f"DROP TABLE IF EXISTS pgqueue_history_{day:%Y%m%d}")

        made = check("partitions")

        assert (made.status, made.figures["days_ahead"]) == (expected, days)


class TestTheHorizon:
    def test_warns_of_a_transaction_that_is_open_for_long(self, connection: Connection) -> None:
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM pgqueue_message")

            made = check("horizon", replace(LIMITS, max_horizon=0))

        # Not the only one, perhaps: an autoanalyze may have been at it for longer.
        named = [each["who"] for each in made.figures["holders"]]
        assert made.status == Status.WARNING
        assert f"pid {connection.info.backend_pid} (pgqueue test)" in named
        assert status("horizon") == Status.OK

    @pytest.mark.django_db(transaction=True, databases=["default", "second"])
    def test_knows_a_transaction_of_another_database_that_writes(
        self, connection: Connection
    ) -> None:
        with closing(connect("second", name="elsewhere")) as other, other.transaction():
            other.execute("SELECT pg_current_xact_id()")

            made = check("horizon", replace(LIMITS, max_horizon=0))

            named = [each["who"] for each in made.figures["holders"]]
            database = other.info.dbname
        assert made.status == Status.WARNING
        assert [each for each in named if each.endswith(f" in the database {database}")]

    def test_is_unknown_to_a_role_that_may_not_look(self, connection: Connection) -> None:
        # Nor does anything else fail for it.
        register(connection)
        do_all_duties()

        with monitoring(connection):
            found = {each.name: each.status for each in health.examine("default")}

        assert found.pop("horizon") == Status.UNKNOWN
        assert set(found.values()) == {Status.OK}
        assert health.worst([Check("horizon", Status.UNKNOWN, "")]) == Status.UNKNOWN

    def test_is_not_held_back_by_a_vacuum(self, connection: Connection) -> None:
        enqueue(connection, 2000)
        with closing(connect("default", name="test")) as other, ThreadPoolExecutor() as threads:
            pid = other.info.backend_pid
            other.execute("SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1")
            vacuuming = threads.submit(other.execute, "VACUUM pgqueue_message")
            eventually(
                lambda: one(
                    connection,
                    "SELECT count(*) FROM pg_stat_progress_vacuum JOIN pg_stat_activity "
                    "USING (pid) WHERE pid = %s AND backend_xmin IS NOT NULL",
                    pid,
                )[0],
                what="it does not vacuum",
            )

            found = engine.holders(connection)
            is_at_it = not vacuuming.done()
            other.cancel_safe()

        assert is_at_it
        assert not [each for each in found if f"pid {pid} " in each.who]

    @pytest.mark.parametrize("kind", ["replication slot", "prepared transaction"])
    def test_warns_of_what_has_no_known_age_by_its_transactions(
        self, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        holders = [Holder(kind, "standby", 10_000_000, None)]
        monkeypatch.setattr(engine, "holders", lambda connection: holders)
        monkeypatch.setattr(engine, "hidden", lambda connection: 0)
        before = status("horizon")
        holders[0] = Holder(kind, "standby", 10_000_001, None)

        made = check("horizon")

        assert (before, made.status) == (Status.OK, Status.WARNING)
        assert made.said == f"held back for 10000001 transactions by a {kind}, standby"


class TestBloat:
    @pytest.fixture(autouse=True)
    def _apart(self, connection: Connection) -> Iterator[None]:
        """Look at a table that no other test has touched: an ended session may count yet."""
        connections["default"].close()
        connection.execute(
            "CREATE SCHEMA apart; SET search_path = apart, public; CREATE TABLE pgqueue_message "
            "(LIKE public.pgqueue_message INCLUDING ALL) WITH (autovacuum_enabled = off)"
        )
        options = connections["default"].settings_dict["OPTIONS"]
        with patch.dict(options, options="-c search_path=apart,public"):
            yield
            connections["default"].close()
        connection.execute("RESET search_path; DROP SCHEMA apart CASCADE")

    def test_warns_of_dead_rows_beyond_the_limit(self, connection: Connection) -> None:
        fill(connection, 300)
        dead = connection.execute("DELETE FROM pgqueue_message WHERE id % 3 = 0").rowcount
        connection.execute("SELECT pg_stat_force_next_flush()")

        made = check("bloat")

        assert (made.figures["rows"], made.figures["dead_rows"]) == (300 - dead, dead)
        assert made.said.startswith(f"{dead} dead rows, ")
        assert status("bloat", max_bloat=dead) == Status.OK
        assert status("bloat", max_bloat=dead - 1) == Status.WARNING

    def test_is_told_with_the_size_of_the_table_and_of_its_indexes(
        self, connection: Connection
    ) -> None:
        fill(connection, 3000)
        connection.execute("ANALYZE pgqueue_message")  # which counts the pages
        size, table, indexes = one(
            connection,
            "SELECT current_setting('block_size')::int, relpages, (SELECT sum(i.relpages) "
            "FROM pg_index JOIN pg_class i ON i.oid = indexrelid WHERE indrelid = t.oid) "
            "FROM pg_class t WHERE oid = 'pgqueue_message'::regclass",
        )

        made = check("bloat")

        assert table > 10
        assert made.figures["table_bytes"] == table * size
        assert made.figures["index_bytes"] == indexes * size
        assert made.said.endswith(f" {(table + indexes) * size / 2**20:.0f} MB")


def test_connections_warn_beyond_their_limit() -> None:
    assert status("connections") == Status.OK
    assert status("connections", max_connections=0.0) == Status.WARNING


class TestExport:
    @pytest.fixture(autouse=True)
    def _retention_waits(self, settings: Any) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "EXPORT_BEFORE_DROP": True}

    def last(self, connection: Connection) -> Position:
        return Position(
            *one(connection, "SELECT txid, id FROM pgqueue_history ORDER BY 1 DESC, 2 DESC LIMIT 1")
        )

    def test_is_no_matter_where_retention_does_not_wait(self, settings: Any) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "EXPORT_BEFORE_DROP": False}

        assert check("export") == Check("export", Status.OK, "retention waits for none")

    def test_warns_where_retention_may_remove_what_a_target_lacks(
        self, connection: Connection, settings: Any
    ) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "EXPORT_BEFORE_DROP": False}
        exported(connection, Position(2, 0), name="/old", ago=timedelta(days=3))
        kept = past(connection, 50)

        made = check("export")
        connection.execute(f"DROP TABLE {kept}")

        assert made.status == Status.WARNING
        assert made.said.endswith("or forget that target with --forget")
        assert made.figures["days_kept"] == []
        assert status("export", max_export=300_000) == Status.OK

    def test_fails_where_there_was_none(self) -> None:
        made = check("export")

        assert made.status == Status.FAILING
        assert made.said.endswith("no history is removed: run pgqueue_export --to DIR")

    def test_is_told_with_what_it_lacks(self, connection: Connection) -> None:
        ended(connection)
        exported(connection, self.last(connection), ago=timedelta(hours=1))
        ended(connection, 2, ago=timedelta(minutes=5))

        made = check("export")

        assert made.status == Status.OK
        assert made.said == "/lake: 3600 s ago; 2 messages are not exported, the first for 300 s"
        assert made.figures["behind"]["messages"] == 2

    def test_fails_where_one_target_is_not_exported_to_any_more(
        self, connection: Connection
    ) -> None:
        exported(connection, Position(2, 0), name="/old", ago=timedelta(days=3))
        exported(connection, Position(1, 0))

        made = check("export")

        assert made.status == Status.FAILING
        assert made.said.startswith("/old: 259200 s ago")
        assert "run pgqueue_export --to /old, or forget that target" in made.said
        assert status("export", max_export=300_000) == Status.OK

    def test_fails_where_days_are_kept_for_it(self, connection: Connection) -> None:
        name = past(connection, 50)
        exported(connection, Position(1, 0))

        made = check("export")
        exported(connection, self.last(connection))
        later = check("export")
        connection.execute(f"DROP TABLE {name}")

        assert made.status == Status.FAILING
        assert "days of history that are kept for it: 1" in made.said
        assert later.status == Status.OK


class TestGroups:
    @pytest.fixture(autouse=True)
    def _as_migrated(self, connection: Connection) -> Iterator[None]:
        yield
        log_as_migrated(connection)

    def group(self, connection: Connection, name: str, *positions: int) -> None:
        with connection.transaction():
            groups.make_group(connection, name, partitions=len(positions), position=0)
        for number, position in enumerate(positions):
            connection.execute(
                'UPDATE pgqueue_cursor SET position = %s WHERE "group" = %s AND partition = %s',
                [position, name, number],
            )

    def test_may_be_none(self) -> None:
        made = check("groups")

        assert (made.status, made.said) == (Status.OK, "there is none")

    def test_are_well_where_they_have_handled_all(self, connection: Connection) -> None:
        logged(connection, 1, ago=timedelta(days=1))
        self.group(connection, "billing", 1)

        made = check("groups")

        assert (made.status, made.said) == (Status.OK, "none is behind")
        assert made.figures["groups"]["billing"]["lag"] == 0

    def test_are_as_far_behind_as_the_slowest_partition(self, connection: Connection) -> None:
        logged(connection, 1, ago=timedelta(seconds=500))
        logged(connection, 2, ago=timedelta(seconds=200))
        logged(connection, 3)
        self.group(connection, "mails", 1, 3)
        self.group(connection, "billing", 3)

        made = check("groups")

        assert made.status == Status.WARNING
        assert made.said == "mails: its next event has waited for 200 s, 2 from the end"
        assert status("groups", max_lag=401) == Status.OK
        assert status("groups", max_lag=199) == Status.FAILING
        assert made.figures["groups"]["mails"]["lag"] == 2

    def test_are_not_behind_because_one_is_rebuilt(self, connection: Connection) -> None:
        logged(connection, 1, ago=timedelta(days=1))
        self.group(connection, "mails", 1)
        self.group(connection, "mails:rebuild", 0)

        made = check("groups")

        assert (made.status, made.said) == (Status.OK, "none is behind")
        assert made.figures["groups"]["mails:rebuild"]["lag"] == 1
        connection.execute("UPDATE pgqueue_cursor SET is_stopped = true WHERE position = 0")
        assert "stopped by an event: mails:rebuild" in check("groups").said

    def test_are_behind_events_that_nobody_has_given_positions(
        self, connection: Connection
    ) -> None:
        self.group(connection, "mails", 0)
        connection.execute(
            "INSERT INTO pgqueue_event_inbox (topic, created_at) "
            "VALUES ('a', statement_timestamp() - interval '400 s')"
        )

        assert status("groups") == Status.FAILING

    def test_include_the_dispatch_where_there_are_subscriptions(
        self, connection: Connection
    ) -> None:
        logged(connection, 1, ago=timedelta(seconds=400))
        self.group(connection, "", 0)

        without, _ = check("groups"), subscribed(connection, "mails")

        assert (without.status, without.said) == (Status.OK, "there is none")
        assert check("groups").said.startswith("the dispatch: its next event has waited for 400 s")

    def test_that_an_event_has_stopped_are_named(self, connection: Connection) -> None:
        logged(connection, 1)
        self.group(connection, "mails", 0)
        connection.execute("UPDATE pgqueue_cursor SET is_stopped = true")

        made = check("groups")

        assert made.status == Status.WARNING
        assert made.said.endswith("stopped by an event: mails: run pgqueue_group resume")

    def test_that_retention_has_left_behind_fail(self, connection: Connection) -> None:
        logged(connection, SIZE)
        LogFloor.objects.create(log="event", position=SIZE - 1)
        self.group(connection, "mails", 5)

        made = check("groups")

        assert made.status == Status.FAILING
        assert "removed before they came to them: mails: run pgqueue_group reset" in made.said

    def test_that_retention_waits_for_fail(self, connection: Connection, settings: Any) -> None:
        logged(connection, SIZE - 1, ago=timedelta(days=31))
        self.group(connection, "mails", SIZE - 2)

        made = check("groups", replace(LIMITS, max_lag=10**9))
        settings.PGQUEUE = {**settings.PGQUEUE, "EVENT_RETENTION": timedelta(days=32)}
        later = check("groups", replace(LIMITS, max_lag=10**9))

        assert made.status == Status.FAILING
        assert made.said.endswith("kept beyond EVENT_RETENTION for group mails")
        assert later.status == Status.OK

    def test_that_retention_keeps_for_an_export_fail(
        self, connection: Connection, settings: Any
    ) -> None:
        logged(connection, SIZE - 1, ago=timedelta(days=31))
        exported(connection, Position(3, 4), name="/lake")

        without = check("groups")
        settings.PGQUEUE = {**settings.PGQUEUE, "EXPORT_BEFORE_DROP": True}
        made = check("groups")

        assert without.status == Status.OK
        assert made.status == Status.FAILING
        assert made.said.endswith("kept beyond EVENT_RETENTION for export /lake")


def write_wal(connection: Connection) -> None:
    """Write two megabytes of WAL."""
    connection.execute(
        "SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) "
        "FROM generate_series(1, 2)"
    )


class TestTheFeed:
    def test_is_well_where_nothing_follows_the_wal(self) -> None:
        assert check("feed").status == Status.OK
        assert check("feed").said == "by poll"

    def test_fails_where_what_it_needs_is_missing(self, connection: Connection) -> None:
        with by_wal(), slot_made() as slot:
            replication.drop_slot(connection, slot)
            made = check("feed")
            connection.execute("DROP PUBLICATION tests")
            without = check("feed")

        assert (made.status, without.status) == (Status.FAILING, Status.FAILING)
        assert "the slot is missing: see pgqueue_replication --status" in made.said
        assert "the publication is missing" in without.said

    def test_warns_where_nobody_follows(self) -> None:
        with by_wal(), slot_made():
            made = check("feed")

        assert made.status == Status.WARNING
        assert "nobody follows it: run pgqueue_replication" in made.said

    def test_tells_how_far_it_is_behind(self, connection: Connection) -> None:
        with by_wal(), slot_made(), feeding():
            eventually(lambda: check("feed").status == Status.OK)
            made = check("feed")

        assert re.match(r"\d+\.\d MB of WAL behind, \d+\.\d MB kept$", made.said)
        assert made.figures["slot"]["is_active"]

    def test_fails_where_wal_grows_that_nobody_follows(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with by_wal(), slot_made():
            # Before the bound is lowered: tests of other processes write WAL, too.
            before = check("feed").status
            monkeypatch.setattr(health.log, "UNFOLLOWED_WAL", 1)
            write_wal(connection)
            eventually(lambda: check("feed").status == Status.FAILING)

        assert before == Status.WARNING

    def test_fails_where_its_publication_lacks_the_inbox(self, connection: Connection) -> None:
        with by_wal(), slot_made():
            connection.execute("ALTER PUBLICATION tests DROP TABLE pgqueue_event_inbox")
            made = check("feed")

        assert made.status == Status.FAILING
        assert "lacks the table pgqueue_event_inbox" in made.said

    def test_fails_where_the_server_takes_it_for_a_standby(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with by_wal(), slot_made() as slot:
            state = replication.state(connection, slot, "tests")._replace(is_standby=True)
            monkeypatch.setattr(replication, "state", lambda *given: state)
            made = check("feed")

        assert made.status == Status.FAILING
        assert "synchronous_standby_names" in made.said

    def test_fails_where_wal_is_kept_for_it(self, connection: Connection) -> None:
        with by_wal(), slot_made(), ExitStack() as paused:
            feed = paused.enter_context(feeding())
            paused.enter_context(patch.object(feed._stream, "confirm"))
            eventually(lambda: check("feed").status == Status.OK)
            write_wal(connection)
            # It is counted once it is written, a moment later.
            eventually(lambda: status("feed", max_wal=1) == Status.FAILING)
            assert status("feed", max_wal=10**6) == Status.OK

    def test_fails_where_an_event_waits_for_its_position(self, connection: Connection) -> None:
        with by_wal(), slot_made():
            connection.execute(
                "INSERT INTO pgqueue_event_inbox (topic, created_at) "
                "VALUES ('a', statement_timestamp() - interval '200 s')"
            )
            made = check("feed")
            assert status("feed", max_lag=199) == Status.FAILING
            assert status("feed", max_lag=10**6) == Status.WARNING  # nobody follows it

        assert made.status == Status.WARNING
        assert "an event has waited for its position for 200 s" in made.said


def test_what_the_role_may_not_see_is_unknown_and_the_rest_is_told(connection: Connection) -> None:
    register(connection)

    with monitoring(connection) as role:
        connection.execute(f"REVOKE ALL ON pgqueue_duty FROM {role}")
        found = {each.name: each for each in health.examine("default")}

    assert found["duties"].status == Status.UNKNOWN
    assert found["duties"].said == "the query failed: permission denied for table pgqueue_duty"
    assert found["workers"].status == found["connections"].status == Status.OK


def test_what_can_not_be_told_otherwise_fails_and_the_rest_is_told(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PATIENCE", "300ms")
    with connection.transaction():
        connection.execute("LOCK TABLE pgqueue_duty")
        found = {each.name: each for each in health.examine("default")}

    assert found["duties"].status == Status.FAILING
    assert found["duties"].said == "the query failed: canceling statement due to statement timeout"
    assert found["bloat"].status == found["connections"].status == Status.OK


def test_a_database_without_the_tables_fails_and_says_what_to_do(without_tables: None) -> None:
    code, text = told()

    assert code == 2
    lines = [line for line in text.splitlines() if "failing" in line]
    assert [line.split()[0] for line in lines[1:]] == [
        *("workers", "age", "dead", "breakers", "duties", "partitions", "bloat"),
        *("export", "groups", "webhooks", "rows"),
    ]
    assert all(line.endswith("does not exist: run manage.py migrate") for line in lines[1:])


def test_a_database_that_can_not_be_reached_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    connections["default"].close()
    monkeypatch.setitem(connections["default"].settings_dict, "HOST", "/nowhere")

    (made,) = health.examine("default")

    assert (made.name, made.status) == ("database", Status.FAILING)


def test_nothing_is_changed_by_looking(connection: Connection) -> None:
    before = connections["default"].cursor().execute("SHOW statement_timeout").fetchone()

    health.examine("default")

    with connections["default"].cursor() as cursor:
        assert cursor.execute("SHOW statement_timeout").fetchone() == before


def hooked(connection: Connection, name: str, **columns: Any) -> None:
    """Store a webhook, and what workers and operators have written in its rows."""
    webhooks.create(name, "https://shop.example/hooks", topics="order.#", secret=new_secret())
    own = {each: columns.pop(each) for each in ("paused", "error") if each in columns}
    Subscription.objects.filter(pk=name).update(**own)
    Webhook.objects.filter(pk=name).update(**columns)


class TestWebhooks:
    def test_that_work_or_rest_are_well(self, connection: Connection) -> None:
        hooked(connection, "works")
        hooked(connection, "rests", paused=True)

        assert check("webhooks") == Check("webhooks", Status.OK, "none fails", {"webhooks": []})

    def test_that_a_worker_has_stopped_warn_and_say_why(self, connection: Connection) -> None:
        hooked(connection, "gone", paused=True, error="Nothing but failures.", failures=9)

        found = check("webhooks")

        assert found.status == Status.WARNING
        assert found.said.startswith("1 stopped (gone: Nothing but failures.)")

    def test_that_fail_warn_after_a_while(self, connection: Connection) -> None:
        since = datetime.now(UTC) - timedelta(seconds=60)
        hooked(connection, "slow", failures=3, failing_since=since)

        assert status("webhooks", max_failing=300) == Status.OK
        assert status("webhooks", max_failing=50) == Status.WARNING
        assert check("webhooks").figures["webhooks"][0]["failures"] == 3


class TestLocks:
    def test_that_nobody_keeps_are_well(self, connection: Connection) -> None:
        with closing(connect("default", name="other")) as other:
            other.execute("SELECT pg_advisory_lock(73)")  # the project's own, that nobody waits for

            well = Check("locks", Status.OK, "none is kept for long", {"locks": []})
            eventually(lambda: check("locks") == well, what="a session of another test ends")

    def test_of_a_lane_are_named_where_others_wait_for_them(self, connection: Connection) -> None:
        with closing(connect("default", name="holder")) as holder, ExitStack() as waiting:
            waiter = waiting.enter_context(closing(connect("default", name="waiter")))
            holder.execute("BEGIN; SELECT pgqueue_keep_order_v1('mail', 'ada')")
            pool = waiting.enter_context(ThreadPoolExecutor(1))
            waits = pool.submit(waiter.execute, "SELECT pgqueue_keep_order_v1('mail', 'ada')")
            kept = replace(LIMITS, max_locked=0)
            found = eventually(
                lambda: "that others wait for" in (now := check("locks", kept)).said and now
            )
            pid, user = holder.info.backend_pid, holder.info.user
            holder.execute("ROLLBACK")
            waits.result(10)

        assert found.status == Status.WARNING
        assert found.said.startswith("an advisory lock that others wait for is kept for")
        assert f"pid {pid} of the role {user}" in found.said

    @pytest.mark.parametrize(
        ("statement", "what"),
        [
            ("BEGIN; SELECT FROM pgqueue_lock WHERE name = 'route' FOR UPDATE", "router"),
            ("SELECT pg_advisory_lock('pgqueue_event'::regclass::oid::bigint)", "partitions"),
        ],
    )
    def test_that_nobody_waits_for_are_named(
        self, connection: Connection, statement: str, what: str
    ) -> None:
        with closing(connect("default", name="holder")) as holder:
            holder.execute(statement)
            pid = holder.info.backend_pid
            kept = replace(LIMITS, max_locked=0)
            # A session that an earlier test has closed may end later, and is named before.
            found = eventually(lambda: f"pid {pid}" in (now := check("locks", kept)).said and now)

        assert found.status == Status.WARNING
        assert what in found.said
        eventually(lambda: status("locks") == Status.OK)  # its process ends a little later

    def test_whose_age_is_hidden_are_unknown(self, connection: Connection) -> None:
        with closing(connect("default", name="holder")) as holder:
            holder.execute("SELECT pg_advisory_lock('pgqueue_event'::regclass::oid::bigint)")
            with monitoring(connection):
                found = check("locks", replace(LIMITS, max_locked=0))

        assert found.status == Status.UNKNOWN
        assert "pg_read_all_stats" in found.said


class TestTheCommand:
    @pytest.mark.parametrize(
        ("found", "code"),
        [
            ([Status.OK, Status.UNKNOWN], 0),
            ([Status.WARNING, Status.UNKNOWN, Status.OK], 1),
            ([Status.OK, Status.FAILING, Status.WARNING], 2),
        ],
    )
    def test_exits_with_the_worst(self, found: list[Status], code: int) -> None:
        checks = [Check(f"check {each}", each, "so") for each in found]

        with patch("pgqueue.management.commands.pgqueue_health.examine", return_value=checks):
            assert told()[0] == code

    def test_has_a_line_for_each_check(self, connection: Connection) -> None:
        register(connection)
        do_all_duties()

        code, text = told()

        first, *lines = text.splitlines()
        assert (code, first) == (0, "pgqueue is ok")
        assert [line.split()[0] for line in lines] == list(health.CHECKS)

    def test_may_be_json(self, connection: Connection) -> None:
        insert(connection, state="dead")

        code, text = told("--check", "dead", "--max-dead", "0", "--format", "json")

        assert code == 1
        assert json.loads(text) == {
            "status": "warning",
            "checks": {
                "dead": {
                    "name": "dead",
                    "status": "warning",
                    "said": "1",
                    "figures": {"letters": {"default": 1}, "is_estimate": False},
                }
            },
        }

    def test_may_be_json_of_every_check(self, connection: Connection) -> None:
        register(connection)
        aged(connection, "mail", seconds=10)
        bury(connection)
        do_all_duties()

        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM pgqueue_message")
            code, text = told("--format", "json")

        checks = json.loads(text)["checks"]
        figures = {name: each["figures"] for name, each in checks.items()}
        assert (code, list(checks)) == (0, list(health.CHECKS))
        assert [each["host"] for each in figures["workers"]["alive"]] == ["somewhere"]
        assert figures["age"]["seconds"]["mail"] >= 10
        assert figures["dead"]["letters"] == {"default": 1}
        assert figures["duties"]["purge"]["is_overdue"] is False
        assert figures["partitions"] == {"days_ahead": 14}
        assert figures["bloat"]["table_bytes"] > 0
        assert figures["horizon"]["holders"][0]["transactions"] >= 0
        assert 0 < figures["connections"]["used"] < figures["connections"]["most"]

    def test_has_an_option_for_each_limit(self) -> None:
        given = {
            "host": "web-1",
            "min_workers": 2,
            "max_age": 1.5,
            "max_dead": 3,
            "max_late": 4.5,
            "min_days": 5,
            "max_bloat": 6,
            "max_horizon": 7.5,
            "max_connections": 0.8,
            "max_export": 9.5,
            "max_lag": 8.5,
            "max_wal": 10,
            "max_failing": 11.5,
            "max_locked": 12.5,
            "max_busy": 12.5,
        }
        asked = []

        def note(alias: str, limits: HealthLimits, names: object) -> list[Check]:
            asked.append(limits)
            return []

        with patch("pgqueue.management.commands.pgqueue_health.examine", note):
            told(*(f"--{name.replace('_', '-')}={value}" for name, value in given.items()))

        assert asked == [HealthLimits(**given)]

    @pytest.mark.parametrize("arguments", [[], ["--database", "default"]])
    def test_fails_where_it_is_configured_as_can_not_be(
        self, settings: Any, arguments: list[str]
    ) -> None:
        settings.PGQUEUE = {"LEASE": "soon"}

        with pytest.raises(CommandError, match="LEASE") as raised:
            call_command("pgqueue_health", *arguments)

        assert raised.value.returncode == 2

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["--check", "weather"], "invalid choice"),
            (["--max-age", "old"], "'old': it must be a number"),
            (["--database", "nowhere"], "DATABASES has no 'nowhere'"),
        ],
    )
    def test_refuses_what_can_not_be(self, arguments: list[str], error: str) -> None:
        with pytest.raises(CommandError, match=error):
            call_command("pgqueue_health", *arguments)


def fill(connection: Connection, count: int) -> None:
    """Insert so many rows, just as they are."""
    connection.execute(
        "INSERT INTO pgqueue_message (channel, task, state, max_attempts) "
        "SELECT 'default', 'tests.task', 'ready', 5 FROM generate_series(1, %s)",
        [count],
    )


def aged(connection: Connection, channel: str, *, seconds: float) -> None:
    """Enqueue a message that has been ready for so long."""
    (id,) = enqueue(connection, channel=channel)
    connection.execute(
        "UPDATE pgqueue_message SET run_at = run_at - %s WHERE id = %s",
        [timedelta(seconds=seconds), id],
    )
