"""The rows of duties: taken by one process at a time, and never in each other's way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pgqueue.engine import duty
from pgqueue.models import Duty
from tests.factories import Connection
from tests.stepping import Step

MINUTE = timedelta(minutes=1)
NONE = timedelta()


class TestADuty:
    def test_without_a_row_is_due_at_once(self, connection: Connection) -> None:
        due = duty.due(connection, ["a", "b"])

        assert due == {"a": NONE, "b": NONE}
        assert set(Duty.objects.values_list("name", flat=True)) == {"a", "b"}
        assert duty.take(connection, "a", early=False)

    def test_keeps_the_row_it_has(self, connection: Connection) -> None:
        duty.due(connection, ["a"])
        duty.done(connection, "a", again_in=MINUTE)

        due = duty.due(connection, ["a", "b"])

        assert MINUTE - timedelta(seconds=20) < due["a"] <= MINUTE
        assert due["b"] == NONE

    def test_of_another_version_is_none_of_ours(self, connection: Connection) -> None:
        duty.due(connection, ["new", "shared"])

        assert set(duty.due(connection, ["shared"])) == {"shared"}

    def test_that_was_done_is_due_again_when_it_said(self, connection: Connection) -> None:
        duty.due(connection, ["a"])

        duty.done(connection, "a", again_in=MINUTE)

        row = Duty.objects.get()
        assert row.ran_at
        assert timedelta() <= MINUTE - (row.due_at - row.ran_at) < timedelta(seconds=1)
        assert not duty.take(connection, "a", early=False)

    def test_may_be_taken_early(self, connection: Connection) -> None:
        duty.due(connection, ["a"])
        duty.done(connection, "a", again_in=MINUTE)

        assert duty.take(connection, "a", early=True)

    def test_that_is_overdue_says_so(self, connection: Connection) -> None:
        duty.due(connection, ["a"])
        connection.execute(
            "UPDATE pgqueue_duty SET due_at = clock_timestamp() - interval '1 minute'"
        )

        assert duty.due(connection, ["a"])["a"] <= -MINUTE

    def test_is_due_by_the_clock_not_by_the_transactions_start(
        self, connection: Connection
    ) -> None:
        duty.due(connection, ["a"])
        with connection.transaction():
            connection.execute("SELECT now()")
            duty.done(connection, "a", again_in=timedelta(seconds=0.02))
            connection.execute("SELECT pg_sleep(0.05)")

            assert duty.take(connection, "a", early=False)

    def test_is_not_put_off_by_a_clock_that_was_set_back(self, connection: Connection) -> None:
        # It ran while the database's clock was an hour ahead.
        duty.due(connection, ["a"])
        connection.execute(
            "UPDATE pgqueue_duty SET ran_at = clock_timestamp() + interval '1 hour', "
            "due_at = clock_timestamp() + interval '1 hour 1 second'"
        )

        assert duty.due(connection, ["a"])["a"] <= NONE
        assert duty.take(connection, "a", early=False)


class TestTwoTakers:
    @pytest.mark.parametrize("early", [False, True])
    def test_one_of_them_gets_it(
        self, connection: Connection, other: Connection, early: bool
    ) -> None:
        duty.due(connection, ["a"])

        with connection.transaction():
            first = duty.take(connection, "a", early=early)
            second = duty.take(other, "a", early=early)

        assert (first, second) == (True, False)

    def test_the_second_gets_it_where_the_first_died(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        duty.due(connection, ["a"])

        with pytest.raises(Exception, match="terminat|closed"), connection.transaction():
            duty.take(connection, "a", early=False)
            duty.done(connection, "a", again_in=MINUTE)
            third.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
            taken = duty.take(other, "a", early=False)
            connection.execute("SELECT 1")

        assert taken

    def test_the_second_finds_it_done(self, connection: Connection, other: Connection) -> None:
        duty.due(connection, ["a"])

        with connection.transaction():
            duty.take(connection, "a", early=False)
            duty.done(connection, "a", again_in=MINUTE)

        assert not duty.take(other, "a", early=False)

    def test_add_what_is_missing_without_a_deadlock(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        # Two versions of a worker may list their duties in different orders.
        with third.transaction(force_rollback=True):
            third.execute("INSERT INTO pgqueue_duty VALUES ('b', clock_timestamp())")
            first = step(duty.due, connection, ["a", "b", "c"])
            first.waits()
            second = step(duty.due, other, ["c", "b", "a"])
            second.waits()

        assert set(first.result()) == set(second.result()) == {"a", "b", "c"}
