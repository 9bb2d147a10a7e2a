"""Events that an operator has removed: a detached partition, or a DELETE. Nobody waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from pgqueue.engine import dispatch, event_partitions, health, identity
from pgqueue.events import groups, subscriptions
from pgqueue.events.reading import read
from pgqueue.exceptions import InvalidGroup, InvalidSubscription
from pgqueue.models import Message, Subscription
from pgqueue.testing import assert_published
from tests.factories import Connection, log_as_migrated, logged, subscribed

SIZE = event_partitions.SIZE
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _as_migrated(connect: Callable[..., Connection]) -> Iterator[None]:
    yield
    log_as_migrated(connect())


def fill(connection: Connection, *positions: int) -> None:
    for position in positions:
        logged(connection, position, ago=HOUR)


def detach(connection: Connection, number: int) -> None:
    connection.execute(f"ALTER TABLE pgqueue_event DETACH PARTITION pgqueue_event_{number}")


def start_dispatch(connection: Connection, position: int) -> None:
    connection.execute(
        """INSERT INTO pgqueue_cursor ("group", partition, position) VALUES ('', 0, %s)""",
        [position],
    )


def steps(connection: Connection, **options: Any) -> int:
    """Dispatch until no event is left; return the number of steps, up to 20."""
    for number in range(1, 20):
        with connection.transaction():
            if dispatch.step(connection, **options).is_last:
                return number
    return 20


def matched(name: str) -> list[int]:
    """Return the positions of a subscription's messages."""
    rows = Message.objects.filter(metadata__subscription=name).order_by("id")
    return [each.metadata["position"] for each in rows]


class TestADetachedPartition:
    def test_is_passed_by_a_subscription_that_begins_in_it(self, connection: Connection) -> None:
        fill(connection, 1, SIZE - 1, SIZE, SIZE + 1, SIZE + 2)
        detach(connection, 0)
        subscribed(connection, "first", position=5)
        subscribed(connection, "second", position=SIZE)

        taken = steps(connection)

        assert taken < 10
        assert matched("first") == [SIZE, SIZE + 1, SIZE + 2]
        assert matched("second") == [SIZE + 1, SIZE + 2]
        own = Subscription.objects.get(pk="first")
        assert own.follows
        assert own.error == f"Retention removed unread events: after position 5, up to {SIZE - 1}."

    def test_is_passed_by_the_dispatch(self, connection: Connection) -> None:
        fill(connection, SIZE - 1, SIZE, 2 * SIZE)
        detach(connection, 1)
        start_dispatch(connection, SIZE - 1)
        subscribed(connection, "own")

        taken = steps(connection)

        assert taken < 10
        assert matched("own") == [2 * SIZE]
        assert f"up to {2 * SIZE - 1}" in Subscription.objects.get(pk="own").error

    def test_is_behind_the_beginning(self, connection: Connection) -> None:
        fill(connection, 1, SIZE - 1, SIZE, SIZE + 1)
        detach(connection, 0)

        groups.make("billing", start="beginning")

        found = groups.states()[0].position
        assert found == SIZE - 1
        assert [each.position for each in read(after=found)] == [SIZE, SIZE + 1]

    def test_has_no_position_where_one_begins(self, connection: Connection) -> None:
        fill(connection, 1, SIZE - 1, SIZE, SIZE + 1)
        detach(connection, 0)

        for start in (0, SIZE - 2):
            with pytest.raises(InvalidGroup, match=f"from {SIZE - 1} to {SIZE + 1}"):
                groups.make("billing", start=start)
            with pytest.raises(InvalidSubscription, match=f"from {SIZE - 1} to {SIZE + 1}"):
                subscriptions.create("own", channel="own", start=start)

        subscriptions.create("own", channel="own", start=SIZE - 1)

    def test_does_not_hide_how_long_a_group_has_waited(self, connection: Connection) -> None:
        fill(connection, SIZE - 1, SIZE, 2 * SIZE)
        groups.make("billing", start=SIZE - 1)
        assert not health.groups(connection)[0].is_cut_off
        detach(connection, 1)

        [seen] = health.groups(connection)

        assert seen.is_cut_off
        assert seen.seconds is not None
        assert seen.seconds > 3000

    def test_is_no_sign_of_another_database(self, connection: Connection) -> None:
        fill(connection, 1, SIZE - 1, SIZE)
        mark = identity.mark(identity.of(connection), identity.of_event(connection, 1))
        other = identity.mark(identity.of(connection) + "0", None)
        detach(connection, 0)

        assert identity.is_marked(connection, 1, mark)
        assert not identity.is_marked(connection, 1, other)
        assert not identity.is_marked(connection, 2 * SIZE, mark)


class TestADelete:
    def test_is_passed_by_a_subscription_that_catches_up(self, connection: Connection) -> None:
        fill(connection, *range(1, 13))
        connection.execute("DELETE FROM pgqueue_event WHERE position BETWEEN 3 AND 9")
        subscribed(connection, "own", position=0)

        taken = steps(connection, limit=2)

        assert taken < 10
        assert matched("own") == [1, 2, 10, 11, 12]
        assert "after position 2, up to 9" in Subscription.objects.get(pk="own").error

    def test_is_passed_by_the_dispatch(self, connection: Connection) -> None:
        fill(connection, *range(1, 13))
        connection.execute("DELETE FROM pgqueue_event WHERE position BETWEEN 3 AND 9")
        start_dispatch(connection, 1)
        subscribed(connection, "own")

        steps(connection, limit=2)

        assert matched("own") == [2, 10, 11, 12]


def test_published_events_are_found_behind_a_detached_partition(connection: Connection) -> None:
    fill(connection, 1, SIZE - 1, SIZE)
    detach(connection, 0)

    assert_published("a")


def test_a_log_without_events_begins_at_its_end(connection: Connection) -> None:
    assert groups.resolve(connections["default"], "beginning") == 0


def test_a_subscription_ahead_of_a_restored_log_keeps_no_worker(connection: Connection) -> None:
    fill(connection, 1, 2)
    start_dispatch(connection, 9)
    subscribed(connection, "own", position=5)

    assert steps(connection) == 1
