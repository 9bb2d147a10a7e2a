"""Held messages: stored in one transaction, let go or given up in another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pgqueue.engine import cancel, expire, held
from pgqueue.models import History, Message
from tests.factories import (
    Connection,
    Listening,
    claim,
    enqueue,
    one,
    register,
)
from tests.stepping import Step

MINUTE = timedelta(minutes=1)


def hold(connection: Connection, **changed: object) -> int:
    (id,) = enqueue(connection, **{"held_for": MINUTE, **changed})  # type: ignore[arg-type]
    return id


def let_expire(connection: Connection) -> None:
    connection.execute("UPDATE pgqueue_message SET lease_until = 'epoch' WHERE state = 'held'")


class TestAHeldMessage:
    def test_is_not_run(self, connection: Connection) -> None:
        hold(connection)

        assert claim(connection) == []

    def test_has_its_deadline_as_its_lease(self, connection: Connection) -> None:
        hold(connection)

        (left,) = one(connection, "SELECT lease_until - clock_timestamp() FROM pgqueue_message")
        assert MINUTE - timedelta(seconds=5) < left <= MINUTE

    def test_runs_once_it_is_committed(self, connection: Connection) -> None:
        id = hold(connection)

        assert held.commit(connection, [id]) == {id}

        assert [each.id for each in claim(connection)] == [id]

    def test_keeps_its_time(self, connection: Connection) -> None:
        id = hold(connection, run_after=timedelta(hours=1))

        held.commit(connection, [id])

        message = Message.objects.get()
        assert (message.state, message.lease_until) == ("scheduled", None)
        assert message.run_at - message.created_at == timedelta(hours=1)

    def test_ends_as_cancelled_where_it_is_abandoned(self, connection: Connection) -> None:
        id = hold(connection)

        assert held.abandon(connection, [id]) == {id}

        assert (Message.objects.count(), History.objects.get().outcome) == (0, "cancelled")

    def test_ends_as_expired_after_its_deadline(self, connection: Connection) -> None:
        hold(connection)
        assert expire.expire(connection) == 0
        let_expire(connection)

        assert expire.expire(connection) == 1

        assert (Message.objects.count(), History.objects.get().outcome) == (0, "expired")

    def test_can_be_held_for_longer(self, connection: Connection) -> None:
        id = hold(connection)

        assert held.extend(connection, [id], hold=timedelta(hours=1)) == {id}

        (left,) = one(connection, "SELECT lease_until - clock_timestamp() FROM pgqueue_message")
        assert left > timedelta(minutes=59)

    @pytest.mark.parametrize(
        "verb", [held.commit, held.abandon, lambda *a: held.extend(*a, hold=MINUTE)]
    )
    def test_can_not_be_committed_after_its_deadline(
        self, connection: Connection, verb: Callable[..., set[int]]
    ) -> None:
        # Whether or not anybody has come by to expire it.
        id = hold(connection)
        let_expire(connection)

        assert verb(connection, [id]) == set()
        assert Message.objects.get().state == "held"

    @pytest.mark.parametrize("verb", [held.commit, held.abandon])
    def test_that_is_none_is_left_alone(
        self, connection: Connection, verb: Callable[..., set[int]]
    ) -> None:
        (ready,) = enqueue(connection)

        assert verb(connection, [ready, 0]) == set()
        assert Message.objects.get().state == "ready"

    def test_can_be_cancelled(self, connection: Connection) -> None:
        id = hold(connection)

        assert cancel.cancel(connection, [id]).ended == {id}

    @pytest.mark.parametrize(
        ("run_after", "heard"), [(timedelta(), "default"), (timedelta(milliseconds=500), "")]
    )
    def test_wakes_a_worker_when_it_is_committed(
        self, connection: Connection, other: Connection, run_after: timedelta, heard: str
    ) -> None:
        id = hold(connection, run_after=run_after)
        register(connection, notify_for=MINUTE)
        connection.execute(
            "INSERT INTO pgqueue_duty (name, due_at) VALUES ('promote', clock_timestamp() + '1 h') "
            "ON CONFLICT (name) DO UPDATE SET due_at = excluded.due_at"
        )
        listening = Listening(other)

        held.commit(connection, [id])

        assert listening.heard() == [heard]


class TestCommitBesideExpiry:
    def test_the_second_finds_nothing_to_expire(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        id = hold(connection)
        with connection.transaction():
            assert held.commit(connection, [id]) == {id}
            # Expiry passes over what is locked.
            other.execute("SET lock_timeout = '5s'")
            assert expire.expire(other) == 0

        assert Message.objects.get().state == "ready"

    def test_the_second_finds_nothing_to_commit(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        id = hold(connection)
        with connection.transaction():
            # Over its own time, while the hold has some left: both have a right to it.
            connection.execute("UPDATE pgqueue_message SET expires_at = 'epoch'")
            assert expire.expire(connection) == 1
            second = step(held.commit, other, [id])
            second.waits()

        assert second.result() == set()
        assert History.objects.get().outcome == "expired"


def give_up(connection: Connection, ids: list[int]) -> set[int]:
    return cancel.cancel(connection, ids).ended


def hold_on(connection: Connection, ids: list[int]) -> set[int]:
    return held.extend(connection, ids, hold=MINUTE)


class TestTwoDecisions:
    @pytest.mark.parametrize("second", [held.commit, held.abandon, hold_on, give_up])
    @pytest.mark.parametrize(
        ("first", "leaves"),
        [
            (held.commit, {give_up}),
            (held.abandon, set()),
            (hold_on, {held.commit, held.abandon, hold_on, give_up}),
            (give_up, set()),
        ],
    )
    def test_have_one_winner(
        self,
        connection: Connection,
        other: Connection,
        step: Callable[..., Step],
        first: Callable[..., set[int]],
        leaves: set[Callable[..., set[int]]],
        second: Callable[..., set[int]],
    ) -> None:
        id = hold(connection)

        with connection.transaction():
            assert first(connection, [id]) == {id}
            later = step(second, other, [id])
            later.waits()

        assert later.result() == ({id} if second in leaves else set())

    @pytest.mark.parametrize("second", [held.commit, held.abandon, hold_on, give_up])
    @pytest.mark.parametrize("first", [held.commit, held.abandon, hold_on, give_up])
    def test_are_the_seconds_where_the_first_is_rolled_back(
        self,
        connection: Connection,
        other: Connection,
        step: Callable[..., Step],
        first: Callable[..., set[int]],
        second: Callable[..., set[int]],
    ) -> None:
        id = hold(connection)

        with connection.transaction(force_rollback=True):
            first(connection, [id])
            later = step(second, other, [id])
            later.waits()

        assert later.result() == {id}
