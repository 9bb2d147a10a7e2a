"""One row that makes the statement of a duty raise each time: all others go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import errors

from pgqueue.database.connections import conninfo
from pgqueue.duties.schedule import Schedules
from pgqueue.engine import (
    culprits,
    dead,
    expire,
    flows,
    lease,
    promote,
    retention,
    route,
    run_statistics,
)
from pgqueue.engine.culprits import by_halves, may_be_own
from pgqueue.engine.schedule import DeclaredSchedule
from pgqueue.models import History, Message
from pgqueue.states import Outcome
from tests.engine.flow_graphs import Graph
from tests.factories import (
    Connection,
    bury,
    ended,
    hold,
    limit,
    make_due,
    one,
    refusing,
    run,
    schedule,
)

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.ERROR, logger="pgqueue")
    culprits.forget_all()  # rows of earlier tests in this process
    yield
    culprits.forget_all()


def test_a_row_of_another_schema_is_not_left_out(connection: Connection) -> None:
    leave_out = partial(culprits.leave_out, what="claim", table="pgqueue_message")
    options = "-c search_path=elsewhere,public"
    with psycopg.connect(conninfo("default"), options=options) as other:
        leave_out(connection, item=7, error=ValueError())
        leave_out(other, item=8, error=ValueError())

        assert culprits.left_out(connection, "claim", "pgqueue_message") == [7]
        assert culprits.left_out(other, "claim", "pgqueue_message") == [8]
        assert culprits.number_left_out(other) == 1


def test_a_row_of_another_roles_schema_is_not_left_out(connection: Connection) -> None:
    leave_out = partial(culprits.leave_out, what="claim", table="pgqueue_message")
    connection.execute("DROP ROLE IF EXISTS of_another_schema")
    connection.execute("CREATE ROLE of_another_schema LOGIN PASSWORD 'secret'")
    try:
        parameters = {"user": "of_another_schema", "password": "secret"}
        with psycopg.connect(conninfo("default"), **parameters) as other:
            leave_out(connection, item=7, error=ValueError())

            assert culprits.left_out(other, "claim", "pgqueue_message") == []
            assert culprits.number_left_out(other) == 0
            assert culprits.number_left_out(connection) == 1
    finally:
        connection.execute("DROP ROLE of_another_schema")


class TestWhoIsAtFault:
    @pytest.mark.parametrize(
        "error",
        [
            errors.SerializationFailure(),
            errors.DeadlockDetected(),
            errors.AdminShutdown(),
            errors.QueryCanceled(),
            errors.DiskFull(),
            errors.OutOfMemory(),
            errors.LockNotAvailable(),
            errors.ReadOnlySqlTransaction(),
            errors.IoError(),
            psycopg.OperationalError("the connection is lost"),
            psycopg.InterfaceError("the connection is closed"),
            psycopg.InternalError("a pooler has lost its server"),
            RuntimeError(),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_is_no_row(self, error: Exception) -> None:
        assert not may_be_own(error)

    def test_is_no_row_where_the_queue_of_notifications_is_full(self) -> None:
        class QueueIsFull(errors.ProgramLimitExceeded):
            diag = SimpleNamespace(source_function="PreCommit_Notify")  # type: ignore[assignment]

        assert not may_be_own(QueueIsFull())

    @pytest.mark.parametrize(
        "error",
        [
            errors.CheckViolation(),
            errors.RaiseException(),
            errors.FeatureNotSupported(),
            errors.DivisionByZero(),
            errors.DataCorrupted(),
            errors.ProgramLimitExceeded(),
            errors.UndefinedColumn(),
            psycopg.DataError("a value that psycopg can't send"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_may_be_a_row(self, error: Exception) -> None:
        assert may_be_own(error)


class TestHalves:
    def test_name_each_culprit_and_do_all_others_once_in_order(self) -> None:
        done: list[int] = []
        found: dict[int, Exception] = {}

        def do(numbers: Any) -> None:
            if {3, 4, 11} & set(numbers):
                raise ValueError(list(numbers))
            done.extend(numbers)

        list(by_halves(do, range(16), found.__setitem__))

        assert done == [n for n in range(16) if n not in (3, 4, 11)]
        assert {n: error.args for n, error in found.items()} == {n: ([n],) for n in (3, 4, 11)}

    def test_blame_nobody_for_what_fails_without_anything(self) -> None:
        calls = []

        def do(numbers: Any) -> None:
            calls.append(len(numbers))
            raise ValueError("always")

        with pytest.raises(ValueError, match="always"):
            list(by_halves(do, range(1000), lambda n, error: None))

        assert calls == [1000, 0]

    def test_end_with_an_error_that_is_nobody_s(self) -> None:
        def do(numbers: Any) -> None:
            if len(numbers) == 1:
                raise psycopg.OperationalError("gone")
            if numbers:
                raise ValueError

        with pytest.raises(psycopg.OperationalError, match="gone"):
            list(by_halves(do, range(8), lambda n, error: None))


def _promote(connection: Connection) -> list[int]:
    ids = schedule(connection, 5)
    make_due(connection, ids)
    return ids


def _expire(connection: Connection) -> list[int]:
    ids = hold(connection, 5)
    connection.execute("UPDATE pgqueue_message SET lease_until = clock_timestamp() - interval '1s'")
    return ids


def _rescue(connection: Connection) -> list[int]:
    ids = [each.id for each in run(connection, 5)]
    connection.execute("UPDATE pgqueue_message SET lease_until = clock_timestamp() - interval '1s'")
    return ids


def _discard(connection: Connection) -> list[int]:
    ids = bury(connection, 5)
    connection.execute(
        "UPDATE pgqueue_message SET claimed_at = claimed_at - interval '9 days', errors = '[]'"
    )
    return ids


MESSAGES = [
    pytest.param(_promote, promote.promote, {}, "ready", "promote", id="promote"),
    pytest.param(_expire, expire.expire, {}, None, "expire", id="expire"),
    pytest.param(_rescue, lease.rescue, {"max_lost": 3}, "ready", "rescue", id="rescue"),
    pytest.param(_discard, dead.discard_old, {"keep": DAY}, None, "discard old", id="discard"),
]


class TestAMessage:
    @pytest.mark.parametrize(("prepare", "verb", "options", "state", "what"), MESSAGES)
    @pytest.mark.parametrize("is_in_transaction", [True, False], ids=["duty", "alone"])
    def test_that_can_not_be_changed_holds_no_other_up(
        self,
        connection: Connection,
        caplog: pytest.LogCaptureFixture,
        prepare: Callable[[Connection], list[int]],
        verb: Callable[..., Any],
        options: dict[str, Any],
        state: str | None,
        what: str,
        is_in_transaction: bool,
    ) -> None:
        ids = prepare(connection)
        before = Message.objects.get(pk=ids[2]).state
        around = connection.transaction if is_in_transaction else nullcontext

        with refusing(connection, "pgqueue_message", f"OLD.id = {ids[2]}", "UPDATE OR DELETE"):
            with around():
                verb(connection, **options)
            with around():
                verb(connection, **options)
            states = dict(Message.objects.values_list("id", "state"))

        others = dict.fromkeys((id for id in ids if id != ids[2]), state) if state else {}
        assert states == {**others, ids[2]: before}
        assert caplog.text.count(f"{what}") == caplog.text.count(f"pgqueue_message {ids[2]}") == 1
        assert "secret" not in caplog.text

    def test_is_tried_again_after_a_while(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(culprits, "AGAIN", 0.0)
        ids = _promote(connection)
        with refusing(connection, "pgqueue_message", f"OLD.id = {ids[2]}", "UPDATE"):
            assert promote.promote(connection) == 4

        assert promote.promote(connection) == 1

    def test_is_one_of_many_such_and_all_are_found_in_the_end(self, connection: Connection) -> None:
        ids = schedule(connection, 40)
        make_due(connection, ids)

        with refusing(connection, "pgqueue_message", "OLD.id % 2 = 0", "UPDATE"):
            for _ in range(2):
                with pytest.raises(psycopg.Error, match="refused"), connection.transaction():
                    promote.promote(connection)
            assert promote.promote(connection) == 20

        assert set(Message.objects.filter(state="ready").values_list("id", flat=True)) == {
            id for id in ids if id % 2
        }

    def test_that_can_not_be_renewed_costs_no_other_its_lease(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        claims = run(connection, 5)
        connection.execute("UPDATE pgqueue_message SET lease_until = clock_timestamp()")

        with refusing(connection, "pgqueue_message", f"OLD.id = {claims[2].id}", "UPDATE"):
            renewed = lease.extend(connection, claims, lease=DAY)

        assert renewed == {each.id: False for each in claims}  # none is lost by that
        first = Message.objects.earliest("lease_until")
        assert first.id == claims[2].id
        assert Message.objects.filter(lease_until__gt=first.lease_until + DAY / 2).count() == 4
        assert f"extend fails because of pgqueue_message {claims[2].id}" in caplog.text


class TestOtherRows:
    def test_a_bell_that_can_not_be_routed_keeps_no_other(self, connection: Connection) -> None:
        limit("limited", max_running=1)
        connection.execute("DELETE FROM pgqueue_bell")
        connection.execute(
            "INSERT INTO pgqueue_bell (channel, key) "
            "SELECT 'limited', 'k' || n FROM generate_series(1, 5) n"
        )

        with refusing(connection, "pgqueue_lane", "NEW.key = 'k3'", "INSERT"):
            assert route.route(connection, after=0) is not None

        keys = connection.execute("SELECT key FROM pgqueue_lane ORDER BY key").fetchall()
        assert [key for (key,) in keys] == ["k1", "k2", "k4", "k5"]
        assert one(connection, "SELECT key FROM pgqueue_bell") == ("k3",)

    def test_a_child_that_can_not_be_let_go_keeps_no_other(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "", "d": "a", "e": "b", "f": "c"})
        graph.run("abc")  # which ring one bell

        with refusing(connection, "pgqueue_message", f"OLD.id = {graph.ids['e']}", "UPDATE"):
            route.route(connection, after=0)

            assert graph.ready() == "df"
        assert f"the children of pgqueue_message {graph.ids['b']}" in caplog.text
        assert flows.ring_stale(connection) == 1
        route.route(connection, after=0)
        assert graph.ready() == "def"

    def test_a_tally_that_can_not_be_added_keeps_no_other(self, connection: Connection) -> None:
        for n in range(5):
            connection.execute(
                "INSERT INTO pgqueue_tally (at, channel, task, succeeded, failed, dead, deferred, "
                "discarded, cancelled, waited, ran, waits, runs, lost, released) "
                "SELECT now(), %s, 't', 1, 0, 0, 0, 0, 0, 0, 0, "
                "array_fill(0::bigint, ARRAY[24]), array_fill(0::bigint, ARRAY[24]), 0, 0",
                [f"c{n}"],
            )

        with refusing(connection, "pgqueue_total", "NEW.channel = 'c3'", "INSERT"):
            assert run_statistics.fold(connection) == 4

        assert one(connection, "SELECT channel FROM pgqueue_tally") == ("c3",)

    def test_a_flow_that_can_not_be_ended_keeps_no_other(self, connection: Connection) -> None:
        ids = [flows.reserve(connection) for _ in range(5)]
        for id in ids:
            flows.begin(connection, id, "")

        with refusing(connection, "pgqueue_flow", f"OLD.id = {ids[2]}", "UPDATE"):
            assert flows.end(connection) == 4

    def test_history_that_can_not_be_removed_keeps_no_other(self, connection: Connection) -> None:
        ended(connection, 5, ago=timedelta(hours=2))
        ids = list(History.objects.order_by("id").values_list("id", flat=True))
        kept = {**dict.fromkeys(Outcome.values, 30 * DAY), "succeeded": timedelta(hours=1)}
        [window] = retention.windows(connection, kept)

        with refusing(connection, "pgqueue_history", f"OLD.id = {ids[2]}", "DELETE"):
            assert retention.purge(connection, window, kept).removed == 4

    def test_a_schedule_of_the_code_that_can_not_be_stored_keeps_no_other(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        declared = [
            DeclaredSchedule(
                f"s{n}", "a.task", "0 0 * * *", None, "UTC", "[]", "{}", "once", "allow"
            )
            for n in range(5)
        ]
        scheduling = SimpleNamespace(declared=lambda database: declared)

        with refusing(connection, "pgqueue_schedule", "NEW.name = 's3'"):
            Schedules(database="default", scheduling=scheduling).look(connection)

        names = connection.execute("SELECT name FROM pgqueue_schedule ORDER BY name").fetchall()
        assert [name for (name,) in names] == ["s0", "s1", "s2", "s4"]
        assert "schedule s3 failed" in caplog.text

    def test_a_dedupe_key_that_can_not_be_forgotten_keeps_no_other(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        connection.execute(
            "INSERT INTO pgqueue_dedupe (channel, dedupe_key, message_id, expires_at) "
            "SELECT 'c', 'k' || n, n, now() - interval '1 s' FROM generate_series(1, 5) n"
        )

        with refusing(connection, "pgqueue_dedupe", "OLD.dedupe_key = 'k3'", "DELETE"):
            assert expire.forget(connection) == 4

        assert one(connection, "SELECT dedupe_key FROM pgqueue_dedupe") == ("k3",)
        assert "forget dedupe keys fails because of pgqueue_dedupe 'c'" in caplog.text
