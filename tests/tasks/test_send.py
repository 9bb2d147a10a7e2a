"""Raw messages, as they are stored."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from psycopg.rows import dict_row

from pgqueue import asend, asend_many, receive, send, send_many
from pgqueue.database.connections import connect
from pgqueue.exceptions import ChannelFull, DuplicateMessage, InvalidMessage, PayloadTooLarge
from pgqueue.models import Channel, Message, Policy
from pgqueue.states import State

HOUR = timedelta(hours=1)
committed = pytest.mark.django_db(transaction=True)


@pytest.mark.django_db
class TestAMessage:
    def test_is_a_row_without_a_task(self) -> None:
        id = send("mail", {"to": "a@example.com"}, body=b"\x00\xff", metadata={"trace": "abc"})

        message = Message.objects.get()
        assert (message.pk, message.task, message.channel, message.key) == (id, "", "mail", "")
        assert (message.payload, bytes(message.body)) == ({"to": "a@example.com"}, b"\x00\xff")
        assert (message.metadata, message.max_attempts, message.state) == (
            {"trace": "abc"},
            20,
            State.READY,
        )

    def test_takes_every_option(self) -> None:
        send(
            "mail",
            1,
            key="k",
            priority=7,
            run_after=HOUR,
            expires_at=datetime(2099, 1, 1, tzinfo=UTC),
            ordered=True,
            dedupe_key="d",
            dedupe_for=60,
            max_attempts=2,
        )
        send("mail", 2, ttl=60, hold_for=HOUR)

        delayed, held = Message.objects.order_by("pk")
        assert (delayed.key, delayed.priority, delayed.state) == ("k", 7, State.SCHEDULED)
        assert (delayed.ordered, delayed.dedupe_key, delayed.max_attempts) == (True, "d", 2)
        assert delayed.expires_at == datetime(2099, 1, 1, tzinfo=UTC)
        assert held.expires_at - held.created_at == timedelta(minutes=1)
        assert (held.state, held.lease_until - held.created_at) == (State.HELD, HOUR)

    def test_may_have_neither_payload_nor_body(self) -> None:
        send("mail")

        message = Message.objects.get()
        assert (message.payload, message.body) == (None, None)

    def test_vanishes_with_its_transaction(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            send("mail", 1)
            1 / 0  # noqa: B018

        assert not Message.objects.exists()

    def test_returns_the_id_of_the_one_that_has_its_dedupe_key(self) -> None:
        first = send("mail", 1, dedupe_key="d")

        again = send("mail", 2, dedupe_key="d")

        assert (again, Message.objects.get().payload) == (first, 1)

    def test_replaces_the_one_that_has_its_dedupe_key_where_asked(self) -> None:
        first = send("mail", 1, dedupe_key="d")

        again = send("mail", 2, dedupe_key="d", on_conflict="replace")

        assert (again, Message.objects.get().payload) == (first, 2)

    def test_is_refused_beside_the_one_that_has_its_dedupe_key_where_asked(self) -> None:
        first = send("mail", 1, dedupe_key="d")

        with pytest.raises(DuplicateMessage, match=rf"Message {first} .*'d'"):
            send("mail", 2, dedupe_key="d", on_conflict="raise")

        assert Message.objects.get().payload == 1

    def test_is_refused_by_a_full_channel(self) -> None:
        Policy.objects.create(channel="mail", scope="each", max_size=1)
        send("mail", 1, key="k")

        with pytest.raises(ChannelFull):
            send("mail", 2, key="k")

    def test_is_dropped_by_a_full_channel_that_says_so(self) -> None:
        Policy.objects.create(channel="mail", scope="each", max_size=1)
        Channel.objects.create(name="mail", on_full="drop")
        send("mail", 1, key="k")

        assert send("mail", 2, key="k") is None
        assert Message.objects.count() == 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"chanel": "x"}, "no option 'chanel'"),
            ({"prioriti": 1}, "Did you mean 'priority'"),
            ({"key": 5}, "key=5: it must be text"),
            ({"key": lambda payload: "k"}, "must be text"),
            ({"dedupe_key": "x" * 1001}, "1000 bytes"),
            ({"priority": 101}, "-100 to 100"),
            ({"run_after": datetime(2030, 1, 1)}, "time zone"),
            ({"expires_at": 60}, "must be a datetime"),
            ({"ttl": 0}, "longer than 0"),
            ({"ttl": timedelta.max}, "a hundred years"),
            ({"on_conflict": "ignore"}, "'return', 'replace', 'raise'"),
            ({"on_conflict": "replace", "dedupe_for": 60}, "dedupe_for remembers .* Choose one"),
            ({"ordered": 1}, "True or False"),
            ({"metadata": []}, "must be a dict"),
            ({"max_attempts": 0}, "1 or more"),
            ({"body": "text"}, "must be bytes"),
            ({"payload": object()}, "the payload for the channel 'mail'"),
            ({"payload": {"a": ["\x00"]}}, "can't store"),
            ({"connection": object()}, "not a psycopg.Connection"),
        ],
    )
    def test_that_cannot_be_is_refused_by_name(self, options: Any, message: str) -> None:
        with pytest.raises(InvalidMessage, match=message):
            send("mail", **options)

        assert not Message.objects.exists()

    @pytest.mark.parametrize("channel", ["", None, 5, "x" * 201])
    def test_needs_the_name_of_a_channel(self, channel: Any) -> None:
        with pytest.raises(InvalidMessage, match="channel="):
            send(channel, 1)

    @pytest.mark.parametrize("large", [{"payload": "x" * 2**24}, {"body": b"x" * (2**24 + 1)}])
    def test_that_is_too_large_is_refused(self, large: Any) -> None:
        with pytest.raises(PayloadTooLarge, match="channel 'mail' would take 16,777,21"):
            send("mail", **large)


@pytest.mark.django_db
class TestManyMessages:
    def test_are_stored_in_the_order_they_were_given(self) -> None:
        ids = send_many("mail", ({"n": n} for n in range(3)), priority=5)

        stored = Message.objects.order_by("pk").values_list("pk", "payload__n", "priority")
        assert list(stored) == [(id, n, 5) for n, id in enumerate(ids)]

    def test_may_have_a_key_and_a_dedupe_key_each(self) -> None:
        ids = send_many("mail", [1, 2, 1], key=lambda n: f"k{n}", dedupe_key=lambda n: f"d{n}")

        assert ids[0] == ids[2] != ids[1]
        assert list(Message.objects.order_by("pk").values_list("key", flat=True)) == ["k1", "k2"]

    def test_may_have_bodies(self) -> None:
        send_many("mail", bodies=[b"a", b"b"], key=lambda body: body.decode())
        send_many("mail", [1, 2], bodies=[b"c", None])

        stored = Message.objects.order_by("pk").values_list("key", "payload", "body")
        assert [(key, payload, body and bytes(body)) for key, payload, body in stored] == [
            ("a", None, b"a"),
            ("b", None, b"b"),
            ("", 1, b"c"),
            ("", 2, None),
        ]

    def test_need_as_many_bodies_as_payloads(self) -> None:
        with pytest.raises(ValueError, match="shorter"):
            send_many("mail", [1, 2], bodies=[b"a"])

        assert not Message.objects.exists()

    def test_are_stored_all_or_none(self) -> None:
        send("mail", 0, dedupe_key="d9")

        with pytest.raises(DuplicateMessage):
            send_many("mail", range(10), dedupe_key=lambda n: f"d{n}", on_conflict="raise")

        assert Message.objects.get().payload == 0

    def test_may_be_none_at_all(self) -> None:
        assert send_many("mail", []) == []
        assert send_many("mail") == []


@committed
class TestOnAConnection:
    def test_of_another_framework_it_joins_the_transaction_there(self) -> None:
        with connect("default", name="other") as other:
            other.autocommit = False
            other.row_factory = dict_row

            send("mail", 1, connection=other)
            many = send_many("mail", [2, 3], connection=other)
            before = Message.objects.count()
            other.commit()

            assert (before, Message.objects.count()) == (0, 3)
            assert all(isinstance(id, int) for id in many)

    def test_many_are_stored_all_or_none_there_and_nothing_else_is_undone(self) -> None:
        with connect("default", name="other") as other:
            other.autocommit = False
            send("mail", 1, dedupe_key="d", connection=other)

            with pytest.raises(DuplicateMessage):
                send_many(
                    "mail",
                    [2, 3],
                    dedupe_key=lambda n: {2: "new", 3: "d"}[n],
                    on_conflict="raise",
                    connection=other,
                )
            other.commit()

        assert Message.objects.get().payload == 1

    def test_many_that_are_first_there_are_committed_by_the_owner(self) -> None:
        with connect("default", name="other") as other:
            other.autocommit = False

            send_many("mail", [1, 2], connection=other)
            other.rollback()

        assert not Message.objects.exists()

    def test_in_autocommit_they_are_stored_at_once(self) -> None:
        with connect("default", name="other") as other:
            send_many("mail", [1, 2], connection=other)

            assert Message.objects.count() == 2

    def test_errors_are_those_of_psycopg(self) -> None:
        with connect("default", name="other") as other:
            other.close()

            with pytest.raises(psycopg.OperationalError):
                send("mail", 1, connection=other)


@committed
class TestPayloads:
    @pytest.mark.parametrize(
        "payload",
        [
            {"a": [1, 2.5, None, True, "ü"]},
            "text",
            0,
            [],
            {"@": "looks like a tag"},
            {"on": date(2030, 1, 1), "price": Decimal("1.10"), "tags": {"a"}},
        ],
    )
    def test_come_back_as_what_they_were(self, payload: Any) -> None:
        send("mail", payload)

        with receive("mail") as deliveries:
            assert [delivery.payload for delivery in deliveries] == [payload]


@committed
def test_async_code_sends_too() -> None:
    async def sent() -> list[int | None]:
        return [await asend("mail", 1, key="k"), *await asend_many("mail", [2, 3])]

    ids = async_to_sync(sent)()

    assert sorted(Message.objects.values_list("pk", "payload")) == list(
        zip(ids, [1, 2, 3], strict=True)
    )
