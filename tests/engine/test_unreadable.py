"""Values that Python can't hold are refused; a row with such a value stops no other row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from psycopg.errors import CheckViolation, InvalidParameterValue

from pgqueue.database.connections import SETTINGS, connect
from pgqueue.engine import settle
from pgqueue.metrics.exposition import of_the_queue
from pgqueue.models import History, Message
from pgqueue.values.readable import (
    EARLIEST,
    LATEST,
    ReadableCursor,
    reading,
)
from tests.claims import GovernedClaims
from tests.factories import OVER, Connection, claim, done, enqueue, insert, limit, register
from tests.management.calling import call

UNREADABLE = ["infinity", "-infinity", "0044-03-15 12:00+00 BC", "10000-01-01 00:00+00"]


@pytest.fixture
def unchecked(connection: Connection) -> Iterator[None]:
    """A table of messages without its constraints."""
    row = connection.execute(
        """SELECT string_agg(format('ADD CONSTRAINT %I %s', conname, definition), ', '),
                  string_agg(format('DROP CONSTRAINT %I', conname), ', ')
           FROM pg_constraint, pg_get_constraintdef(oid) AS definition
           WHERE conrelid = 'pgqueue_message'::regclass AND contype = 'c'"""
    ).fetchone()
    assert row is not None
    add, drop = row
    connection.execute(f"ALTER TABLE pgqueue_message {drop}")
    yield
    connection.execute("DELETE FROM pgqueue_message")
    connection.execute(f"ALTER TABLE pgqueue_message {add}")


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.usefixtures("unchecked")
class TestAClaim:
    def test_ends_what_it_cannot_read_as_a_dead_letter_and_returns_the_rest(
        self, connection: Connection, value: str
    ) -> None:
        (bad, *good) = enqueue(connection, 3)
        connection.execute("UPDATE pgqueue_message SET run_at = %s WHERE id = %s", [value, bad])

        claims = claim(connection)

        assert sorted(each.id for each in claims) == good
        dead = Message.objects.get(id=bad)
        assert (dead.state, dead.failures, dead.attempt) == ("dead", 1, 1)
        assert dead.worker_id is None
        assert dead.errors[0]["class"] == "pgqueue.exceptions.UnreadableMessage"
        assert dead.errors[0]["message"].startswith("unreadable: run_at is ")
        assert EARLIEST <= dead.run_at <= LATEST
        assert claim(connection) == []

    def test_of_a_governed_lane_does_the_same(self, connection: Connection, value: str) -> None:
        limit("ruled", max_running=5)
        (bad, *good) = enqueue(connection, 3, channel="ruled", key="a")
        connection.execute("UPDATE pgqueue_message SET run_at = %s WHERE id = %s", [value, bad])

        claims = GovernedClaims(connection).claim(9)

        assert sorted(each.id for each in claims) == good
        assert Message.objects.get(id=bad).state == "dead"

    def test_ends_a_message_that_was_asked_to_be_cancelled(
        self, connection: Connection, value: str
    ) -> None:
        (bad,) = enqueue(connection)
        connection.execute(
            "UPDATE pgqueue_message SET created_at = %s, cancel_requested_at = now()", [value]
        )

        assert claim(connection) == []

        assert Message.objects.get(id=bad).state == "dead"

    def test_ends_what_lost_its_worker_before(self, connection: Connection, value: str) -> None:
        (bad,) = enqueue(connection)
        claim(connection, lease=OVER)
        connection.execute(
            "UPDATE pgqueue_message SET run_at = %s, state = 'ready', lost = 2147483647", [value]
        )

        assert claim(connection) == []

        assert Message.objects.get(id=bad).state == "dead"


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.usefixtures("unchecked")
def test_what_looks_at_a_message_that_nobody_can_read_shows_the_others(
    connection: Connection, value: str
) -> None:
    (bad, good) = enqueue(connection, 2)
    connection.execute(
        "UPDATE pgqueue_message SET run_at = %s, expires_at = %s, created_at = %s WHERE id = %s",
        [value, value, value, bad],
    )

    listed = call("pgqueue_list", "--format", "json").objects
    assert {each["id"] for each in listed} == {bad, good}
    assert call("pgqueue_show", str(bad), "--format", "json").json["id"] == bad
    assert "the query failed" not in call("pgqueue_health").out
    assert b"pgqueue_messages" in of_the_queue("default", accept="")[0]
    call("pgqueue_stats")
    user = User.objects.create_superuser("u")
    client = Client()
    client.force_login(user)
    for page in ("message/", f"message/{bad}/change/", "overview/"):
        assert client.get(f"/admin/pgqueue/{page}").status_code == 200
    user.delete()


class TestCounters:
    def test_at_their_end_stop_no_claim(self, connection: Connection) -> None:
        most = 2**31 - 1
        bad = insert(connection, state="ready", attempt=most, failures=most, lost=most)
        (good,) = enqueue(connection)

        claims = {each.id: each for each in claim(connection)}

        assert set(claims) == {bad, good}
        # The fence needs another number than before.
        assert claims[bad].attempt == 1
        assert settle.complete(connection, [done(each) for each in claims.values()]) == {bad, good}

    def test_of_failures_stay_where_they_are(self, connection: Connection) -> None:
        most = 2**31 - 1
        bad = insert(connection, state="ready", failures=most)
        claims = claim(connection)

        settle.bury(connection, [settle.Failure(each, "{}", 0.0) for each in claims])

        assert Message.objects.get(id=bad).failures == most


class TestARow:
    @pytest.mark.parametrize("value", UNREADABLE)
    @pytest.mark.parametrize("column", ["run_at", "expires_at", "created_at", "claimed_at"])
    def test_with_a_time_that_nobody_can_read_is_refused(
        self, connection: Connection, column: str, value: str
    ) -> None:
        with pytest.raises(CheckViolation, match="pgqueue_message_times"):
            insert(connection, state="ready", **{column: value})

    def test_of_history_is_refused_in_each_partition(self, connection: Connection) -> None:
        (message,) = enqueue(connection)
        settle.complete(connection, [done(each) for each in claim(connection)])

        with pytest.raises(CheckViolation, match="pgqueue_history_times"):
            connection.execute("UPDATE pgqueue_history SET expires_at = 'infinity'")

        assert History.objects.get(id=message).expires_at is None


class TestTheFunction:
    @pytest.mark.parametrize(
        ("argument", "value", "said"),
        [
            ("run_at", "-infinity", "run_at must be a finite time"),
            ("run_at", "infinity", "run_at must be a finite time"),
            ("run_at", "0044-03-15 BC", "between the years 1 and 9999"),
            ("expires_at", "-infinity", "expires_at must be a finite time"),
            ("run_after", "1000000 years", "run_after must be a hundred years at most"),
            ("expires_after", "1000000 years", "expires_after must be"),
            ("held_for", "1000000 years", "held_for must be"),
            ("priority", "40000", "priority must be from -100 to 100"),
            ("max_attempts", "0", "max_attempts must be 1 or more"),
            ("metadata", "[]", "metadata must be a JSON object"),
            ("channel", "", "channel must be a name"),
            ("channel", "x" * 201, "channel may be 200 bytes"),
            ("key", "x" * 1001, "key may be 1000 bytes"),
            ("dedupe_key", "x" * 1001, "dedupe_key may be 1000 bytes"),
        ],
    )
    def test_names_the_argument_that_cannot_be(
        self, connection: Connection, argument: str, value: str, said: str
    ) -> None:
        with pytest.raises(InvalidParameterValue, match=said):
            connection.execute(f"SELECT pgqueue_enqueue('a.task', {argument} => '{value}')")

        assert not Message.objects.exists()

    def test_takes_infinity_as_never(self, connection: Connection) -> None:
        connection.execute("SELECT pgqueue_enqueue('a.task', expires_at => 'infinity')")

        assert Message.objects.get().expires_at is None

    def test_for_events_takes_topics_whatever_a_sessions_strings_are(
        self, connection: Connection
    ) -> None:
        connection.execute("SET standard_conforming_strings = off")

        connection.execute("SELECT pgqueue_publish('sales.is', '{}')")

        with pytest.raises(InvalidParameterValue, match="no topic"):
            connection.execute("SELECT pgqueue_publish('two words', '{}')")


class TestACursor:
    """Read rows, whatever is in them."""

    QUERY = """SELECT number, CASE number WHEN 2 THEN 'infinity' WHEN 4 THEN '-infinity'
                                          ELSE '2026-01-02 00:00+00' END::timestamptz AS at
               FROM generate_series(1, 4) AS number"""
    PLAIN = datetime(2026, 1, 2, tzinfo=UTC)
    ROWS = ((1, PLAIN), (2, LATEST), (3, PLAIN), (4, EARLIEST))

    def test_gives_the_nearest_time_and_says_which(self, connection: Connection) -> None:
        cursor = connection.execute(self.QUERY)

        assert cursor.fetchall() == list(self.ROWS)
        assert isinstance(cursor, ReadableCursor)
        assert cursor.unreadable == {1: {"at": "infinity"}, 3: {"at": "-infinity"}}

    @pytest.mark.parametrize(
        "fetch",
        [
            lambda cursor: [cursor.fetchone() for _ in range(4)],
            lambda cursor: cursor.fetchmany(3) + cursor.fetchmany(3),
            lambda cursor: [cursor.fetchone(), *cursor.fetchall()],
            list,
        ],
    )
    def test_gives_each_row_once(
        self, connection: Connection, fetch: Callable[[object], object]
    ) -> None:
        cursor = connection.execute(self.QUERY)

        assert fetch(cursor) == list(self.ROWS)
        assert cursor.fetchone() is None

    def test_of_djangos_connection_is_one_only_while_it_is_lent(self) -> None:
        with connections["default"].cursor():
            own = connections["default"].connection
        with reading(own):
            assert own.execute(self.QUERY).fetchall() == list(self.ROWS)

        with pytest.raises(psycopg.DataError):
            own.execute(self.QUERY).fetchall()


class TestASession:
    @pytest.mark.parametrize(
        "settings",
        [
            {"DateStyle": "SQL, DMY"},
            {"DateStyle": "German"},
            {"IntervalStyle": "iso_8601"},
            {"IntervalStyle": "sql_standard"},
            {"extra_float_digits": "-15"},
            {"bytea_output": "escape"},
            {"array_nulls": "off"},
            {"standard_conforming_strings": "off"},
            {"lock_timeout": "1ms", "TimeZone": "Pacific/Apia"},
        ],
        ids=str,
    )
    def test_reads_and_writes_whatever_its_role_is_set_to(
        self,
        connection: Connection,
        connect: Callable[..., Connection],
        settings: dict[str, str],
    ) -> None:
        name = connection.info.dbname
        for setting, value in settings.items():
            connection.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
        try:
            own = connect()
            connections["default"].close()
            due = datetime(2020, 2, 1, tzinfo=UTC)
            register(own, notify_for=timedelta(minutes=1))
            ids = enqueue(own, 2, bodies=[b"\x00\\x", b"a"], run_at=due)
            claims = claim(own)
            settle.complete(own, [done(each) for each in claims])
            seen = call("pgqueue_list", "--state", "ended", "--format", "json")
        finally:
            for setting in settings:
                connection.execute(f"ALTER DATABASE {name} RESET {setting}")
            connections["default"].close()

        assert [each.id for each in claims] == ids
        assert {each.run_at for each in claims} == {due}
        assert [each.body for each in claims] == [b"\x00\\x", b"a"]
        assert len(seen.objects) == 2


OTHERWISE = {
    "TimeZone": "Pacific/Apia",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "idle_in_transaction_session_timeout": "7h",
    "statement_timeout": "7h",
    "lock_timeout": "7h",
    "idle_session_timeout": "7h",
    "exit_on_error": "on",
    "jit": "on",
    "plan_cache_mode": "force_custom_plan",
    "enable_seqscan": "on",
    "DateStyle": "German, DMY",
    "IntervalStyle": "iso_8601",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
}


@pytest.mark.new_sessions
def test_each_setting_that_statements_rely_on_is_the_sessions_own(connection: Connection) -> None:
    assert OTHERWISE.keys() == SETTINGS.keys()
    name = connection.info.dbname
    for setting, value in OTHERWISE.items():
        connection.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    try:
        with closing(connect("default", name="test")) as own:
            shown = {
                each: row[0]
                for each in SETTINGS
                if (row := own.execute("SELECT current_setting(%s)", [each]).fetchone())
            }
    finally:
        connection.execute(f"ALTER DATABASE {name} RESET ALL")

    assert shown == {**SETTINGS, "DateStyle": "ISO, DMY"}


def test_a_dead_letter_whose_error_has_no_time_does_not_stop_retention(
    connection: Connection,
) -> None:
    from pgqueue.engine import dead

    old = "2020-01-01 00:00+00"
    insert(connection, state="dead", claimed_at=old, errors='[{"at": "never"}]')
    insert(connection, state="dead", claimed_at=old, errors='["only text"]')

    assert dead.discard_old(connection, keep=timedelta(days=1)) == 2
