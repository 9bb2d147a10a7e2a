"""What Spark has staged becomes messages together, once, by the rules of every other producer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine import notifications, operate, staged
from pgqueue.engine.staged import Defaults, StagedCounts, Write
from pgqueue.exceptions import BatchTooLarge, ChannelFull, WriteConflict
from pgqueue.models import Channel, History, Message, Staged
from tests.claims import GovernedClaims
from tests.factories import (
    Connection,
    Listening,
    bury,
    claim,
    enqueue,
    limit,
    one,
    register,
    run,
    schedule,
    store,
)
from tests.stepping import Step

MINUTE = timedelta(minutes=1)
DEFAULTS = Defaults(task="tests.task", channel="default", payload='{"args": []}')


def stage(connection: Connection, *rows: dict[str, Any]) -> int:
    """Stage rows as one attempt; return its number."""
    attempt = staged.begin(connection)
    for number, row in enumerate(rows):
        given = {"attempt": attempt, "number": number, **row}
        connection.execute(
            SQL("INSERT INTO pgqueue_staged ({}) VALUES ({})").format(
                SQL(", ").join(map(Identifier, given)), SQL(", ").join(map(Literal, given.values()))
            )
        )
    return attempt


def commit(
    connection: Connection,
    *attempts: int,
    rows: int | None = None,
    defaults: Defaults = DEFAULTS,
) -> StagedCounts:
    """Store what was staged, in a transaction."""
    count = Staged.objects.filter(attempt__in=attempts).count() if rows is None else rows
    with connection.transaction():
        stored = staged.enqueue(connection, attempts, defaults, rows=count)
        staged.remove(connection, attempts)
    return stored


def column(connection: Connection, name: str) -> list[Any]:
    """Return a column of all messages, in the order of their ids."""
    query = SQL("SELECT {} FROM pgqueue_message ORDER BY id").format(Identifier(name))
    return [value for (value,) in connection.execute(query)]


class TestAMessage:
    def test_has_what_its_row_says(self, connection: Connection) -> None:
        soon = datetime.now(UTC) + MINUTE
        row = {
            "channel": "c",
            "key": "k",
            "task": "t",
            "payload": '{"kwargs": {"a": 1}}',
            "body": b"\x00\xff",
            "metadata": '{"from": "spark"}',
            "priority": 7,
            "max_attempts": 2,
            "run_at": soon,
            "expires_at": soon + MINUTE,
            "ordered": True,
            "dedupe_key": "once",
        }

        commit(connection, stage(connection, row))

        message = Message.objects.values().get()
        assert {name: message[name] for name in row} == {
            **row,
            "payload": {"kwargs": {"a": 1}},
            "metadata": {"from": "spark"},
        }
        assert (message["state"], message["governed"]) == ("scheduled", True)

    def test_has_what_holds_for_the_write_where_its_row_says_nothing(
        self, connection: Connection
    ) -> None:
        commit(connection, stage(connection, {"key": "a"}, {}))

        names = ("channel", "key", "task", "payload", "metadata", "priority", "max_attempts")
        assert list(Message.objects.order_by("id").values_list(*names, "state", "ordered")) == [
            ("default", key, "tests.task", {"args": []}, {}, 0, 20, "ready", False)
            for key in ("a", "")
        ]

    @pytest.mark.parametrize("ordered", [False, True])
    def test_has_its_weight(self, connection: Connection, ordered: bool) -> None:
        weights = (5, 1, 100, None)
        rows = [{"key": "a", "ordered": ordered, "weight": weight} for weight in weights]

        commit(connection, stage(connection, *rows))

        stored = Message.objects.order_by("pk").values_list("options", flat=True)
        assert list(stored) == [{"weight": 5}, None, {"weight": 100}, None]

    def test_comes_in_the_order_of_its_row(self, connection: Connection) -> None:
        late = stage(connection, *({"key": f"late {n}"} for n in range(3)))
        early = stage(connection, *({"key": f"early {n}"} for n in range(3)))

        commit(connection, early, late)

        assert column(connection, "key") == [
            *(f"early {n}" for n in range(3)),
            *(f"late {n}" for n in range(3)),
        ]

    def test_is_claimed_as_any_other(self, connection: Connection) -> None:
        commit(connection, stage(connection, {}, {}))

        assert len(claim(connection)) == 2

    def test_is_not_made_of_the_rows_of_another_attempt(self, connection: Connection) -> None:
        stage(connection, {"key": "of a task that Spark gave up"})

        commit(connection, stage(connection, {"key": "mine"}))

        assert column(connection, "key") == ["mine"]
        assert Staged.objects.count() == 1


class TestAWrite:
    def test_whose_rows_are_gone_stores_nothing(self, connection: Connection) -> None:
        attempt = stage(connection, {}, {})
        Staged.objects.filter(number=1).delete()

        with pytest.raises(WriteConflict, match="Of 2 staged rows, 1 are left"):
            commit(connection, attempt, rows=2)

        assert not Message.objects.exists()

    def test_that_a_policy_comes_between_stores_nothing(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As if it was committed after the rows were looked at.
        monkeypatch.setitem(staged.SQL, "look", "SELECT 2, false")
        limit(scope="channel", max_size=5)
        attempt = stage(connection, {}, {"channel": "other"})

        with pytest.raises(WriteConflict, match="Of 2 rows, 1 would be stored"):
            commit(connection, attempt)

        assert not Message.objects.exists()
        assert Staged.objects.count() == 2

    def test_is_new_once(self, connection: Connection) -> None:
        first = Write("app", 4, "")

        assert staged.is_new(connection, first, rows=3)
        assert not staged.is_new(connection, first, rows=3)
        assert staged.is_new(connection, first._replace(version=9), rows=3)
        assert staged.is_new(connection, first._replace(app_id="other"), rows=3)

    def test_older_than_the_last_is_an_error(self, connection: Connection) -> None:
        staged.is_new(connection, Write("app", 4, "s3a://a"), rows=3)

        with pytest.raises(WriteConflict, match="committed version 4, and this is version 3"):
            staged.is_new(connection, Write("app", 3, "s3a://a"), rows=3)

    def test_of_a_stream_after_a_gap_is_a_conflict(self, connection: Connection) -> None:
        """The database was restored to before the batches that are missing."""
        staged.is_new(connection, Write("app", 4, "s3a://a"), rows=3)

        with pytest.raises(WriteConflict, match="committed batch 4 here, and this is batch 6"):
            staged.is_new(connection, Write("app", 6, "s3a://a"), rows=3)
        assert staged.is_new(connection, Write("app", 5, "s3a://a"), rows=0)

    @pytest.mark.parametrize(("origin", "rows"), [("s3a://a", 4), ("s3a://b", 3), ("", 3)])
    def test_that_is_another_one_is_an_error(
        self, connection: Connection, origin: str, rows: int
    ) -> None:
        staged.is_new(connection, Write("app", 4, "s3a://a"), rows=3)

        with pytest.raises(WriteConflict, match="committed with 3 rows from s3a://a"):
            staged.is_new(connection, Write("app", 4, origin), rows=rows)

    def test_waits_for_the_same_one_to_be_committed(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        write = Write("app", 1, "")
        with connection.transaction():
            assert staged.is_new(connection, write, rows=1)
            again = step(staged.is_new, other, write, rows=1)
            again.waits()

        assert again.result() is False

    def test_that_was_rolled_back_is_new_again(self, connection: Connection) -> None:
        write = Write("app", 1, "")
        with connection.transaction(force_rollback=True):
            staged.is_new(connection, write, rows=1)

        assert staged.is_new(connection, write, rows=1)


class TestOrderedRows:
    def test_of_a_lane_run_in_their_order_with_and_without_dedupe_keys(
        self, connection: Connection
    ) -> None:
        rows = [
            {"key": "a", "ordered": True, "priority": n, "dedupe_key": "z" if n == 1 else None}
            for n in range(4)
        ]

        commit(connection, stage(connection, *rows))

        assert column(connection, "priority") == [0, 1, 2, 3]
        assert [each.priority for each in GovernedClaims(connection).claim(100)] == [0]

    def test_wait_for_an_earlier_producer_before_they_take_ids(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        attempt = stage(connection, {"key": "a", "ordered": True, "priority": 1})
        with other.transaction():
            enqueueing.keep_order(other, [("default", "a")])
            writing = step(lambda each: commit(each, attempt, rows=1), connection)
            writing.waits()
            enqueue(other, key="a", ordered=True)
        writing.result()

        assert column(connection, "priority") == [0, 1]

    def test_of_too_many_lanes_are_refused(self, connection: Connection) -> None:
        rows = [{"key": str(n), "ordered": True} for n in range(staged.LOCKED_LANES + 1)]

        with pytest.raises(BatchTooLarge, match="500 lanes"):
            commit(connection, stage(connection, *rows))

        assert not Message.objects.exists()


class TestADedupeKey:
    def test_is_stored_once(self, connection: Connection) -> None:
        store(connection, dedupe_keys=["taken"])
        attempt = stage(
            connection, *({"dedupe_key": key} for key in ("taken", "new", "new", None, None))
        )

        assert commit(connection, attempt) == StagedCounts(stored=3, existing=2)

    def test_is_waited_for_in_one_order(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        attempt = stage(connection, {"dedupe_key": "b"}, {"dedupe_key": "a"})
        with other.transaction():
            store(other, dedupe_keys=["a"])
            writing = step(lambda each: commit(each, attempt, rows=2), connection)
            writing.waits()
            # The write, which waits for "a", has not stored "b": this would be a deadlock.
            store(other, dedupe_keys=["b"])

        assert writing.result() == StagedCounts(stored=0, existing=2)


class TestAFullChannel:
    def test_refuses_the_whole_write(self, connection: Connection) -> None:
        limit(scope="channel", max_size=2)
        attempt = stage(connection, {}, {}, {}, {"channel": "other"})

        with pytest.raises(ChannelFull, match="'default', or its key '', has no room for 1"):
            commit(connection, attempt)

        assert not Message.objects.exists()
        assert Staged.objects.count() == 4

    def test_drops_the_rest_where_it_says_so(self, connection: Connection) -> None:
        limit(scope="each", max_size=1)
        Channel.objects.create(name="default", on_full="drop")
        attempt = stage(connection, *({"key": key} for key in ("a", "a", "b", "")))

        assert commit(connection, attempt) == StagedCounts(stored=3, dropped=1)

    def test_is_not_found_to_have_room_twice(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        limit(scope="channel", max_size=1)
        attempt = stage(connection, {})
        with other.transaction():
            store(other)
            writing = step(lambda each: commit(each, attempt, rows=1), connection)
            writing.waits()

        with pytest.raises(ChannelFull):
            writing.result()


class TestAnnouncing:
    def test_rings_for_lanes_that_are_governed(self, connection: Connection) -> None:
        limit(max_running=1)
        commit(connection, stage(connection, {"key": "a"}, {"key": "a"}, {"key": "b"}, {}))

        assert [each.key for each in GovernedClaims(connection).claim(100)] == ["a", "b"]
        assert column(connection, "governed") == [True, True, True, False]

    def test_notifies_idle_workers_of_each_channel_once(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, notify_for=MINUTE)
        listening = Listening(other)

        commit(connection, stage(connection, {}, {}, {"channel": "other"}))

        assert sorted(listening.heard()) == ["default", "other"]

    def test_notifies_nobody_where_none_is_idle(
        self, connection: Connection, other: Connection
    ) -> None:
        listening = Listening(other)

        commit(connection, stage(connection, {}))

        assert listening.heard() == []

    def test_notifies_the_promoter_of_what_is_due_first(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection)
        connection.execute(
            "INSERT INTO pgqueue_duty (name, due_at) "
            "VALUES ('promote', statement_timestamp() + interval '1 hour')"
        )
        listening = Listening(other)

        commit(connection, stage(connection, {"run_at": datetime.now(UTC) + MINUTE}, {}))

        assert listening.heard() == [""]

    def test_tells_those_who_watch_the_channel(
        self, connection: Connection, other: Connection
    ) -> None:
        Channel.objects.create(name="watched", watched=True)
        listening = Listening(other, notifications.listen_for_notices)

        commit(connection, stage(connection, {"channel": "watched"}, {}))

        assert [Message.objects.get(channel="watched").pk] == [
            notice["id"] for notice in map(json.loads, listening.heard())
        ]


class TestAVerb:
    def test_is_told_of_ids(self, connection: Connection) -> None:
        dead = bury(connection, 3)
        attempt = stage(connection, *({"message_id": id} for id in (*dead[:2], dead[0], 10**9)))

        with connection.transaction():
            done = staged.operate(connection, [attempt], operate.replay, rows=4)

        assert done.done == set(dead[:2])
        assert (
            sorted(Message.objects.filter(state="ready").values_list("pk", flat=True)) == dead[:2]
        )

    @pytest.mark.parametrize(
        ("name", "outcome"), [("discard", "discarded"), ("cancel", "cancelled"), ("run_now", None)]
    )
    def test_can_be_each(self, connection: Connection, name: str, outcome: str | None) -> None:
        made: Callable[[Connection], Sequence[int]] = {"discard": bury}.get(name, schedule)
        [id] = made(connection)
        attempt = stage(connection, {"message_id": id})

        with connection.transaction():
            done = staged.operate(connection, [attempt], operate.VERBS[name], rows=1)

        assert done.done == {id}
        if outcome is None:
            assert Message.objects.get().state == "ready"
        else:
            assert History.objects.get().outcome == outcome

    def test_leaves_out_what_others_have_locked(
        self, connection: Connection, other: Connection
    ) -> None:
        first, second = bury(connection, 2)
        attempt = stage(connection, {"message_id": first}, {"message_id": second})
        with other.transaction():
            one(other, "SELECT 1 FROM pgqueue_message WHERE id = %s FOR UPDATE", first)
            with connection.transaction():
                done = staged.operate(connection, [attempt], operate.replay, rows=2)

        assert (done.done, done.busy) == ({second}, {first})

    def test_asks_what_runs_to_stop(self, connection: Connection) -> None:
        [running] = run(connection)
        attempt = stage(connection, {"message_id": running.id})

        with connection.transaction():
            done = staged.operate(connection, [attempt], operate.cancel, rows=1)

        assert done.asked == {running.id}


def test_what_nothing_commits_is_removed_after_a_week(connection: Connection) -> None:
    stage(connection, {}, {})
    old = stage(connection, {}, {}, {})
    week = 7 * 24 * 3600 * 1000 << 22
    connection.execute(
        "UPDATE pgqueue_staged SET attempt = attempt - %s WHERE attempt = %s", [week, old]
    )

    assert staged.forget(connection) == 3
    assert Staged.objects.count() == 2


def test_two_attempts_have_two_numbers(connection: Connection) -> None:
    assert len({staged.begin(connection) for _ in range(100)}) == 100


def test_a_task_that_is_run_twice_can_t_mix_its_rows(connection: Connection) -> None:
    attempt = stage(connection, {})

    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("INSERT INTO pgqueue_staged (attempt, number) VALUES (%s, 0)", [attempt])
