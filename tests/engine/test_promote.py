"""Delayed messages: made ready when their time has come, or when an operator says so."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue.engine import promote
from pgqueue.models import Message
from pgqueue.states import State
from tests.factories import SOON, Connection, Listening, claim, insert, make_due, register, schedule

MINUTE = timedelta(minutes=1)


def ready() -> set[int]:
    return set(Message.objects.filter(state=State.READY).values_list("id", flat=True))


class TestPromoting:
    def test_makes_ready_what_is_due(self, connection: Connection) -> None:
        due, later = schedule(connection, 2)
        make_due(connection, [due])

        assert promote.promote(connection) == 1
        assert ready() == {due}
        assert Message.objects.get(pk=later).state == State.SCHEDULED

    def test_is_of_however_many_channels(self, connection: Connection) -> None:
        for n in range(150):
            make_due(connection, schedule(connection, channel=f"c{n}"))

        assert promote.promote(connection) == 150

    @pytest.mark.parametrize("state", [State.HELD, State.RUNNING, State.DEAD])
    def test_leaves_every_other_state(self, connection: Connection, state: State) -> None:
        id = insert(connection, state=state)
        make_due(connection, [id])

        assert promote.promote(connection) == 0
        assert Message.objects.get().state == state

    def test_keeps_the_time_by_which_a_lane_is_ordered(self, connection: Connection) -> None:
        ids = schedule(connection, 3)
        for n, id in enumerate(ids):
            connection.execute(
                "UPDATE pgqueue_message SET run_at = clock_timestamp() - %s * interval '1 hour' "
                "WHERE id = %s",
                [n, id],
            )

        promote.promote(connection)

        assert [each.id for each in claim(connection)] == ids[::-1]

    def test_holds_its_limit_the_longest_due_first(self, connection: Connection) -> None:
        ids = schedule(connection, 5)
        for n, id in enumerate(ids):
            connection.execute(
                "UPDATE pgqueue_message SET run_at = clock_timestamp() - %s * interval '1 hour' "
                "WHERE id = %s",
                [n, id],
            )

        assert promote.promote(connection, limit=2) == 2
        assert ready() == set(ids[3:])
        assert promote.promote(connection, limit=10) == 3

    def test_passes_over_locked_rows(self, connection: Connection, other: Connection) -> None:
        locked, free = schedule(connection, 2)
        make_due(connection, [locked, free])

        with other.transaction():
            other.execute("SELECT 1 FROM pgqueue_message WHERE id = %s FOR UPDATE", [locked])
            promoted = promote.promote(connection, limit=1)

        assert (promoted, ready()) == (1, {free})

    def test_tells_workers_that_wait_for_the_channels(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, channels=["a", "b"], notify_for=MINUTE)
        for channel in ("a", "b", "c"):
            make_due(connection, schedule(connection, 2, channel=channel))
        listening = Listening(other)

        promote.promote(connection)

        assert sorted(listening.heard()) == ["a", "b"]

    @pytest.mark.parametrize("notify_for", [None, -MINUTE])
    def test_tells_no_worker_that_is_busy_or_long_gone(
        self, connection: Connection, other: Connection, notify_for: timedelta | None
    ) -> None:
        register(connection, notify_for=notify_for)
        make_due(connection, schedule(connection))
        listening = Listening(other)

        promote.promote(connection)

        assert listening.heard() == []

    def test_tells_no_worker_where_nothing_is_due(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, notify_for=MINUTE)
        schedule(connection)
        listening = Listening(other)

        promote.promote(connection)

        assert listening.heard() == []


class TestTheNextDue:
    def test_is_none_where_nothing_is_delayed(self, connection: Connection) -> None:
        insert(connection)

        assert promote.next_due(connection) is None

    def test_is_the_time_until_the_earliest(self, connection: Connection) -> None:
        schedule(connection, run_after=2 * MINUTE)
        schedule(connection, run_after=MINUTE)

        due = promote.next_due(connection)

        assert due
        assert MINUTE - timedelta(seconds=20) < due <= MINUTE

    def test_may_be_that_of_some_channels(self, connection: Connection) -> None:
        schedule(connection, channel="a", run_after=MINUTE)
        schedule(connection, channel="b", run_after=2 * MINUTE)
        schedule(connection, channel="c", run_after=3 * MINUTE)

        due = promote.may_come(connection, ["b", "c"])

        assert due
        assert MINUTE < due <= 2 * MINUTE
        assert promote.may_come(connection, ["d"]) is None

    def test_is_past_where_one_is_overdue(self, connection: Connection) -> None:
        make_due(connection, schedule(connection))

        due = promote.next_due(connection)

        assert due is not None
        assert due <= -MINUTE

    def test_may_be_far_away(self, connection: Connection) -> None:
        schedule(connection, run_after=timedelta(days=365 * 2000))

        due = promote.next_due(connection)

        assert due
        assert due > timedelta(days=365 * 1999)


class TestRunningNow:
    def test_makes_ready_whatever_the_time(self, connection: Connection) -> None:
        ids = schedule(connection, 3)

        assert promote.run_now(connection, ids[:2]) == set(ids[:2])
        assert ready() == set(ids[:2])
        assert all(each.run_at < each.created_at + SOON for each in Message.objects.filter(
            state=State.READY))  # fmt: skip

    @pytest.mark.parametrize("state", [each for each in State if each != State.SCHEDULED])
    def test_leaves_every_other_state(self, connection: Connection, state: State) -> None:
        id = insert(connection, state=state)
        before = Message.objects.values().get()

        assert promote.run_now(connection, [id, 2**60]) == set()
        assert Message.objects.values().get() == before

    def test_tells_workers_that_wait(self, connection: Connection, other: Connection) -> None:
        register(connection, notify_for=MINUTE)
        ids = schedule(connection, 2)
        listening = Listening(other)

        promote.run_now(connection, ids)

        assert listening.heard() == ["default"]

    def test_may_be_of_none_or_of_ten_thousand(self, connection: Connection) -> None:
        ids = schedule(connection, 10_000)

        assert promote.run_now(connection, []) == set()
        assert promote.run_now(connection, ids) == set(ids)
