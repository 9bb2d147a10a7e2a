"""Messages that are stored once: while one of the same key lives, or for a while after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgqueue.engine import dead, settle
from pgqueue.engine.enqueue import Enqueued
from pgqueue.exceptions import ChannelFull
from pgqueue.models import Channel, Dedupe, Message
from tests.claims import GovernedClaims
from tests.factories import (
    Connection,
    claim,
    done,
    enqueue,
    failure,
    limit,
    one,
    store,
)
from tests.stepping import Step

MINUTE = timedelta(minutes=1)


def once(connection: Connection, *keys: str | None, **changed: Any) -> Enqueued:
    """Enqueue a message for each dedupe key."""
    given: Sequence[str | None] = keys or ("k",)
    return store(connection, payloads=["{}"] * len(given), dedupe_keys=given, **changed)


def in_transaction(connection: Connection, keys: Sequence[str], **changed: Any) -> Enqueued:
    """Enqueue a message for each key, as tasks do: all or none."""
    with connection.transaction():
        return store(connection, keys, **changed)


def ran(connection: Connection) -> list[int]:
    """Claim and complete what is ready."""
    claims = claim(connection)
    settle.complete(connection, [done(each) for each in claims])
    return [each.id for each in claims]


class TestADuplicate:
    @pytest.mark.parametrize("state", ["held", "scheduled", "ready", "running"])
    def test_is_the_message_that_is_live(self, connection: Connection, state: str) -> None:
        times = {"held": {"held_for": MINUTE}, "scheduled": {"run_after": MINUTE}}
        (first,) = once(connection, **times.get(state, {})).ids
        if state == "running":
            claim(connection)

        second = once(connection)

        assert (second.ids, list(second.came_of)) == ((first,), ["existing"])
        assert Message.objects.count() == 1

    def test_is_none_once_the_first_has_ended(self, connection: Connection) -> None:
        (first,) = once(connection).ids
        ran(connection)

        second = once(connection)

        assert (list(second.came_of), second.ids != (first,)) == (["stored"], True)

    def test_is_none_where_the_first_is_dead(self, connection: Connection) -> None:
        once(connection)
        settle.bury(connection, [failure(each) for each in claim(connection)])

        assert list(once(connection).came_of) == ["stored"]

    def test_is_none_of_another_channel(self, connection: Connection) -> None:
        once(connection)

        assert list(once(connection, channel="other").came_of) == ["stored"]

    def test_of_none_is_none(self, connection: Connection) -> None:
        assert list(once(connection, None, None).came_of) == ["stored", "stored"]

    def test_is_told_for_each_of_many(self, connection: Connection) -> None:
        (old,) = once(connection, "b").ids

        stored = once(connection, "c", "b", "a", "c")

        assert list(stored.came_of) == ["stored", "existing", "stored", "existing"]
        assert stored.ids[1] == old
        assert stored.ids[3] == stored.ids[0]

    def test_that_is_rolled_back_leaves_no_trace(self, connection: Connection) -> None:
        with connection.transaction(force_rollback=True):
            once(connection, dedupe_for=MINUTE)

        assert list(once(connection).came_of) == ["stored"]
        assert not Dedupe.objects.exists()

    def test_asks_for_no_room(self, connection: Connection) -> None:
        limit(scope="channel", max_size=1)
        once(connection)

        assert list(once(connection).came_of) == ["existing"]
        with pytest.raises(ChannelFull):
            once(connection, "other")

    def test_is_found_by_its_index(self, connection: Connection) -> None:
        once(connection)
        plan = connection.execute(
            "EXPLAIN SELECT id FROM pgqueue_message WHERE channel = 'default' AND dedupe_key = 'k' "
            "AND state IN ('held', 'scheduled', 'ready', 'running')"
        ).fetchall()

        assert "pgqueue_message_dedupe" in str(plan)

    def test_is_found_by_its_index_by_who_first_asked_while_there_was_nothing(
        self, connection: Connection, other: Connection
    ) -> None:
        # As Django's connections are: they plan as they like.
        connection.execute("RESET enable_seqscan; RESET plan_cache_mode")
        limit(max_size=9)
        other.execute("VACUUM ANALYZE pgqueue_message")
        other.execute("VACUUM ANALYZE pgqueue_dedupe")

        with connection.transaction():
            for _ in range(9):
                once(connection)
            scans = one(
                connection,
                "SELECT sum(seq_scan) FROM pg_stat_xact_user_tables "
                "WHERE relname IN ('pgqueue_message', 'pgqueue_dedupe')",
            )

        assert scans == (0,)


class TestTwoThatAreNotCommitted:
    def test_are_one_where_the_first_commits(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        with connection.transaction():
            (first,) = once(connection).ids
            second = step(once, other)
            second.waits()

        assert (second.result().ids, list(second.result().came_of)) == ((first,), ["existing"])

    def test_are_one_where_the_first_rolls_back(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        with connection.transaction(force_rollback=True):
            once(connection)
            second = step(once, other)
            second.waits()

        assert list(second.result().came_of) == ["stored"]

    @pytest.mark.parametrize("replaces", [False, True])
    def test_are_one_where_they_replace_or_remember(
        self, connection: Connection, other: Connection, step: Callable[..., Step], replaces: bool
    ) -> None:
        how: dict[str, Any] = {"replaces": True} if replaces else {"dedupe_for": MINUTE}
        with connection.transaction():
            (first,) = once(connection, **how).ids
            second = step(once, other, **how)
            second.waits()

        assert second.result().ids == (first,)
        assert list(second.result().came_of) == ["replaced" if replaces else "existing"]

    @pytest.mark.parametrize("scope", ["channel", "each"])
    @pytest.mark.parametrize("how", [{}, {"replaces": True}, {"dedupe_for": MINUTE}])
    def test_are_one_where_there_is_room_for_one(
        self,
        connection: Connection,
        other: Connection,
        step: Callable[..., Step],
        how: dict[str, Any],
        scope: str,
    ) -> None:
        limit(scope=scope, max_size=1)

        with connection.transaction():
            (first,) = once(connection, key="a", **how).ids
            second = step(once, other, key="a", **how)
            second.waits()

        assert second.result().ids == (first,)
        assert Message.objects.count() == 1

    def test_of_several_keys_never_deadlock_whatever_their_order(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        with connection.transaction():
            once(connection, "b", "a")
            second = step(once, other, "a", "b")
            second.waits()
            once(connection, "c")

        assert list(second.result().came_of) == ["existing", "existing"]

    def test_in_order_of_their_lane_keep_it(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        with connection.transaction():
            first = once(connection, "b", "a", key="lane", ordered=True)
            second = step(once, other, "a", "c", "b", key="lane", ordered=True)
            second.waits()

        assert list(first.ids) == sorted(first.ids)  # type: ignore[type-var]
        assert list(second.result().came_of) == ["existing", "stored", "existing"]

    def test_in_order_of_their_lane_never_deadlock_beside_others(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        with connection.transaction():
            once(connection, "m")
            ordered = step(once, other, "b", "m", "a", key="lane", ordered=True)
            ordered.waits()
            unordered = step(once, third, "a", "b")
            unordered.waits()

        assert list(ordered.result().came_of) == ["stored", "existing", "stored"]
        assert list(unordered.result().came_of) == ["existing", "existing"]
        b, _, a = ordered.result().ids
        assert b < a

    def test_in_lanes_that_are_bounded_never_deadlock(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        limit(max_size=9)
        with connection.transaction():
            enqueue(connection, key="m")
            one = step(in_transaction, other, ["b", "m", "a"], dedupe_keys=["1", "2", "3"])
            one.waits()
            two = step(in_transaction, third, ["a", "b"], dedupe_keys=["4", "5"])
            two.waits()

        assert [*one.result().came_of, *two.result().came_of] == ["stored"] * 5

    def test_fail_in_a_stricter_isolation_as_postgresql_has_it(
        self, connection: Connection, other: Connection
    ) -> None:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        once(connection)

        with pytest.raises(psycopg.errors.SerializationFailure):
            once(other)
        other.execute("ROLLBACK")


class TestReplacing:
    def test_changes_what_waits(self, connection: Connection) -> None:
        (first,) = store(
            connection, payloads=["1"], dedupe_keys=["k"], replaces=True, run_after=MINUTE
        ).ids

        second = store(
            connection, payloads=["2"], dedupe_keys=["k"], replaces=True, priority=7,
            metadata='{"m": 1}', run_after=2 * MINUTE,
        )  # fmt: skip

        message = Message.objects.get()
        assert (second.ids, list(second.came_of)) == ((first,), ["replaced"])
        assert (message.payload, message.priority, message.metadata) == (2, 7, {"m": 1})
        assert message.run_at == second.run_at

    def test_pushes_a_burst_to_its_end(self, connection: Connection) -> None:
        for _ in range(3):
            once(connection, replaces=True, run_after=MINUTE)
        last = once(connection, replaces=True)

        assert (list(last.came_of), len(claim(connection))) == (["replaced"], 1)

    def test_stores_another_beside_one_that_runs(self, connection: Connection) -> None:
        once(connection, replaces=True)
        (running,) = claim(connection)

        second = once(connection, replaces=True)

        assert list(second.came_of) == ["stored"]
        assert running.metadata == b'{"dedupe_key": "k"}'

    def test_needs_room_where_the_one_before_is_just_being_claimed(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        limit(scope="channel", max_size=1)
        once(connection, replaces=True)

        with connection.transaction():
            claim(connection)
            second = step(once, other, replaces=True)
            second.waits()

        with pytest.raises(ChannelFull):
            second.result()

    @pytest.mark.parametrize("how", [{"replaces": True}, {}])
    def test_never_makes_a_run_wait_for_its_settle(
        self, connection: Connection, other: Connection, how: dict[str, Any]
    ) -> None:
        # Neither where the one that runs was to be replaced, nor where it was not.
        once(connection, **how)
        (running,) = claim(connection)

        with other.transaction():
            once(other, replaces=True)
            once(other)

            assert settle.complete(connection, [done(running)]) == {running.id}

    def test_retries_do_not_collide(self, connection: Connection) -> None:
        once(connection, replaces=True)
        (running,) = claim(connection)
        once(connection, replaces=True)

        settle.retry(connection, [failure(running)])

        assert len(claim(connection)) == 2

    def test_wakes_a_lane_that_has_a_policy(self, connection: Connection) -> None:
        once(connection, replaces=True, run_after=MINUTE, key="a")
        limit(max_running=1)
        turns = GovernedClaims(connection)
        assert turns.claim(9) == []

        once(connection, replaces=True, key="a")

        assert len(turns.claim(9)) == 1

    @pytest.mark.parametrize(
        "first", [{"key": "a"}, {"ordered": True}], ids=["of another key", "that is ordered"]
    )
    def test_wakes_the_lane_of_what_it_replaces(
        self, connection: Connection, first: dict[str, Any]
    ) -> None:
        limit(key="a", max_running=1)
        (id,) = once(connection, replaces=True, run_after=MINUTE, **first).ids
        turns = GovernedClaims(connection)
        assert turns.claim(9) == []

        once(connection, replaces=True)

        assert [each.id for each in turns.claim(9)] == [id]


class TestAMemory:
    def test_outlives_its_message(self, connection: Connection) -> None:
        (first,) = once(connection, dedupe_for=MINUTE).ids
        ran(connection)

        with_memory = once(connection, dedupe_for=MINUTE)
        without = once(connection)

        assert (with_memory.ids, without.ids) == ((first,), (first,))
        assert list(with_memory.came_of) == list(without.came_of) == ["existing"]

    def test_ends(self, connection: Connection) -> None:
        once(connection, dedupe_for=MINUTE)
        ran(connection)
        connection.execute("UPDATE pgqueue_dedupe SET expires_at = 'epoch'")

        again = once(connection, dedupe_for=MINUTE)

        assert list(again.came_of) == ["stored"]
        assert Dedupe.objects.get().message_id == again.ids[0]

    def test_begins_beside_a_live_message_that_had_none(self, connection: Connection) -> None:
        (first,) = once(connection).ids

        second = once(connection, dedupe_for=MINUTE)

        assert second.ids == (first,)
        assert Dedupe.objects.get().message_id == first


class TestAReplay:
    def test_does_not_collide(self, connection: Connection) -> None:
        (first,) = once(connection).ids
        settle.bury(connection, [failure(each) for each in claim(connection)])
        once(connection)

        dead.replay(connection, [first or 0])

        message = Message.objects.get(pk=first)
        assert (message.state, message.dedupe_key) == ("ready", None)
        assert message.metadata["dedupe_key"] == "k"


class TestPlainSQL:
    def test_enqueues_with_a_name_alone(self, connection: Connection) -> None:
        (id,) = connection.execute("SELECT pgqueue_enqueue('tests.task')").fetchone() or (None,)

        (message,) = claim(connection)
        assert (message.id, message.task) == (id, "tests.task")
        assert message.payload == b'{"args": [], "kwargs": {}}'

    def test_enqueues_with_everything(self, connection: Connection) -> None:
        connection.execute(
            """SELECT pgqueue_enqueue('t', '{"args": [1]}', channel => 'c', key => 'k',
                   priority => 3,
                   run_after => '1 hour', expires_after => '2 hours', max_attempts => 9,
                   ordered => true,
                   dedupe_key => 'd', dedupe_for => '1 day', metadata => '{"m": 1}', body => 'b')"""
        )

        message = Message.objects.get()
        assert (message.channel, message.key, message.priority) == ("c", "k", 3)
        assert (message.ordered, message.dedupe_key, message.max_attempts) == (True, "d", 9)
        assert (message.payload, message.metadata, bytes(message.body)) == (
            {"args": [1]},
            {"m": 1},
            b"b",
        )
        assert message.run_at - message.created_at == timedelta(hours=1)
        assert message.expires_at - message.created_at == timedelta(hours=2)
        assert Dedupe.objects.get().message_id == message.pk

    def test_gets_the_message_that_is_there(self, connection: Connection) -> None:
        text = "SELECT pgqueue_enqueue('t', dedupe_key => 'd')"

        first = connection.execute(text).fetchone()

        assert connection.execute(text).fetchone() == first

    def test_may_name_times_and_hold(self, connection: Connection) -> None:
        connection.execute(
            "SELECT pgqueue_enqueue('t', run_at => '2100-01-01Z', expires_at => '2100-01-02Z', "
            "held_for => '1 minute')"
        )

        message = Message.objects.get()
        assert message.state == "held"
        assert message.lease_until - message.created_at == MINUTE
        assert message.expires_at - message.run_at == timedelta(days=1)
        assert message.run_at == datetime(2100, 1, 1, tzinfo=UTC)

    def test_may_leave_open_whether_it_replaces_another_one(self, connection: Connection) -> None:
        text = "SELECT pgqueue_enqueue('t', %s, dedupe_key => 'd', replaces => NULL)"

        first = connection.execute(text, ['{"args": [1]}']).fetchone()

        assert connection.execute(text, ['{"args": [2]}']).fetchone() == first
        assert Message.objects.get().payload == {"args": [1]}

    def test_may_replace_the_message_that_is_there(self, connection: Connection) -> None:
        text = "SELECT pgqueue_enqueue('t', %s, dedupe_key => 'd', replaces => true)"

        first = connection.execute(text, ['{"args": [1]}']).fetchone()

        assert connection.execute(text, ['{"args": [2]}']).fetchone() == first
        assert Message.objects.get().payload == {"args": [2]}

    def test_may_not_replace_what_it_remembers(self, connection: Connection) -> None:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="choose one"):
            connection.execute(
                "SELECT pgqueue_enqueue("
                "'t', dedupe_key => 'd', dedupe_for => '1 day', replaces => true)"
            )

    def test_gets_nothing_from_a_channel_that_drops_it(self, connection: Connection) -> None:
        limit(scope="channel", max_size=1)
        Channel.objects.create(name="default", on_full="drop")
        connection.execute("SELECT pgqueue_enqueue('t')")

        assert one(connection, "SELECT pgqueue_enqueue('t')") == (None,)

    def test_is_told_that_a_channel_is_full(self, connection: Connection) -> None:
        limit(scope="channel", max_size=1)
        connection.execute("SELECT pgqueue_enqueue('t')")

        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="'default' is full"):
            connection.execute("SELECT pgqueue_enqueue('t')")

    def test_may_be_a_trigger(self, connection: Connection) -> None:
        connection.execute(
            """CREATE FUNCTION on_order() RETURNS trigger LANGUAGE plpgsql AS $$
               BEGIN
                   PERFORM pgqueue_enqueue('shop.ship', jsonb_build_object('args', ARRAY[NEW.id]));
                   RETURN NULL;
               END $$;
               CREATE TABLE orders_for_test (id int);
               CREATE TRIGGER shipped AFTER INSERT ON orders_for_test
               FOR EACH ROW EXECUTE FUNCTION on_order()"""
        )
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("INSERT INTO orders_for_test VALUES (1)")
            connection.execute("INSERT INTO orders_for_test VALUES (2)")
        finally:
            connection.execute("DROP TABLE orders_for_test; DROP FUNCTION on_order()")

        assert Message.objects.get().payload == {"args": [2]}


def test_a_message_keeps_its_key_while_it_runs(connection: Connection) -> None:
    once(connection)
    claim(connection)

    assert Message.objects.get().dedupe_key == "k"
    assert enqueue(connection)
