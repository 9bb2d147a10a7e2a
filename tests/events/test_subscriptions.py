"""Subscriptions make messages of events, exactly once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from pgqueue import publish, publish_many
from pgqueue.connections import Contact
from pgqueue.duties.dispatch import Dispatch
from pgqueue.duties.run import run_duty
from pgqueue.engine import duty
from pgqueue.events import subscribing
from pgqueue.models import Message
from tests.events import handlers
from tests.factories import LEASE, Connection


@pytest.fixture
def dispatch(connection: Connection) -> Iterator[Callable[[], None]]:
    """A function that dispatches all events that are there, as a worker does."""
    duties = Dispatch(database="default", subscribing=subscribing)

    def dispatch() -> None:
        duty.due(connection, ["dispatch"])
        duties.look(connection)
        while run_duty(connection, duties, contact=Contact(lease=LEASE), early=True) == timedelta():
            pass

    dispatch()
    yield dispatch
    duties.close()


def stored() -> list[tuple[str, Any]]:
    """Return the messages: the task's function, and the payloads of its events."""
    found = []
    for each in Message.objects.order_by("id"):
        [given] = each.payload["args"]
        events = given if isinstance(given, list) else [given]
        found.append((each.task.rpartition(".")[2], [event["payload"] for event in events]))
    return found


def test_events_become_messages_of_the_subscriptions_that_want_them(
    dispatch: Callable[[], None],
) -> None:
    publish(handlers.Paid(order_id=7, total=Decimal(150)))
    publish("order.made", {"total": 150})
    publish("order.made", {"total": 50})

    dispatch()
    dispatch()

    assert stored() == [
        ("paid", [{"order_id": 7, "total": "150"}]),
        ("large", [{"order_id": 7, "total": "150"}]),
        ("large", [{"total": 150}]),
    ]


def test_a_batch_has_so_many_events_at_most_that_agree_in_what_splits_it(
    dispatch: Callable[[], None],
) -> None:
    publish_many([("stock.in.eu", {"n": n, "place": "ab"[n % 2]}) for n in range(8)])

    dispatch()

    numbers = [[each["n"] for each in payloads] for _, payloads in stored()]
    assert sorted(numbers) == [[0, 2, 4], [1, 3, 5], [6], [7]]


def test_ordered_messages_have_the_order_of_the_log_and_the_keys_of_their_events(
    dispatch: Callable[[], None],
) -> None:
    publish_many([("mail.in", n, f"k{n % 2}") for n in range(4)])

    dispatch()

    rows = Message.objects.order_by("id").values_list("key", "ordered", "governed")
    assert list(rows) == [("k0", True, True), ("k1", True, True)] * 2
