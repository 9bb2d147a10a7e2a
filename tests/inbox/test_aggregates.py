"""Messages of aggregates, written as pg-transactional-outbox has them, are events."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from pgqueue import AggregateMessage, InvalidEvent, InvalidMessage, read
from pgqueue.models import EventInbox, Message
from pgqueue.testing import run_all
from tests.factories import Connection
from tests.inbox.handlers import book, booked

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def placed(**changed: Any) -> AggregateMessage:
    """An order was placed."""
    given = {"aggregate_type": "order", "aggregate_id": "7", "message_type": "placed"}
    return AggregateMessage(**{**given, "payload": {"order": 7}, **changed})


class TestAMessage:
    @pytest.mark.parametrize(
        ("changed", "topic", "key"),
        [
            ({}, "order.placed", "7"),
            ({"segment": "customer 3"}, "order.placed", "customer 3"),
            ({"segment": ""}, "order.placed", ""),
            ({"aggregate_type": "movie  rental*"}, "movie_rental_.placed", "7"),
            ({"message_type": "line.added"}, "order.line.added", "7"),
        ],
    )
    def test_has_a_topic_of_both_types_and_the_key_of_its_segment(
        self, changed: dict[str, Any], topic: str, key: str
    ) -> None:
        message = placed(**changed)

        assert (message.topic, message.key) == (topic, key)

    def test_is_published_in_the_callers_transaction(self) -> None:
        with transaction.atomic():
            placed().publish()
            transaction.set_rollback(True)
        id = uuid4()
        assert placed(id=id, metadata={"trace": 1}).publish() is None

        (event,) = read()
        assert (event.topic, event.key, event.payload) == ("order.placed", "7", {"order": 7})
        aggregate = {
            "type": "order",
            "id": "7",
            "message_type": "placed",
            "message_id": str(id),
            "concurrency": "sequential",
        }
        assert event.metadata == {"trace": 1, "aggregate": aggregate}

    def test_is_published_with_an_id_of_its_own(self) -> None:
        message = placed()
        for _ in range(2):
            message.publish()
        placed(locked_until=LATER).publish()

        ids = [UUID(event.metadata["aggregate"]["message_id"]) for event in read()]
        assert len(set(ids)) == 2
        assert re.search(r"message_id\W+[0-9a-f]{8}-", json.dumps(Message.objects.get().payload))
        with pytest.raises(InvalidMessage):
            message.receive(source="erp")

    def test_that_is_locked_until_a_time_is_published_then(self, connection: Connection) -> None:
        later = placed(locked_until=LATER).publish(connection=connection)

        assert later is not None
        message = Message.objects.get()
        assert (str(message.pk), message.run_at) == (later.id, LATER)
        assert not EventInbox.objects.exists()

    def test_is_received_once(self) -> None:
        message = placed(id=uuid4())

        assert [message.receive(source="erp").is_new for _ in range(2)] == [True, False]
        (event,) = read()
        assert event.metadata["external"] == {"id": str(message.id), "source": "erp"}
        assert event.metadata["aggregate"]["id"] == "7"

    @pytest.mark.parametrize("concurrency", ["sequential", "parallel"])
    def test_is_handled_by_a_task_in_the_order_that_it_asks_for(self, concurrency: Any) -> None:
        for _ in range(2):
            placed(id="m-1", segment="s", concurrency=concurrency).receive(book)

        message = Message.objects.get()
        assert (message.key, message.ordered) == ("s", concurrency == "sequential")
        run_all(raise_errors=True)
        assert booked() == [7]

    def test_that_is_locked_until_a_time_is_handled_then(self) -> None:
        placed(id="m-1", locked_until=LATER).receive(book)

        assert Message.objects.get().run_at == LATER

    def test_with_what_can_not_be_is_refused(self) -> None:
        with pytest.raises(InvalidEvent, match="concurrency='serial'"):
            placed(concurrency="serial")
        with pytest.raises(InvalidEvent, match="topic='.placed'"):
            placed(aggregate_type="").publish()
        with pytest.raises(InvalidMessage, match="message_id=''"):
            placed().receive()
        with pytest.raises(InvalidEvent, match="metadata"):
            placed(metadata={"a": object()}).publish()
        for metadata in ([1], "text", 5):
            with pytest.raises(InvalidEvent, match="metadata=.* must be a dict"):
                placed(metadata=metadata)

    def test_may_have_no_metadata_as_its_column_may_be_null(self) -> None:
        assert placed(metadata=None).known == placed().known
