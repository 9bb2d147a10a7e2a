"""Storing messages: in the caller's transaction, in order, and told only to those who wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, connections, transaction
from django.db import connection as django_connection
from django.test.utils import CaptureQueriesContext, override_settings
from psycopg import IsolationLevel

from pgqueue.engine import cancel, claim, duty, lookup, settle
from pgqueue.engine import enqueue as engine
from pgqueue.engine.values import Cursors
from pgqueue.models import Message
from pgqueue.states import State
from tests.factories import (
    Connection,
    Listening,
    done,
    enqueue,
    limit,
    register,
    run,
    schedule,
    store,
)
from tests.factories import claim as take

MINUTE = timedelta(minutes=1)


class TestMessages:
    def test_are_stored_in_the_order_they_are_given(self, connection: Connection) -> None:
        keys = [f"{n}" for n in range(10_000)]

        stored = store(connection, keys, payloads=[f"[{key}]" for key in keys])

        rows = Message.objects.order_by("id").values_list("id", "key", "payload")
        assert list(rows) == [(id, key, [int(key)])
                              for id, key in zip(stored.ids, keys, strict=True)]  # fmt: skip
        assert stored.ids == sorted(stored.ids)

    def test_say_what_became_of_them(self, connection: Connection) -> None:
        stored = store(connection, ["a", "b"])

        first = Message.objects.order_by("id").first()
        assert first
        assert stored.ids == list(Message.objects.order_by("id").values_list("id", flat=True))
        assert (stored.state, stored.is_told) == (State.READY, 0)
        assert (stored.run_at, stored.created_at) == (first.run_at, first.created_at)

    def test_without_a_key_write_nothing_but_themselves(self, connection: Connection) -> None:
        limit(max_running=1, max_size=9)

        with connection.transaction():
            enqueue(connection)
            enqueue(connection, 2)

            written = connection.execute(
                "SELECT relname FROM pg_stat_xact_user_tables "
                "WHERE n_tup_ins + n_tup_upd + n_tup_del > 0"
            ).fetchall()
        assert written == [("pgqueue_message",)]

    def test_keep_every_option(self, connection: Connection) -> None:
        enqueue(
            connection,
            channel="c",
            key="k",
            task="t",
            payloads=['{"p": 1}'],
            metadata='{"m": 2}',
            options='{"o": 3}',
            priority=-4,
            max_attempts=5,
        )

        message = Message.objects.get()
        assert (message.channel, message.key, message.task) == ("c", "k", "t")
        assert (message.payload, message.metadata, message.options) == (
            {"p": 1},
            {"m": 2},
            {"o": 3},
        )
        assert (message.priority, message.rank, message.max_attempts) == (-4, 4, 5)
        assert (message.attempt, message.errors, message.governed) == (0, [], False)

    @pytest.mark.parametrize(
        "odd",
        [
            'a"b',
            "a'b",
            "a\\b",
            "{a,b}",
            "[]",
            "NULL",
            "\\N",
            "\\.",
            " ",
            "a\nb",
            "\r\n",
            "\t",
            "\\n",
            "日本",
            "\U0001f600",
            "%s",
        ],
    )
    @pytest.mark.parametrize("door", ["psycopg", "django"])
    @pytest.mark.parametrize("count", [1, 2], ids=["one", "many"])
    def test_take_text_for_what_it_is(
        self, connection: Connection, odd: str, door: str, count: int
    ) -> None:
        through: Cursors = connection if door == "psycopg" else django_connection

        store(
            through,
            [odd] * count,
            channel=odd,
            task=odd,
            payloads=[json.dumps([odd]), json.dumps([odd], ensure_ascii=False)][:count],
            metadata=json.dumps({odd: odd}),
            options=json.dumps([odd]),
        )

        assert Message.objects.count() == count
        for message in Message.objects.all():
            assert message.options == [odd]
            assert (message.channel, message.key, message.task) == (odd, odd, odd)
            assert (message.payload, message.metadata) == ([odd], {odd: odd})

    @pytest.mark.parametrize(
        "payload", ["null", "[]", "{}", '"text"', "1.50", '[1, [2], {"a": 3}]', '"\\\\\\n\\t"']
    )
    def test_keep_payloads_apart(self, connection: Connection, payload: str) -> None:
        enqueue(connection, payloads=[payload] * 3)

        rows = connection.execute("SELECT payload::text FROM pgqueue_message").fetchall()
        assert rows == [(payload,)] * 3

    @pytest.mark.parametrize("key", ["", []])
    def test_are_one_at_least(self, connection: Connection, key: str | list[str]) -> None:
        with pytest.raises(ValueError):
            store(connection, key, payloads=[])

        assert not Message.objects.exists()

    @pytest.mark.parametrize("keys", [["a"], ["a", "b", "c"]])
    def test_need_as_many_keys_as_payloads(self, connection: Connection, keys: list[str]) -> None:
        with pytest.raises((ValueError, psycopg.Error)):
            store(connection, keys, payloads=["{}"] * 2)

        assert not Message.objects.exists()

    @pytest.mark.parametrize("priority", [-101, 101])
    def test_have_a_priority_within_bounds(self, connection: Connection, priority: int) -> None:
        with pytest.raises(psycopg.errors.CheckViolation):
            enqueue(connection, priority=priority)

    def test_take_the_clock_of_the_statement(self, connection: Connection) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_sleep(0.05)")
            now = connection.execute("SELECT now()").fetchone()
            first, second = store(connection), store(connection)

        assert now
        assert first.created_at - now[0] >= timedelta(seconds=0.05)
        assert second.run_at > first.run_at == first.created_at


class TestIds:
    def test_may_be_reserved_and_used_later(self, connection: Connection) -> None:
        ids = engine.reserve(connection, 3)
        (between,) = enqueue(connection)

        stored = enqueue(connection, 3, ids=ids)

        assert stored == ids == sorted(ids)
        assert between > max(ids)
        assert list(Message.objects.order_by("id").values_list("id", flat=True)) == [*ids, between]

    def test_may_be_reserved_through_django(self) -> None:
        ids = engine.reserve(django_connection, 2)

        assert enqueue(django_connection, 2, ids=ids) == ids

    def test_that_were_reserved_serve_once(self, connection: Connection) -> None:
        ids = engine.reserve(connection, 1)
        enqueue(connection, ids=ids)

        with pytest.raises(psycopg.errors.UniqueViolation):
            enqueue(connection, ids=ids)

    def test_need_not_be_small(self, connection: Connection) -> None:
        big = 2**62
        (id,) = enqueue(connection, ids=[big])
        (held,) = take(connection)

        assert (id, held.id) == (big, big)
        assert settle.complete(connection, [done(held)]) == {big}
        assert (found := lookup.find(connection, big)) and found.state == "succeeded"


class TestTheTime:
    def test_is_now_where_none_is_given(self, connection: Connection) -> None:
        assert store(connection).state == State.READY
        assert len(take(connection)) == 1

    def test_may_be_a_while_from_now(self, connection: Connection) -> None:
        stored = store(connection, run_after=MINUTE)

        assert stored.state == State.SCHEDULED
        assert stored.run_at - stored.created_at == MINUTE
        assert not take(connection)

    @pytest.mark.parametrize("after", [timedelta(), -MINUTE])
    def test_may_have_come(self, connection: Connection, after: timedelta) -> None:
        assert store(connection, run_after=after).state == State.READY

    def test_may_be_given_in_any_zone(self, connection: Connection) -> None:
        moment = datetime(2100, 1, 1, 12, tzinfo=UTC)
        connection.execute("SET TIME ZONE 'Asia/Kathmandu'")

        stored = store(connection, run_at=moment)

        assert stored.run_at == moment
        assert stored.state == State.SCHEDULED

    def test_may_be_past_to_come_first(self, connection: Connection) -> None:
        moment = datetime(1999, 1, 1, tzinfo=UTC)
        (usual,) = enqueue(connection)

        stored = store(connection, run_at=moment)

        assert (stored.state, stored.run_at) == (State.READY, moment)
        assert [each.id for each in take(connection)] == [*stored.ids, usual]


class TestARollback:
    def test_leaves_nothing(self, connection: Connection, other: Connection) -> None:
        register(connection, notify_for=MINUTE)
        listening = Listening(other)

        with connection.transaction(force_rollback=True):
            stored = store(connection)

        assert stored.is_told == 1
        assert not Message.objects.exists()
        assert listening.heard() == []

    def test_to_a_savepoint_leaves_the_rest(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, notify_for=MINUTE)
        listening = Listening(other)

        with connection.transaction():
            enqueue(connection, channel="kept")
            with connection.transaction(force_rollback=True):
                enqueue(connection, channel="dropped")

        assert Message.objects.get().channel == "kept"
        assert listening.heard() == ["kept"]


class TestANotification:
    @pytest.mark.parametrize(
        ("channels", "excluded", "told"),
        [
            (None, [], True),
            (None, ["other"], True),
            (None, ["default"], False),
            (["default"], [], True),
            (["other", "default"], [], True),
            (["other"], [], False),
            ([], [], False),
        ],
    )
    def test_is_for_an_idle_worker_of_the_channel(
        self,
        connection: Connection,
        other: Connection,
        channels: Sequence[str] | None,
        excluded: Sequence[str],
        told: bool,
    ) -> None:
        register(connection, channels=channels, excluded=excluded, notify_for=MINUTE)
        listening = Listening(other)

        stored = store(connection)

        assert listening.heard() == ["default"] * told
        assert stored.is_told == told

    @pytest.mark.parametrize("notify_for", [None, timedelta(), -MINUTE])
    def test_is_for_no_worker_that_is_busy_or_long_gone(
        self, connection: Connection, other: Connection, notify_for: timedelta | None
    ) -> None:
        register(connection, notify_for=notify_for)
        listening = Listening(other)

        assert store(connection).is_told == 0
        assert listening.heard() == []

    def test_is_for_no_worker_whose_time_passed_within_the_transaction(
        self, connection: Connection
    ) -> None:
        with connection.transaction():
            connection.execute("SELECT now()")
            register(connection, notify_for=timedelta(seconds=0.02))
            connection.execute("SELECT pg_sleep(0.05)")

            assert store(connection).is_told == 0

    def test_is_one_however_many_messages_and_workers(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, notify_for=MINUTE)
        register(connection, channels=["default"], notify_for=MINUTE)
        listening = Listening(other)

        stored = store(connection, ["a", "b", "c"])

        assert (stored.is_told, listening.heard()) == (1, ["default"])

    @pytest.mark.parametrize("odd", ['a"b', "a'b", "a b", "日本", "%s", "x" * 200])
    def test_names_the_channel_as_it_is(
        self, connection: Connection, other: Connection, odd: str
    ) -> None:
        register(connection, channels=[odd], notify_for=MINUTE)
        listening = Listening(other)

        enqueue(connection, channel=odd)

        assert listening.heard() == [odd]

    def test_is_not_for_who_serves_a_channel_that_begins_alike(
        self, connection: Connection, other: Connection
    ) -> None:
        # PostgreSQL's own names end after 63 bytes.
        alike = "x" * 63
        register(connection, channels=[alike + "a"], notify_for=MINUTE)
        listening = Listening(other)

        enqueue(connection, channel=alike + "b")
        enqueue(connection, channel=alike + "a")

        assert listening.heard() == [alike + "a"]

    @pytest.mark.parametrize(
        ("channels", "excluded", "told"),
        [(None, [], 1), (None, ["default"], 0), (["other"], [], 0)],
    )
    def test_is_for_what_was_delayed_until_a_time_that_has_come(
        self,
        connection: Connection,
        other: Connection,
        channels: Sequence[str] | None,
        excluded: Sequence[str],
        told: int,
    ) -> None:
        register(connection, channels=channels, excluded=excluded, notify_for=MINUTE)
        listening = Listening(other)

        stored = store(connection, ["a", "b"], run_after=-MINUTE)

        assert (stored.is_told, listening.heard()) == (told, ["default"] * told)

    def test_is_not_for_what_comes_later(self, connection: Connection, other: Connection) -> None:
        register(connection, notify_for=MINUTE)
        promoter_looks_in(connection, timedelta(seconds=1))
        listening = Listening(other)

        assert store(connection, run_after=MINUTE).is_told == 0
        assert listening.heard() == []

    def test_waits_for_the_commit(self, connection: Connection, other: Connection) -> None:
        register(connection, notify_for=MINUTE)
        listening = Listening(other)

        with connection.transaction():
            enqueue(connection)
            before = listening.heard()

        assert (before, listening.heard()) == ([], ["default"])


class TestThePromoter:
    def test_is_told_of_what_is_due_before_it_means_to_look(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection)
        promoter_looks_in(connection, timedelta(seconds=30))
        listening = Listening(other)

        stored = store(connection, ["a", "b"], run_after=timedelta(seconds=10))

        assert (stored.is_told, listening.heard()) == (1, [""])

    def test_is_not_told_of_what_is_due_after_it_looks(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection)
        promoter_looks_in(connection, timedelta(seconds=30))
        listening = Listening(other)

        assert store(connection, run_after=MINUTE).is_told == 0
        assert listening.heard() == []

    def test_is_not_told_of_what_is_ready(self, connection: Connection, other: Connection) -> None:
        register(connection)
        promoter_looks_in(connection, timedelta(seconds=30))
        listening = Listening(other)

        assert store(connection).is_told == 0
        assert listening.heard() == []

    def test_is_not_told_where_no_worker_lives(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection)
        connection.execute("UPDATE pgqueue_worker SET last_seen = 'epoch'")
        promoter_looks_in(connection, timedelta(seconds=30))
        listening = Listening(other)

        assert store(connection, run_after=timedelta(seconds=10)).is_told == 0
        assert listening.heard() == []

    def test_is_told_though_every_worker_is_busy_or_serves_other_channels(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, channels=["other"])
        promoter_looks_in(connection, timedelta(seconds=30))
        listening = Listening(other)

        schedule(connection, run_after=timedelta(seconds=10))

        assert listening.heard() == [""]


def promoter_looks_in(connection: Connection, delay: timedelta) -> None:
    duty.due(connection, ["promote"])
    duty.done(connection, "promote", again_in=delay)


class TestADoor:
    """A way in: psycopg's connection, or Django's as its own queries go."""

    def test_of_djangos_is_one_query_that_its_tools_see(
        self, django_assert_num_queries: Any
    ) -> None:
        with django_assert_num_queries(1) as queries:
            stored = store(django_connection, payloads=['{"%s": "%%"}'])

        assert len(stored.ids) == 1
        assert "pgqueue_enqueue" in queries[0]["sql"]
        assert '{"%s": "%%"}' in queries[0]["sql"]

    def test_of_djangos_shows_what_is_copied(self) -> None:
        with CaptureQueriesContext(django_connection) as queries:
            store(django_connection, ["a", "b"])

        assert sum("COPY pgqueue_message" in each["sql"] for each in queries) == 1

    @override_settings(DEBUG=True)
    def test_of_djangos_may_be_in_debug_mode(self) -> None:
        with CaptureQueriesContext(django_connection) as queries, transaction.atomic():
            enqueue(django_connection)

        assert any("pgqueue_enqueue" in each["sql"] for each in queries)

    def test_of_djangos_may_be_wrapped(self) -> None:
        # As tracers do, which look at the text of a query.
        seen: list[str] = []

        def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            seen.append(sql.strip().lower())
            assert "pgqueue_enqueue" in sql
            return execute(sql, params, many, context)

        with django_connection.execute_wrapper(wrapper):
            enqueue(django_connection)

        assert len(seen) == 1

    def test_of_djangos_may_bind_on_the_server(self) -> None:
        alias = "binding"
        settings = connections["default"].settings_dict
        options = {**settings["OPTIONS"], "server_side_binding": True}
        connections.databases[alias] = {**settings, "OPTIONS": options}
        try:
            stored = store(connections[alias], ["a", "b"], run_after=MINUTE)
            schedule(connections[alias], run_at=datetime(2100, 1, 1, tzinfo=UTC))
            enqueue(connections[alias], ids=engine.reserve(connections[alias], 1))
        finally:
            connections[alias].close()
            del connections[alias]
            del connections.databases[alias]

        assert stored.ids
        assert Message.objects.count() == 4

    def test_of_djangos_shares_its_transaction(self, connection: Connection) -> None:
        with transaction.atomic():
            enqueue(django_connection)
            seen = connection.execute("SELECT 1 FROM pgqueue_message").fetchall()

        assert not seen
        assert Message.objects.count() == 1

    def test_of_djangos_raises_its_errors(self) -> None:
        with pytest.raises(IntegrityError):
            enqueue(django_connection, priority=101)

    def test_of_psycopgs_prepares(self, connection: Connection) -> None:
        for n in range(10):
            enqueue(connection, n % 3 + 1, key="k" * n)

        prepared = connection.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement ~ 'pgqueue_reserve_v1'"
        ).fetchone()
        assert prepared == (1,)


class TestATransaction:
    @pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
    def test_may_be_of_any_isolation_beside_workers(
        self, connect: Callable[..., Connection], connection: Connection, level: IsolationLevel
    ) -> None:
        producers = [connect(), connect()]
        for producer in producers:
            producer.isolation_level = level
        worker_id = register(connection, notify_for=MINUTE)

        with producers[0].transaction(), producers[1].transaction():
            for producer in producers:
                enqueue(producer, 3)
                schedule(producer)
            # What happens meanwhile is nothing to them.
            connection.execute("UPDATE pgqueue_worker SET last_seen = clock_timestamp()")
            promoter_looks_in(connection, MINUTE)
            held = run(connection, channel="other")
            settle.complete(connection, [done(each) for each in held])
            for producer in producers:
                enqueue(producer, 3)

        assert worker_id
        assert Message.objects.count() == 14

    def test_blocks_no_other_however_long_it_stays_open(
        self, connection: Connection, other: Connection
    ) -> None:
        other.execute("SET lock_timeout = '1ms'")
        register(other, notify_for=MINUTE)

        with connection.transaction():
            store(connection, ["a", "b"])
            schedule(connection)
            ids = enqueue(other, 2, key="a")
            claimed = take(other)
            settle.complete(other, [done(claimed[0])])
            cancel.cancel(other, ids[1:])
            register(other, notify_for=None)
            promoter_looks_in(other, MINUTE)
            channels = claim.channels(other, excluded=[])

        assert [each.id for each in claimed] == ids
        assert channels == []

    def test_that_only_reads_says_so(self, connection: Connection) -> None:
        connection.read_only = True

        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), connection.transaction():
            enqueue(connection)

    def test_that_failed_says_so(self) -> None:
        with transaction.atomic():
            with pytest.raises(IntegrityError):
                enqueue(django_connection, priority=101)
            with pytest.raises(DatabaseError):
                enqueue(django_connection)
            transaction.set_rollback(True)
