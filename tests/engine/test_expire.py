"""Messages that end at their time, if they were not started."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from pgqueue.duties.expire import Expire
from pgqueue.engine import expire, settle
from pgqueue.models import Dedupe, History, Message
from tests.claims import GovernedClaims
from tests.factories import Connection, bury, claim, done, enqueue, insert, limit, run

MINUTE = timedelta(minutes=1)
PAST = datetime(2020, 1, 1, tzinfo=UTC)


class TestExpiry:
    @pytest.mark.parametrize("state", ["held", "scheduled", "ready"])
    def test_ends_what_waits(self, connection: Connection, state: str) -> None:
        insert(connection, state=state, expires_at=PAST)

        assert expire.expire(connection) == 1

        assert (Message.objects.count(), History.objects.get().outcome) == (0, "expired")

    @pytest.mark.parametrize("state", ["running", "dead"])
    def test_leaves_what_runs_and_what_is_dead(self, connection: Connection, state: str) -> None:
        insert(connection, state=state, expires_at=PAST)

        assert expire.expire(connection) == 0

    def test_leaves_what_has_time(self, connection: Connection) -> None:
        enqueue(connection, expires_after=MINUTE)
        enqueue(connection)

        assert expire.expire(connection) == 0

    def test_is_by_the_earlier_of_two_times(self, connection: Connection) -> None:
        enqueue(connection, expires_at=PAST, expires_after=MINUTE)

        assert expire.expire(connection) == 1

    @pytest.mark.parametrize("is_governed", [False, True])
    def test_is_minded_by_claims_before_it_is_done(
        self, connection: Connection, is_governed: bool
    ) -> None:
        if is_governed:
            limit(max_running=10)
        enqueue(connection, key="a", expires_at=PAST)
        (good,) = enqueue(connection, key="a", expires_after=MINUTE)

        claims = GovernedClaims(connection).claim(10) if is_governed else claim(connection)

        assert [each.id for each in claims] == [good]

    def test_is_minded_where_the_order_is_kept(self, connection: Connection) -> None:
        enqueue(connection, key="a", expires_at=PAST, ordered=True)
        (second,) = enqueue(connection, key="a", ordered=True)
        turns = GovernedClaims(connection)
        assert turns.claim(9) == []

        expire.expire(connection)

        assert [each.id for each in turns.claim(9)] == [second]

    def test_does_not_end_a_run_that_began_in_time(self, connection: Connection) -> None:
        (running,) = run(connection, expires_after=MINUTE)
        connection.execute("UPDATE pgqueue_message SET expires_at = 'epoch'")
        expire.expire(connection)

        assert settle.complete(connection, [done(running)]) == {running.id}

    def test_passes_over_what_is_locked(self, connection: Connection, other: Connection) -> None:
        id = insert(connection, expires_at=PAST)
        with other.transaction():
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [id])

            assert expire.expire(connection) == 0

        assert expire.expire(connection) == 1

    def test_is_of_a_batch_at_a_time(self, connection: Connection) -> None:
        for _ in range(5):
            insert(connection, expires_at=PAST)

        assert [expire.expire(connection, limit=2) for _ in range(4)] == [2, 2, 1, 0]


class TestForgetting:
    def test_is_of_keys_whose_time_is_over(self, connection: Connection) -> None:
        enqueue(connection, dedupe_keys=["old"], dedupe_for=MINUTE)
        enqueue(connection, dedupe_keys=["new"], dedupe_for=MINUTE)
        connection.execute(
            "UPDATE pgqueue_dedupe SET expires_at = 'epoch' WHERE dedupe_key = 'old'"
        )

        assert expire.forget(connection) == 1

        assert Dedupe.objects.get().dedupe_key == "new"

    def test_passes_over_what_is_locked(self, connection: Connection, other: Connection) -> None:
        enqueue(connection, dedupe_keys=["old"], dedupe_for=MINUTE)
        connection.execute("UPDATE pgqueue_dedupe SET expires_at = 'epoch'")
        with other.transaction():
            other.execute("SELECT FROM pgqueue_dedupe FOR UPDATE")

            assert expire.forget(connection) == 0


def test_the_duty_ends_and_forgets_what_is_over(connection: Connection) -> None:
    enqueue(connection, dedupe_keys=["old"], dedupe_for=MINUTE)
    connection.execute("UPDATE pgqueue_message SET expires_at = 'epoch'")
    connection.execute("UPDATE pgqueue_dedupe SET expires_at = 'epoch'")

    Expire().run(connection)

    assert History.objects.get().outcome == "expired"
    assert not Dedupe.objects.exists()


def test_a_dead_letter_that_is_replayed_after_its_time_expires(
    connection: Connection, connect: Callable[..., Connection]
) -> None:
    from pgqueue.engine import dead

    ids = bury(connection, 1)
    connection.execute("UPDATE pgqueue_message SET expires_at = 'epoch'")
    dead.replay(connection, ids)

    assert claim(connection) == []
    assert expire.expire(connection) == 1
