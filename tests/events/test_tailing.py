"""Following the log: events as they come, few in memory, until it is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import PropertyMock, patch

import pytest
from django.db import connections, transaction
from psycopg import OperationalError

from pgqueue.database.connections import POOLED
from pgqueue.events import growth, tailing
from pgqueue.events.growth import GrowthWaiter
from pgqueue.events.publishing import apublish, publish, publish_many
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.tailing import Tail, tail
from pgqueue.exceptions import EventsRemoved, InvalidFilter, PositionAhead, UnreadableEvent
from pgqueue.models import Reader
from tests.damage import damaged_events
from tests.eventually import eventually
from tests.factories import Connection, one


class Following(threading.Thread):
    """Iterates in a thread, and remembers what came."""

    def __init__(self, events: Tail) -> None:
        super().__init__(daemon=True)
        self.tail = events
        self.seen: list[RecordedEvent] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for event in self.tail:
                self.seen.append(event)
        except BaseException as error:
            self.error = error

    def payloads(self) -> list[Any]:
        return [each.payload for each in self.seen]

    def sees(self, *payloads: Any) -> None:
        """Wait until just these have come."""
        eventually(
            lambda: self.error or len(self.seen) >= len(payloads), what=f"came: {self.payloads()}"
        )
        if self.error:
            raise self.error
        assert self.payloads() == list(payloads)

    def ends(self) -> None:
        self.join(10)
        assert not self.is_alive()
        if self.error:
            raise self.error


@pytest.fixture
def follow() -> Iterator[Callable[..., Following]]:
    """A function that follows the log in a thread."""
    started: list[Following] = []

    def follow(**options: Any) -> Following:
        events = tail(**options)
        events.__enter__()
        started.append(Following(events))
        started[-1].start()
        return started[-1]

    yield follow
    for each in started:
        each.tail.close()
        each.join(10)


@pytest.fixture
def pooled(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A transaction pooler is in between."""

    def has_no_listener() -> bool:
        return not sessions(connection, "listener")

    # A listener's connection stays open for a second after its last use.
    eventually(has_no_listener)
    with monkeypatch.context() as patched:
        patched.setitem(connections["default"].settings_dict, POOLED, True)
        yield
        growth.forget_all()
        eventually(has_no_listener)


def idle() -> None:
    """Return when this process asks to be notified."""
    eventually(lambda: Reader.objects.exclude(notify_until=None, feed_until=None).exists())


def sessions(connection: Connection, name: str = "tail") -> list[int]:
    """Return the server's processes that tails have."""
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE %s "
        "AND datname = current_database()",
        [f"%pgqueue {name}"],
    )
    return [pid for (pid,) in rows]


class TestATail:
    def test_yields_what_is_after_a_position_and_then_what_comes(
        self, follow: Callable[..., Following]
    ) -> None:
        publish_many([("a", 1), ("a", 2)])

        following = follow(after=1)
        following.sees(2)
        publish("a", 3)
        following.sees(2, 3)
        publish_many([("a", 4), ("a", 5)])
        following.sees(2, 3, 4, 5)

        assert [each.position for each in following.seen] == [2, 3, 4, 5]

    def test_begins_at_the_end_of_the_log_if_nobody_says_otherwise(
        self, follow: Callable[..., Following]
    ) -> None:
        publish_many([("a", 1), ("a", 2)])

        following = follow()
        assert following.tail.position == 2
        publish("a", 3)

        following.sees(3)

    def test_begins_as_its_block_does(self) -> None:
        with tail() as events:
            publish_many([("a", 1), ("a", 2)])
            iterator = iter(events)
            assert [next(iterator).payload, next(iterator).payload] == [1, 2]

    def test_needs_no_block(self) -> None:
        publish_many([("a", 1), ("a", 2), ("a", 3)])
        seen = []

        for event in tail(after=0):
            seen.append(event.payload)
            if event.payload == 2:
                break

        assert seen == [1, 2]

    def test_yields_only_what_topics_and_conditions_say(
        self, follow: Callable[..., Following]
    ) -> None:
        following = follow(topics="order.*", where={"n__gte": 2})
        publish_many([("order.paid", {"n": n}) for n in range(4)] + [("mail.sent", {"n": 9})])

        following.sees({"n": 2}, {"n": 3})

    def test_yields_only_the_events_of_its_key(self, follow: Callable[..., Following]) -> None:
        following = follow(key="7", topics="a")
        publish_many([("a", 1, "7"), ("a", 2, "8"), ("b", 3, "7"), ("a", 4), ("a", 5, "7")])

        following.sees(1, 5)

    def test_goes_on_over_what_it_does_not_want(self, follow: Callable[..., Following]) -> None:
        following = follow(topics="b")
        publish_many([("a", n) for n in range(1200)])

        eventually(lambda: following.tail.position == 1200)
        publish("b", 1)
        following.sees(1)

    def test_holds_few_events_in_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tailing, "PAGE", 20)
        publish_many([("a", n) for n in range(100)])
        held = []

        with tail(after=0) as events:
            for event in events:
                held.append(len(events._events))
                if event.position == 100:
                    break

        assert max(held) == 19

    def test_sees_what_commits_late(self, follow: Callable[..., Following]) -> None:
        following = follow()

        with transaction.atomic():
            publish("a", 1)
            idle()
        following.sees(1)

    def test_is_told_by_those_who_publish(
        self, follow: Callable[..., Following], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Who is not notified would sleep longer than this test waits.
        real = GrowthWaiter.nap
        monkeypatch.setattr(
            GrowthWaiter, "nap", lambda self, **options: max(real(self, **options), 60.0)
        )
        monkeypatch.setattr(tailing, "ROUND", 60.0)
        following = follow()
        idle()

        publish("a", 1)
        following.sees(1)
        publish("a", 2)
        following.sees(1, 2)

    def test_works_behind_a_transaction_pooler(
        self, pooled: None, follow: Callable[..., Following]
    ) -> None:
        following = follow()

        for number in range(10):
            publish("a", number)
            following.sees(*range(number + 1))

        assert not Reader.objects.exclude(notify_until=None).exists()


class TestClosing:
    def test_ends_an_iteration_that_waits_in_another_thread(
        self, follow: Callable[..., Following], connection: Connection
    ) -> None:
        following = follow()
        idle()

        following.tail.close()

        following.ends()
        eventually(lambda: not sessions(connection))

    def test_ends_it_at_once_whatever_has_been_read_ahead(self) -> None:
        publish_many([("a", n) for n in range(100)])
        seen = []

        with tail(after=0) as events:
            for event in events:
                seen.append(event.payload)
                events.close()

        assert seen == [0]

    def test_twice_or_before_it_begins_is_fine(self, connection: Connection) -> None:
        publish("a")
        events = tail(after=0)
        events.close()
        events.close()

        assert list(events) == []
        with events:
            assert list(events) == []
        assert sessions(connection) == []

    def test_comes_with_the_end_of_the_block(self, connection: Connection) -> None:
        publish("a")
        with tail(after=0) as events:
            iterator = iter(events)
            next(iterator)
            assert len(sessions(connection)) == 1

        eventually(lambda: not sessions(connection))

    def test_comes_with_an_error_in_the_loop(self, connection: Connection) -> None:
        publish("a")

        with pytest.raises(KeyError), tail(after=0) as events:
            for _ in events:
                raise KeyError

        eventually(lambda: not sessions(connection))


class TestALostConnection:
    def test_is_replaced_while_the_tail_is_idle(
        self, follow: Callable[..., Following], connection: Connection
    ) -> None:
        following = follow()
        publish("a", 1)
        following.sees(1)
        idle()

        (pid,) = sessions(connection)
        assert one(connection, "SELECT pg_terminate_backend(%s, 10000)", pid) == (True,)
        publish("a", 2)

        following.sees(1, 2)
        assert sessions(connection) != [pid]

    def test_is_replaced_again_and_again(
        self, follow: Callable[..., Following], connection: Connection
    ) -> None:
        following = follow()
        for number in range(5):
            publish("a", number)
            following.sees(*range(number + 1))
            for pid in sessions(connection):
                one(connection, "SELECT pg_terminate_backend(%s, 10000)", pid)

    def test_that_can_not_be_replaced_is_waited_for(
        self,
        follow: Callable[..., Following],
        connection: Connection,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        following = follow()
        publish("a", 1)
        following.sees(1)
        idle()

        with patch("pgqueue.database.connections._open", side_effect=OperationalError("away")):
            for pid in sessions(connection):
                one(connection, "SELECT pg_terminate_backend(%s, 10000)", pid)
            eventually(lambda: caplog.text.count("tail failed and will try again: away") > 1)
        publish("a", 2)

        following.sees(1, 2)

    def test_that_can_not_be_replaced_ends_with_the_tail(
        self, follow: Callable[..., Following], connection: Connection
    ) -> None:
        following = follow()
        idle()
        away = patch("pgqueue.events.tailing.Session.connection", new_callable=PropertyMock)
        with away as asked:
            asked.side_effect = OperationalError("away")
            eventually(lambda: asked.call_count > 2)
            following.tail.close()
            following.ends()

    def test_as_it_begins_is_an_error(self) -> None:
        with (
            patch("pgqueue.database.connections._open", side_effect=OperationalError("away")),
            pytest.raises(OperationalError, match="away"),
        ):
            next(iter(tail(after=0)))

    def test_of_the_listener_costs_no_event(
        self, follow: Callable[..., Following], connection: Connection
    ) -> None:
        following = follow()
        idle()

        for pid in sessions(connection, "listener"):
            one(connection, "SELECT pg_terminate_backend(%s, 10000)", pid)
        publish("a", 1)

        following.sees(1)


class TestABound:
    def test_below_which_events_were_removed_is_told(self, connection: Connection) -> None:
        publish_many([("a", n) for n in range(5)])
        with tail() as events:
            pass
        with connection.transaction():
            connection.execute("DELETE FROM pgqueue_event WHERE position <= 3")
            connection.execute("INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', 3)")

        assert events.position == 5
        with pytest.raises(EventsRemoved), tail(after=2) as events:
            next(iter(events))
        with tail(after=3) as events:
            assert next(iter(events)).position == 4

    def test_where_an_event_is_unreadable_is_told(self, connection: Connection) -> None:
        with damaged_events(connection):
            publish_many([("a", n) for n in range(5)])
            with tail() as events:
                pass
            connection.execute(
                "UPDATE pgqueue_event SET created_at = 'infinity' WHERE position = 3"
            )
            seen = []

            with pytest.raises(UnreadableEvent, match=r"at position 3 .* after=3"):
                for event in tail(after=0):
                    seen.append(event.payload)

            assert seen == [0, 1]
            with tail(after=3) as events:
                assert next(iter(events)).payload == 3

    def test_beyond_the_head_is_told(self) -> None:
        with pytest.raises(PositionAhead), tail(after=1) as events:
            next(iter(events))


class TestAsyncCode:
    def test_iterates_as_other_code_does(self) -> None:
        publish_many([("a", 1), ("a", 2)])

        async def run() -> list[Any]:
            seen = []
            async with tail(after=1) as events:
                async for event in events:
                    seen.append(event.payload)
                    if event.payload == 2:
                        await apublish("a", 3)
                    elif event.payload == 3:
                        break
            return seen

        assert asyncio.run(asyncio.wait_for(run(), 20)) == [2, 3]

    def test_goes_on_meanwhile(self) -> None:
        async def run() -> int:
            turns = 0
            async with tail() as events:

                async def consume() -> None:
                    async for _ in events:
                        return

                consuming = asyncio.create_task(consume())
                while turns < 50:
                    await asyncio.sleep(0.001)
                    turns += 1
                await apublish("a")
                await asyncio.wait_for(consuming, 20)
            return turns

        assert asyncio.run(run()) == 50

    def test_is_cancelled_soon(self, connection: Connection) -> None:
        async def run() -> None:
            async with tail() as events:
                async for _ in events:
                    pass

        async def cancel() -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(run(), 0.2)

        asyncio.run(asyncio.wait_for(cancel(), 20))
        eventually(lambda: not sessions(connection))

    @pytest.mark.parametrize("moment", ["catch_up", "read_or_name"])
    def test_that_is_cancelled_during_a_read_does_not_hold_the_event_loop(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, moment: str
    ) -> None:
        original, reads, goes_on = getattr(tailing, moment), threading.Event(), threading.Event()

        def slowly(*args: Any, **given: Any) -> Any:
            reads.set()
            goes_on.wait(20)
            return original(*args, **given)

        monkeypatch.setattr(tailing, moment, slowly)

        async def run() -> None:
            async with tail() as events:
                async for _ in events:
                    pass

        async def cancel() -> bool:
            running = asyncio.create_task(run())
            assert await asyncio.to_thread(reads.wait, 10)
            running.cancel()
            await asyncio.wait([running], timeout=10)
            was_held = goes_on.is_set() or not running.done()
            goes_on.set()
            return was_held

        threading.Timer(5, goes_on.set).start()
        assert not asyncio.run(cancel())
        eventually(lambda: not sessions(connection))

    def test_ends_as_another_task_closes_it(self) -> None:
        async def run() -> None:
            async with tail() as events:
                asyncio.get_running_loop().call_later(0.1, events.close)
                async for _ in events:
                    pass

        asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize(
    ("options", "error", "culprit"),
    [
        ({"topics": "a b"}, InvalidFilter, "topics="),
        ({"where": {"a": []}}, InvalidFilter, "where"),
        ({"after": -1}, ValueError, "after="),
        ({"after": "1"}, ValueError, "after="),
        ({"database": "nope"}, ValueError, "database="),
    ],
)
def test_what_can_not_be_is_refused_as_it_is_stated(
    options: dict[str, Any], error: type[Exception], culprit: str
) -> None:
    with pytest.raises(error, match=culprit):
        tail(**options)
