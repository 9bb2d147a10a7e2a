"""Publishing: in the caller's transaction, all or none, and nothing of what can't be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection as django_connection
from django.db import connections, transaction
from psycopg.rows import dict_row

from pgqueue.engine import notifications, readers
from pgqueue.events import publishing
from pgqueue.events.publishing import apublish, apublish_many, publish, publish_many
from pgqueue.events.reading import read
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidEvent, PayloadTooLarge, PGQueueError
from pgqueue.models import EventInbox
from tests.factories import Connection, Listening, one


class Placed(Event, topic="publishing.placed", key="order"):
    """A typed event."""

    order: int
    total: Decimal = Decimal(0)


class _Undone(Exception):
    pass


def texts() -> list[str]:
    """Return the topics of what the log has now."""
    return [each.topic for each in read()]


class TestAnEvent:
    def test_is_read_as_it_was_published(self) -> None:
        publish("order.paid", {"total": Decimal("9.50"), "at": date(2026, 5, 1)}, key="order:1",
                metadata={"source": "shop"})  # fmt: skip

        (event,) = read()

        assert event.position == 1
        assert (event.topic, event.key) == ("order.paid", "order:1")
        assert event.payload == {"total": Decimal("9.50"), "at": date(2026, 5, 1)}
        assert event.metadata == {"source": "shop"}
        assert abs(event.created_at - datetime.now(UTC)) < timedelta(minutes=1)
        assert str(event) == "order.paid at 1"

    @pytest.mark.parametrize(
        "payload",
        [
            *(None, 0, False, "", [], {}, "\U0001f600\\u0000", [1.5, None], {"@": 1}),
            *(UUID(int=1), {1, 2}),
        ],
    )
    def test_has_any_payload_that_json_has_a_word_for(self, payload: Any) -> None:
        publish("a", payload)
        publish_many([("a", payload)])

        assert [each.payload for each in read()] == [payload, payload]

    def test_has_no_key_and_no_metadata_unless_they_are_given(self) -> None:
        publish("a")
        publish("a", key="")

        assert [(each.key, each.metadata, each.payload) for each in read()] == 2 * [("", {}, None)]

    def test_may_be_typed(self) -> None:
        publish(Placed(order=7, total=Decimal("1.50")), metadata={"why": "test"})

        (event,) = read()

        assert (event.topic, event.key) == ("publishing.placed", "7")
        assert event.as_event() == Placed(order=7, total=Decimal("1.50"))
        assert event.metadata == {"version": 1, "why": "test"}

    def test_is_told_when_it_was_published_not_when_its_transaction_began(self) -> None:
        with transaction.atomic():
            with django_connection.cursor() as cursor:
                cursor.execute("SELECT now(), pg_sleep(0.01)")
                began, _ = cursor.fetchone()
            publish("a")

        (event,) = read()

        assert event.created_at >= began + timedelta(milliseconds=10)


class TestATransaction:
    def test_publishes_when_it_commits(self, connection: Connection) -> None:
        with transaction.atomic():
            publish("a")
            publish_many([("b",), ("c",)])
            assert one(connection, "SELECT count(*) FROM pgqueue_event_inbox") == (0,)

        assert texts() == ["a", "b", "c"]

    def test_that_is_rolled_back_publishes_nothing_and_leaves_no_gap(self) -> None:
        publish("a")
        with pytest.raises(_Undone), transaction.atomic():
            publish("lost")
            publish_many([("lost",)] * 100)
            raise _Undone
        publish("b")

        assert [(each.position, each.topic) for each in read()] == [(1, "a"), (2, "b")]

    def test_keeps_what_was_before_its_savepoint(self) -> None:
        with transaction.atomic():
            publish("a")
            with pytest.raises(_Undone), transaction.atomic():
                publish("lost")
                raise _Undone
            publish("b")

        assert texts() == ["a", "b"]

    def test_publishes_in_the_order_of_its_statements(self) -> None:
        with transaction.atomic():
            for number in range(50):
                publish("a", number)
            publish_many([("a", number) for number in range(50, 100)])
            publish("a", 100)

        assert [each.payload for each in read()] == list(range(101))

    def test_locks_nothing_that_another_needs(self, connection: Connection) -> None:
        # Both are open at once, in one thread: the second would wait for ever.
        with transaction.atomic():
            publish("a")
            with connection.transaction():
                publish("b", connection=connection)
                publish_many([("c",)], connection=connection)

        assert sorted(texts()) == ["a", "b", "c"]


class TestMany:
    def test_are_published_in_their_order_however_many_they_are(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publishing, "BATCH", 100)

        assert publish_many(("a", number, f"k{number}") for number in range(1050)) == 1050

        events = [*read(), *read(after=1000)]
        assert [each.payload for each in events] == list(range(1050))
        assert [each.position for each in events] == list(range(1, 1051))
        assert [each.key for each in events] == [f"k{number}" for number in range(1050)]

    def test_are_of_every_form(self) -> None:
        count = publish_many(
            [("a",), ("b", 1), ("c", 2, "k"), Placed(order=3)], metadata={"why": "x"}
        )

        assert count == 4
        assert [(each.topic, each.payload_json, each.key) for each in read()] == [
            ("a", None, ""),
            ("b", "1", ""),
            ("c", "2", "k"),
            ("publishing.placed", '{"order": 3, "total": "0"}', "3"),
        ]
        assert [each.metadata for each in read()] == [
            *3 * [{"why": "x"}],
            {"version": 1, "why": "x"},
        ]

    def test_none_is_stored_where_one_can_not_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publishing, "BATCH", 10)

        with pytest.raises(InvalidEvent, match=r"'a\.\*'"):
            publish_many([*[("a",)] * 25, ("a.*",)])

        assert texts() == []

    def test_none_is_stored_where_their_iterable_fails(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publishing, "BATCH", 10)

        def broken() -> Iterator[Any]:
            yield from [("a",)] * 25
            raise _Undone

        with pytest.raises(_Undone):
            publish_many(broken())

        assert texts() == []

    def test_refused_ones_leave_the_transaction_usable(self) -> None:
        with transaction.atomic():
            publish("a")
            with pytest.raises(InvalidEvent):
                publish_many([("b",), ("b", object())])
            publish("c")

        assert texts() == ["a", "c"]

    def test_their_iterable_may_use_the_same_connection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publishing, "BATCH", 10)

        def asking() -> Iterator[Any]:
            for number in range(25):
                yield "a", (EventInbox.objects.count(), number)

        publish_many(asking())

        assert [each.payload[0] for each in read()] == [*[0] * 10, *[10] * 10, *[20] * 5]

    def test_no_events_are_none(self) -> None:
        assert publish_many([]) == 0
        assert publish_many(iter(())) == 0

    def test_go_out_by_copy_with_whatever_is_in_them(self) -> None:
        hostile = "\\N\t\\.\n\r\\\\ \U0001f600 \x01"

        publish_many([("a", {hostile: hostile}, hostile)], metadata={"m": hostile})

        (event,) = read()
        assert (event.payload, event.key, event.metadata) == (
            {hostile: hostile},
            hostile,
            {"m": hostile},
        )


class TestAConnectionOfPsycopg:
    def test_publishes_in_its_own_transaction(self, connection: Connection) -> None:
        with pytest.raises(_Undone), connection.transaction():
            publish("lost", connection=connection)
            publish_many([("lost",)], connection=connection)
            raise _Undone
        with connection.transaction():
            publish("a", connection=connection)
            publish_many([("b",)], connection=connection)
            assert texts() == []

        assert texts() == ["a", "b"]

    def test_publishes_at_once_in_autocommit(self, connection: Connection) -> None:
        publish("a", connection=connection)
        publish_many([("b",)], connection=connection)

        assert texts() == ["a", "b"]

    def test_whose_owner_commits_is_not_committed_for_him(self, connection: Connection) -> None:
        connection.autocommit = False

        publish_many([("a",)], connection=connection)
        publish("b", connection=connection)

        assert texts() == []
        connection.commit()
        assert texts() == ["a", "b"]

    def test_may_have_rows_of_another_kind(self, connection: Connection) -> None:
        connection.row_factory = dict_row

        publish("a", connection=connection)
        publish_many([("b",)], connection=connection)

        assert texts() == ["a", "b"]

    def test_is_of_psycopg_indeed(self) -> None:
        for other in (django_connection, object(), "postgresql://"):
            with pytest.raises(InvalidEvent, match="connection="):
                publish("a", connection=other)  # type: ignore[arg-type]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"event": ""}, "topic=''"),
    ({"event": "a.*"}, r"topic='a\.\*'"),
    ({"event": "a b"}, "topic='a b'"),
    ({"event": "x" * 201}, "topic='xxx"),
    ({"event": None}, "topic=None"),
    ({"event": 5}, "topic=5"),
    ({"event": "a\x00"}, "NUL"),
    ({"event": "\ud800"}, "topic="),
    ({"event": "a", "key": "k" * 1001}, "key='kkk"),
    ({"event": "a", "key": 0}, "key=0"),
    ({"event": "a", "key": False}, "key=False"),
    ({"event": "a", "key": "\x00"}, "key="),
    ({"event": "a", "payload": object()}, "the payload of the event 'a'"),
    ({"event": "a", "payload": "\x00"}, "the payload of the event 'a'"),
    ({"event": "a", "payload": float("nan")}, "the payload of the event 'a'"),
    ({"event": "a", "metadata": 5}, "metadata=5"),
    ({"event": "a", "metadata": {"a": object()}}, "metadata="),
    ({"event": "a", "metadata": {"a": "\x00"}}, "metadata="),
    ({"event": "a", "database": 5}, "database=5"),
]


class TestARefusal:
    @pytest.mark.parametrize(("options", "culprit"), REFUSED)
    def test_names_what_can_not_be_and_stores_nothing(
        self, options: dict[str, Any], culprit: str
    ) -> None:
        with pytest.raises(InvalidEvent, match=culprit):
            publish(**options)

        assert texts() == []

    @pytest.mark.parametrize(
        "given", [5, "a", ("a", 1, "k", 2), (), ["a"], None, {"topic": "a"}, Event]
    )
    def test_names_what_is_no_event(self, given: Any) -> None:
        with pytest.raises(InvalidEvent, match=r"\(topic, payload, key\)"):
            publish_many([("a",), given])

        assert texts() == []

    @pytest.mark.parametrize("given", [5, None, object()])
    def test_names_what_is_no_list_of_events(self, given: Any) -> None:
        with pytest.raises(InvalidEvent, match="events="):
            publish_many(given)

    def test_names_a_payload_that_is_too_large(self) -> None:
        large = "x" * (16 * 1024 * 1024)

        for verb in (lambda: publish("a", large), lambda: publish_many([("a",), ("a", large)])):
            with pytest.raises(PayloadTooLarge, match="'a'"):
                verb()
        assert texts() == []

    def test_is_one_of_ours(self) -> None:
        assert issubclass(InvalidEvent, PGQueueError)


class TestAsyncCode:
    def test_publishes_as_other_code_does(self) -> None:
        async def run() -> int:
            await apublish("a", 1, key="k", metadata={"m": 1})
            return await apublish_many([("b", 2, "k")], metadata={"m": 1})

        assert asyncio.run(run()) == 1
        assert [(each.topic, each.payload, each.key, each.metadata) for each in read()] == [
            ("a", 1, "k", {"m": 1}),
            ("b", 2, "k", {"m": 1}),
        ]

    def test_is_refused_the_same(self) -> None:
        with pytest.raises(InvalidEvent):
            asyncio.run(apublish("a b"))


class TestPlainSQL:
    def test_publishes_in_its_own_transaction(self, connection: Connection) -> None:
        with pytest.raises(_Undone), connection.transaction():
            connection.execute("SELECT pgqueue_publish('lost')")
            raise _Undone
        connection.execute("SELECT pgqueue_publish('order.paid')")
        connection.execute(
            "SELECT pgqueue_publish('order.sent', '{\"a\": 1}', key => 'k', "
            "metadata => '{\"m\": 2}')"
        )

        assert [(each.topic, each.payload, each.key, each.metadata) for each in read()] == [
            ("order.paid", None, "", {}),
            ("order.sent", {"a": 1}, "k", {"m": 2}),
        ]

    def test_publishes_from_a_trigger(self, connection: Connection) -> None:
        connection.execute(
            "CREATE TEMP TABLE parcel (id int); "
            "CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pgqueue_publish('parcel.made', to_jsonb(NEW)); RETURN NEW; END $$; "
            "CREATE TRIGGER tell AFTER INSERT ON parcel FOR EACH ROW "
            "EXECUTE FUNCTION pg_temp.tell(); INSERT INTO parcel VALUES (1), (2)"
        )

        assert [each.payload for each in read(topics="parcel.made")] == [{"id": 1}, {"id": 2}]

    @pytest.mark.parametrize(
        ("arguments", "culprit"),
        [
            ("''", "'' is no topic"),
            ("'a.'", r"'a\.' is no topic"),
            ("'.a'", "is no topic"),
            ("'a..b'", "is no topic"),
            ("'a.*'", r"'a\.\*' is no topic"),
            ("'a b'", "'a b' is no topic"),
            ("E'a\\n'", "is no topic"),
            ("repeat('é', 101)", "is no topic"),
            ("NULL", "NULL is no topic"),
            ("'a', key => repeat('k', 1001)", "is no key"),
            ("'a', key => NULL", "NULL is no key"),
            ("'a', metadata => '[]'", "metadata"),
            ("'a', metadata => NULL", "metadata"),
        ],
    )
    def test_is_refused_what_python_is(
        self, connection: Connection, arguments: str, culprit: str
    ) -> None:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=culprit):
            connection.execute(f"SELECT pgqueue_publish({arguments})")

        assert texts() == []


PUBLISHING: dict[str, Callable[[Connection], Any]] = {
    "one": lambda connection: publish("a", connection=connection),
    "many": lambda connection: publish_many([("a",)] * 3, connection=connection),
    "SQL": lambda connection: connection.execute("SELECT pgqueue_publish('a')"),
}


class TestNotifications:
    @pytest.fixture
    def listening(self, other: Connection) -> Listening:
        def listen(connection: Connection) -> None:
            notifications.listen_to(connection, notifications.EVENTS)

        return Listening(other, listen)

    @pytest.mark.parametrize("verb", PUBLISHING.values(), ids=PUBLISHING)
    def test_go_to_the_idle_as_the_transaction_commits(
        self, connection: Connection, listening: Listening, verb: Callable[[Connection], Any]
    ) -> None:
        readers.beat(connection, uuid4(), notify_for=timedelta(minutes=1))

        with connection.transaction():
            verb(connection)
            assert listening.heard() == []

        assert listening.heard() == [""]

    @pytest.mark.parametrize("verb", PUBLISHING.values(), ids=PUBLISHING)
    @pytest.mark.parametrize("notify_for", [None, -timedelta(seconds=1)])
    def test_are_not_sent_where_nobody_is_idle(
        self,
        connection: Connection,
        listening: Listening,
        verb: Callable[[Connection], Any],
        notify_for: timedelta | None,
    ) -> None:
        readers.beat(connection, uuid4(), notify_for=notify_for)

        verb(connection)

        assert listening.heard() == []

    def test_are_not_sent_by_what_is_rolled_back(
        self, connection: Connection, listening: Listening
    ) -> None:
        readers.beat(connection, uuid4(), notify_for=timedelta(minutes=1))

        with pytest.raises(_Undone), connection.transaction():
            publish("a", connection=connection)
            raise _Undone

        assert listening.heard() == []

    def test_are_sent_to_those_who_asked_after_the_transaction_began(
        self, connection: Connection, other: Connection, listening: Listening
    ) -> None:
        with connection.transaction():
            connection.execute("SELECT 1")
            readers.beat(other, uuid4(), notify_for=timedelta(minutes=1))
            publish("a", connection=connection)

        assert listening.heard() == [""]


def test_it_says_that_the_tables_are_missing(connection: Connection) -> None:
    connections["default"].ensure_connection()
    with transaction.atomic():
        with django_connection.cursor() as cursor:
            cursor.execute("ALTER TABLE pgqueue_event_inbox RENAME TO pgqueue_gone")
        with pytest.raises(PGQueueError, match="migrate"), transaction.atomic():
            publish("a")
        with pytest.raises(PGQueueError, match="migrate"):
            publish_many([("a",)])
        transaction.set_rollback(True)
