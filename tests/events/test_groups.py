"""Groups: durable cursors, one reader for each partition, and what becomes of what fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest
from django.db import connections

from pgqueue import Channel
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import groups as engine
from pgqueue.engine import sequence
from pgqueue.events import consumers, groups
from pgqueue.events.consumers import Consumer, consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.events.publishing import publish, publish_many
from pgqueue.events.reading import read
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidFilter, InvalidGroup
from pgqueue.models import Channel as ChannelRow
from pgqueue.models import Cursor, Group, Message, Reader
from pgqueue.states import State
from pgqueue.testing import run_all
from tests.eventually import eventually
from tests.factories import Connection, one

KNOWN = [241, 40, 537]
"""The partitions, of 1000, of the keys "a", "b" and "order:1"."""


@pytest.fixture(autouse=True)
def _groups_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})


@pytest.fixture
def reading() -> Iterator[Callable[..., GroupReader]]:
    """A function that makes a reader, to be driven by its `tick()`."""
    made: list[GroupReader] = []

    def reading(of: Consumer, **options: Any) -> GroupReader:
        made.append(GroupReader(of, **options))
        return made[-1]

    yield reading
    for each in made:
        each.stop()
        if each.ident is None:
            each.finish()
        else:
            each.join(10)


class Seen(list[Any]):
    """A handler that remembers the payloads, and fails with some of them."""

    def __init__(self, *failing: Any) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.failing = set(failing)

    def __call__(self, given: RecordedEvent | Sequence[RecordedEvent]) -> None:
        payloads = [each.payload for each in given] if isinstance(given, list) else [given.payload]
        self.calls.append(payloads)
        if bad := self.failing.intersection(payloads):
            raise ValueError(f"no {bad}")
        self.extend(payloads)


def declare(seen: Callable[[Any], Any], name: str = "g", **options: Any) -> Consumer:
    """Declare a group that reads from the beginning."""
    consumers._consumers.pop(name, None)
    return consumer(name, **{"start": "beginning", **options})(seen)


def exhaust(*readers: GroupReader, ticks: int = 50) -> None:
    """Have readers read until none has anything to do now."""
    for _ in range(ticks):
        if settings().feed == "wal":
            # They leave it to the feed, if that is giving positions just now.
            with borrow("default") as connection:
                sequence.catch_up(connection)
        naps = [each.tick() for each in readers]
        if all(naps):
            return
    raise AssertionError("they never nap")


def again(reader: GroupReader) -> None:
    """Have a reader look for partitions, as it does every second."""
    reader._rebalance_at = 0.0


def retry_now(reader: GroupReader) -> None:
    """Let the delays of retries be over."""
    for each in reader._held.values():
        each.retry_at = 0.0


def cursor(partition: int = 0, group: str = "g") -> Cursor:
    return Cursor.objects.get(group=group, partition=partition)


class TestAReader:
    def test_handles_events_in_their_order_and_moves_the_cursor(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", n) for n in range(1200)])
        seen = Seen()

        exhaust(reading(declare(seen)))

        assert seen == list(range(1200))
        assert cursor().position == 1200
        assert seen.calls[0] == [0]

    def test_goes_on_where_the_last_one_was(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(5)])
        seen = Seen()
        first = reading(declare(seen))
        exhaust(first)
        first.finish()
        publish("a", 5)

        exhaust(reading(declare(seen)))

        assert seen == [0, 1, 2, 3, 4, 5]

    def test_takes_what_topics_and_conditions_say(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a.b", {"n": 1}), ("a.b", {"n": 2}), ("b.b", {"n": 2}), ("a.b", {"n": 0})])
        calls: list[Any] = []

        exhaust(reading(declare(calls.append, topics="a.*", where={"n__gte": 1})))

        assert [each.position for each in calls] == [1, 2]
        assert cursor().position == 4

    @pytest.mark.parametrize("partitions", [1, 4])
    def test_takes_the_events_of_its_key(
        self, reading: Callable[..., GroupReader], partitions: int
    ) -> None:
        publish_many([("a.b", 1, "7"), ("a.b", 2, "8"), ("a.c", 3, "7"), ("a.b", 4), ("b", 5, "7")])
        seen = Seen()

        exhaust(reading(declare(seen, topics="a.*", key="7", partitions=partitions)))

        assert seen == [1, 3]

    def test_gives_batches_of_so_many(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(7)])
        seen = Seen()

        exhaust(reading(declare(seen, batch=3)))

        assert seen.calls == [[0, 1, 2], [3, 4, 5], [6]]
        assert cursor().position == 7

    def test_commits_after_it_has_handled(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(4)])
        positions: list[int] = []

        exhaust(reading(declare(lambda given: positions.append(cursor().position), batch=2)))

        assert positions == [0, 2]

    def test_gives_back_its_partitions_as_it_ends(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish("a")
        reader = reading(declare(Seen(), partitions=2))
        exhaust(reader)
        assert set(Cursor.objects.values_list("reader_id", flat=True)) == {reader.id}

        reader.finish()

        assert set(Cursor.objects.values_list("reader_id", flat=True)) == {None}
        assert not Reader.objects.filter(pk=reader.id).exists()

    def test_stops_between_two_events(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(9)])
        seen: list[int] = []

        def handle(event: RecordedEvent) -> None:
            seen.append(event.payload)
            if event.payload == 4:
                reader.stop()

        reader = reading(declare(handle))
        reader.start()
        reader.join(10)

        assert seen == [0, 1, 2, 3, 4]
        assert (cursor().position, cursor().reader_id) == (5, None)

    def test_reads_as_a_thread_and_is_woken(self, reading: Callable[..., GroupReader]) -> None:
        seen = Seen()
        reader = reading(declare(seen))
        reader.start()
        eventually(lambda: Reader.objects.exclude(notify_until=None, feed_until=None).exists())

        for number in range(5):
            publish("a", number)
            eventually(lambda number=number: len(seen) == number + 1)

        reader.stop()
        reader.join(10)
        assert cursor().position == 5


class TestAnAtomicGroup:
    @pytest.mark.parametrize("batch", [None, 2])
    def test_handles_and_moves_in_one_transaction(
        self, reading: Callable[..., GroupReader], batch: int | None
    ) -> None:
        publish_many([("a", n) for n in range(3)])

        def handle(given: Any) -> None:
            events = given if batch else [given]
            assert connections["default"].in_atomic_block
            for event in events:
                ChannelRow.objects.create(name=f"c{event.payload}")

        exhaust(reading(declare(handle, atomic=True, batch=batch)))

        assert sorted(ChannelRow.objects.values_list("name", flat=True)) == ["c0", "c1", "c2"]
        assert cursor().position == 3

    @pytest.mark.parametrize("batch", [None, 1])
    def test_rolls_back_both_where_the_handler_fails(
        self, reading: Callable[..., GroupReader], batch: int | None
    ) -> None:
        publish_many([("a", n) for n in range(2)])
        tries: list[int] = []

        def handle(given: Any) -> None:
            event = given[0] if batch else given
            tries.append(event.payload)
            ChannelRow.objects.create(name=f"c{len(tries)}")
            if tries.count(1) == 1:
                raise ValueError

        reader = reading(declare(handle, atomic=True, batch=batch, backoff=[60]))
        exhaust(reader)
        assert (cursor().position, cursor().failures) == (1, 1)
        assert list(ChannelRow.objects.values_list("name", flat=True)) == ["c1"]
        tries.append(1)
        retry_now(reader)
        exhaust(reader)

        assert cursor().position == 2
        assert ChannelRow.objects.count() == 2

    def test_that_has_lost_its_partition_rolls_back(
        self, reading: Callable[..., GroupReader], connection: Connection
    ) -> None:
        publish("a", 0)

        def handle(event: RecordedEvent) -> None:
            ChannelRow.objects.create(name="c")
            connection.execute("UPDATE pgqueue_cursor SET reader_id = gen_random_uuid()")

        reader = reading(declare(handle, atomic=True))
        reader.tick()

        assert cursor().position == 0
        assert not ChannelRow.objects.exists()
        assert not reader._held


class TestAFailure:
    def test_waits_for_a_hundred_years_at_most(self, reading: Callable[..., GroupReader]) -> None:
        publish("a", 1)
        reader = reading(declare(Seen(1), backoff=lambda error, result: timedelta.max))

        exhaust(reader)

        delay = (cursor().retry_at or datetime.min) - datetime.now(UTC)
        assert timedelta(days=36_000) < delay < timedelta(days=37_000)

    def test_holds_the_partition_and_backs_off(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(4)])
        seen = Seen(2)
        reader = reading(declare(seen, backoff=[60], max_attempts=3))

        exhaust(reader)
        assert seen == [0, 1]
        state = cursor()
        assert (state.position, state.failures, state.is_stopped) == (2, 1, False)
        assert state.error == "ValueError: no {2}"
        delay = (state.retry_at or datetime.min) - datetime.now(UTC)
        assert timedelta(seconds=50) < delay < timedelta(seconds=61)
        exhaust(reader)
        assert seen.calls.count([2]) == 1

        seen.failing.clear()
        retry_now(reader)
        exhaust(reader)
        assert seen == [0, 1, 2, 3]
        state = cursor()
        assert (state.position, state.failures, state.error, state.retry_at) == (4, 0, "", None)

    def test_waits_no_longer_where_the_clock_was_set_back(
        self, reading: Callable[..., GroupReader], connection: Connection
    ) -> None:
        publish("a", 0)
        seen = Seen(0)
        first = reading(declare(seen, backoff=[60]))
        exhaust(first)
        first.finish()
        connection.execute(
            "UPDATE pgqueue_cursor SET retry_at = retry_at + interval '1 hour', "
            "updated_at = updated_at + interval '1 hour'"
        )

        reader = reading(declare(seen, backoff=[60]))
        exhaust(reader)

        assert seen.calls == [[0]]
        [held] = reader._held.values()
        assert 50 < held.retry_at - monotonic() <= 60

    def test_waits_also_for_the_next_reader(self, reading: Callable[..., GroupReader]) -> None:
        publish("a", 0)
        seen = Seen(0)
        first = reading(declare(seen, backoff=[60]))
        exhaust(first)
        first.finish()

        exhaust(reading(declare(seen, backoff=[60])))

        assert seen.calls == [[0]]

    def test_of_the_last_attempt_parks_the_event(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", 0, "k"), ("a", 1, "k")], metadata={"m": 1})
        seen = Seen(0)
        reader = reading(declare(seen, backoff=[0], max_attempts=3))

        exhaust(reader)

        assert seen.calls == [[0], [0], [0], [1]]
        assert cursor().position == 2
        message = Message.objects.get()
        assert (message.state, message.channel, message.key) == (State.DEAD, "group:g", "k")
        assert (message.failures, message.attempt) == (3, 3)
        assert message.errors[0]["message"] == "no {0}"

    def test_of_an_only_attempt_parks_it_at_once(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", 0), ("a", 1)])
        seen = Seen(0)

        exhaust(reading(declare(seen, max_attempts=1)))

        assert seen.calls == [[0], [1]]
        assert Message.objects.count() == 1

    def test_that_the_backoff_gives_up_parks_it_at_once(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", 0), ("a", 1)])
        seen = Seen(0)

        exhaust(reading(declare(seen, backoff=give_up)))

        assert seen.calls == [[0], [1]]

    def test_that_is_parked_is_replayed_by_the_handler(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish("a", {"n": {1, 2}}, key="k", metadata={"m": 1})
        (published,) = read()
        handled: list[Any] = []
        failing = [True]

        def handle(event: RecordedEvent) -> None:
            if failing[0]:
                raise ValueError
            handled.append(event)

        exhaust(reading(declare(handle, max_attempts=1)))
        assert run_all() == []

        failing[0] = False
        Channel("group:g").replay()
        (ran,) = run_all(raise_errors=True)

        assert ran.status.name == "SUCCEEDED"
        assert handled == [published]
        assert handled[0].payload == {"n": {1, 2}}

    def test_that_is_parked_is_replayed_as_a_batch_where_it_takes_those(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish("a", 5)
        seen = Seen(5)
        exhaust(reading(declare(seen, batch=3, max_attempts=1)))
        seen.failing.clear()

        Channel("group:g").replay()
        run_all(raise_errors=True)

        assert (seen, seen.calls) == ([5], [[5], [5]])

    def test_of_a_replay_says_that_there_is_no_handler(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish("a", 0)
        exhaust(reading(declare(Seen(0), max_attempts=1)))
        consumers._consumers.clear()

        Channel("group:g").replay()

        with pytest.raises(InvalidGroup, match="'g'"):
            run_all(raise_errors=True)

    def test_stops_a_group_that_says_so(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(3)])
        seen = Seen(1)
        reader = reading(declare(seen, max_attempts=2, backoff=[0], on_failure="stop"))

        exhaust(reader)
        again(reader)
        exhaust(reader)

        assert seen.calls == [[0], [1], [1]]
        assert not Message.objects.exists()
        state = cursor()
        assert (state.is_stopped, state.position, state.reader_id) == (True, 1, None)
        (listed,) = groups.states()
        assert (listed.stopped, listed.error, listed.lag) == (1, "ValueError: no {1}", 2)

        seen.failing.clear()
        assert groups.resume("g") == 1
        again(reader)
        exhaust(reader)
        assert seen == [0, 1, 2]
        assert groups.resume("g") == 0

    def test_that_waits_is_tried_again_at_once_by_a_resume(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish("a", 0)
        seen = Seen(0)
        first = reading(declare(seen, backoff=[3600]))
        exhaust(first)
        first.finish()
        seen.failing.clear()

        assert groups.resume("g") == 1
        exhaust(reading(declare(seen)))

        assert seen == [0]

    @pytest.mark.parametrize("atomic", [False, True])
    def test_inside_of_a_batch_is_isolated(
        self, reading: Callable[..., GroupReader], atomic: bool
    ) -> None:
        publish_many([("a", n) for n in range(10)])
        seen = Seen(3)
        reader = reading(declare(seen, batch=5, max_attempts=2, backoff=[0], atomic=atomic))

        exhaust(reader)

        assert seen == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        assert seen.calls == [[0, 1, 2, 3, 4], [0], [1], [2], [3], [3], [4], [5, 6, 7, 8, 9]]
        (message,) = Message.objects.all()
        assert message.failures == 2
        assert cursor().position == 10

    def test_inside_of_a_batch_is_never_that_of_an_innocent(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", n) for n in range(3)])
        seen = Seen(2)

        exhaust(reading(declare(seen, batch=3, backoff=give_up)))

        assert seen == [0, 1]
        (message,) = Message.objects.all()
        assert message.payload["args"][1]["payload"] == 2

    def test_of_a_backoff_is_survived(self, reading: Callable[..., GroupReader]) -> None:
        publish("a", 0)
        seen = Seen(0)

        exhaust(reading(declare(seen, backoff=broken)))

        assert (cursor().failures, cursor().is_stopped) == (1, False)


def give_up(error: BaseException, result: Any) -> None:
    """Give up at once."""


def broken(error: BaseException, result: Any) -> float:
    """Fail."""
    raise KeyError


class TestPartitions:
    def test_are_never_negative_and_cover_all(self, connection: Connection) -> None:
        (least, most, count) = one(
            connection,
            "SELECT min(p), max(p), count(DISTINCT p) FROM (SELECT "
            "pgqueue_partition_v1('k' || n, 7) AS p FROM generate_series(1, 10000) n) s",
        )

        assert (least, most, count) == (0, 6, 7)

    def test_are_those_of_the_keys_for_ever(self, connection: Connection) -> None:
        # Another function would split what has been handled from what has not.
        (found,) = one(
            connection,
            "SELECT array_agg(pgqueue_partition_v1(k, 1000) ORDER BY k) "
            "FROM unnest('{a,b,order:1}'::text[]) k",
        )

        assert found == KNOWN

    def test_cover_everything_once_in_the_order_of_keys(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", n, f"k{n % 13}") for n in range(300)])
        seen: list[RecordedEvent] = []
        of = declare(seen.append, partitions=4)
        readers = [reading(of), reading(of)]
        for each in readers:
            each.tick()
        for each in [*readers, *readers]:
            again(each)
            each.tick()

        exhaust(*readers)

        assert sorted(each.payload for each in seen) == list(range(300))
        for key in {each.key for each in seen}:
            own = [each.position for each in seen if each.key == key]
            assert own == sorted(own)
        assert {each.position for each in Cursor.objects.all()} == {300}

    def test_are_shared_as_readers_come_and_go(self, reading: Callable[..., GroupReader]) -> None:
        of = declare(Seen(), partitions=4)
        first, second, third = reading(of), reading(of), reading(of)

        def counts(*readers: GroupReader) -> list[int]:
            for _ in range(4):
                for each in readers:
                    again(each)
                    each.tick()
            owners = list(Cursor.objects.values_list("reader_id", flat=True))
            return [owners.count(each.id) for each in readers]

        assert counts(first) == [4]
        assert counts(first, second) == [2, 2]
        assert sorted(counts(first, second, third)) == [1, 1, 2]
        second.finish()
        assert sorted(counts(first, third)) == [2, 2]
        first.finish()
        assert counts(third) == [4]

    def test_are_as_many_as_the_group_was_made_with(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        groups.make("g", partitions=3, start="beginning")
        publish_many([("a", n, f"k{n}") for n in range(30)])
        seen = Seen()

        exhaust(reading(declare(seen, partitions=8)))

        assert sorted(seen) == list(range(30))
        assert Cursor.objects.count() == 3

    def test_made_anew_while_it_is_read_are_read_all(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        seen = Seen()
        reader = reading(declare(seen))
        exhaust(reader)

        groups.delete("g")
        groups.make("g", partitions=5, start="beginning")
        publish_many([("a", n, f"k{n}") for n in range(50)])
        again(reader)
        exhaust(reader)
        again(reader)
        exhaust(reader)

        assert sorted(seen) == list(range(50))


class TestTakeover:
    def silence(self, reader: GroupReader) -> None:
        """Let a reader's lease run out, as that of one that was stopped."""
        Cursor.objects.filter(reader_id=reader.id).update(
            lease_until=datetime.now(UTC) - timedelta(seconds=1)
        )
        Reader.objects.filter(pk=reader.id).update(
            last_seen=datetime.now(UTC) - timedelta(minutes=1)
        )

    def test_waits_for_the_end_of_the_lease(self, reading: Callable[..., GroupReader]) -> None:
        of = declare(Seen())
        first, second = reading(of), reading(of)
        first.tick()

        second.tick()
        assert cursor().reader_id == first.id
        self.silence(first)
        again(second)
        second.tick()

        assert cursor().reader_id == second.id
        assert timedelta(seconds=10) >= engine.LEASE

    def test_fences_the_reader_that_comes_back(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(3)])
        seen = Seen()
        second = reading(declare(seen))

        def slow(given: Sequence[RecordedEvent]) -> None:
            # Stopped in the middle of its batch, for longer than its lease.
            self.silence(first)
            exhaust(second)

        first = reading(declare(slow, batch=2))
        first.tick()

        assert seen == [0, 1, 2]
        assert (cursor().position, cursor().reader_id) == (3, second.id)
        assert not first._held

    @pytest.mark.parametrize("on_failure", ["park", "stop"])
    def test_lets_the_one_that_comes_back_neither_park_nor_stop(
        self, reading: Callable[..., GroupReader], on_failure: Any
    ) -> None:
        publish("a", 0)
        second = reading(declare(Seen()))

        def slow(event: RecordedEvent) -> None:
            self.silence(first)
            exhaust(second)
            raise ValueError

        first = reading(declare(slow, max_attempts=1, on_failure=on_failure))
        first.tick()

        assert not Message.objects.exists()
        state = cursor()
        assert (state.position, state.failures, state.is_stopped) == (1, 0, False)
        assert state.reader_id == second.id

    def test_does_not_befall_a_reader_whose_handler_takes_long(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish("a", 0)
        entered, leaving = threading.Event(), threading.Event()

        def slow(event: RecordedEvent) -> None:
            entered.set()
            assert leaving.wait(20)

        lease = timedelta(seconds=0.9)
        first = reading(declare(slow), lease=lease)
        first.start()
        assert entered.wait(10)
        leases = {cursor().lease_until}
        eventually(lambda: leases.add(cursor().lease_until) or len(leases) > 3)
        second = reading(declare(slow), lease=lease)
        second.tick()
        assert cursor().reader_id == first.id

        leaving.set()
        eventually(lambda: cursor().position == 1)


class TestReset:
    def test_moves_to_a_position_the_beginning_or_now(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", n) for n in range(5)])
        seen = Seen()
        reader = reading(declare(seen))
        exhaust(reader)

        for to, position in (("beginning", 0), (3, 3), (0, 0), (5, 5), ("now", 5)):
            assert groups.reset("g", to) == position
            assert cursor().position == position
            assert cursor().reader_id is None

    def test_of_one_partition_leaves_the_others(self) -> None:
        publish_many([("a", n) for n in range(5)])
        groups.make("g", partitions=3, start="now")

        groups.reset("g", 2, partition=1)

        rows = Cursor.objects.order_by("partition").values_list("position", flat=True)
        assert list(rows) == [5, 2, 5]
        with pytest.raises(InvalidGroup, match="no group 'g' with a partition 3"):
            groups.reset("g", 2, partition=3)

    def test_moves_to_a_time(self, connection: Connection) -> None:
        publish_many([("a", n) for n in range(5)])
        read()
        connection.execute(
            "UPDATE pgqueue_event SET created_at = '2026-01-01 00:00Z'::timestamptz "
            "+ position * interval '1 hour'"
        )
        groups.make("g")

        for hour, position in ((0, 0), (1, 0), (2, 1), (5, 4), (6, 5)):
            assert groups.reset("g", datetime(2026, 1, 1, hour, tzinfo=UTC)) == position

    def test_is_followed_by_a_reader_that_reads(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(4)])
        seen: list[int] = []

        def handle(event: RecordedEvent) -> None:
            seen.append(event.payload)
            if len(seen) == 3:
                groups.reset("g", 1)

        reader = reading(declare(handle))
        exhaust(reader)

        assert seen == [0, 1, 2, 3, 1, 2, 3]
        assert cursor().position == 4

    def test_is_followed_by_a_reader_that_is_idle(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", n) for n in range(3)])
        seen = Seen()
        reader = reading(declare(seen), lease=timedelta(seconds=0.9))
        reader.start()
        eventually(lambda: len(seen) == 3)

        groups.reset("g", "beginning")

        eventually(lambda: seen == [0, 1, 2, 0, 1, 2])

    def test_forgets_what_failed_and_starts_what_was_stopped(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", n) for n in range(2)])
        seen = Seen(0)
        reader = reading(declare(seen, max_attempts=1, on_failure="stop"))
        exhaust(reader)

        groups.reset("g", 1)
        again(reader)
        exhaust(reader)

        assert seen == [1]
        assert groups.states()[0].error == ""

    @pytest.mark.parametrize("to", [-1, 6, "later", None, 1.5, True, datetime(2026, 1, 1)])
    def test_to_what_the_log_has_not_is_refused(self, to: Any) -> None:
        publish_many([("a", n) for n in range(5)])
        groups.make("g")

        with pytest.raises(InvalidGroup):
            groups.reset("g", to)
        assert cursor().position == 5


class TestStart:
    def test_is_now_if_nobody_says_otherwise(self, reading: Callable[..., GroupReader]) -> None:
        publish("a", 0)
        seen = Seen()
        reader = reading(consumer("g")(seen))
        exhaust(reader)
        publish("a", 1)

        exhaust(reader)

        assert seen == [1]

    @pytest.mark.parametrize(
        ("start", "position"),
        [("beginning", 0), ("now", 3), (2, 2), (datetime(2020, 1, 1, tzinfo=UTC), 0),
         (datetime(2090, 1, 1, tzinfo=UTC), 3)],
    )  # fmt: skip
    def test_is_where_the_group_says(self, start: Any, position: int) -> None:
        publish_many([("a", n) for n in range(3)])

        assert groups.make("g", start=start, partitions=2) == 2

        assert set(Cursor.objects.values_list("position", flat=True)) == {position}

    def test_says_nothing_of_a_group_that_is_there(self) -> None:
        publish_many([("a", n) for n in range(3)])
        groups.make("g", start="beginning", partitions=2)

        assert groups.make("g", start="now", partitions=5) == 2

        assert list(Cursor.objects.values_list("position", flat=True)) == [0, 0]


class TestAGroup:
    def test_has_an_exact_lag(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(5)])
        seen = Seen(3)
        exhaust(reading(declare(seen, backoff=[60])))
        publish_many([("a", n) for n in range(5)])
        read()

        (state,) = groups.states()

        assert (state.name, state.partitions, state.position, state.lag) == ("g", 1, 3, 7)
        assert (state.readers, state.stopped, state.error) == (1, 0, "ValueError: no {3}")

    def test_has_the_lag_of_its_slowest_partition(self) -> None:
        publish_many([("a", n) for n in range(5)])
        groups.make("g", partitions=2, start="beginning")
        Cursor.objects.filter(group="g", partition=1).update(position=4)

        (state,) = groups.states()

        assert (state.position, state.lag, state.readers) == (0, 5, 0)

    def test_is_listed_by_its_name(self) -> None:
        groups.make("b")
        groups.make("a")

        assert [each.name for each in groups.states()] == ["a", "b"]

    def test_that_is_deleted_is_gone(self) -> None:
        groups.make("g", partitions=3)

        groups.delete("g")

        assert not Group.objects.exists()
        assert not Cursor.objects.exists()

    def test_that_is_deleted_while_it_is_read_begins_anew(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", n) for n in range(2)])
        seen = Seen()
        reader = reading(declare(seen))
        exhaust(reader)

        groups.delete("g")
        again(reader)
        exhaust(reader)

        assert seen == [0, 1, 0, 1]

    @pytest.mark.parametrize(
        "verb", [groups.delete, groups.resume, lambda name: groups.reset(name, "now")]
    )
    def test_that_there_is_not_is_named(self, verb: Callable[[str], Any]) -> None:
        with pytest.raises(InvalidGroup, match="'nobody'"):
            verb("nobody")

    def test_is_one_of_many_that_read_the_same(self, reading: Callable[..., GroupReader]) -> None:
        publish_many([("a", n) for n in range(3)])
        one_of, other = Seen(1), Seen()

        exhaust(
            reading(declare(one_of, "g", backoff=[60])),
            reading(declare(other, "h")),
        )

        assert (one_of, other) == ([0], [0, 1, 2])


class TestADeclaration:
    def test_is_found_and_called_as_its_function_is(self) -> None:
        @consumer("g")
        def handle(event: Any) -> Any:
            """Say what it was."""
            return event

        assert consumers.find_consumer("g") is handle
        assert consumers.declared() == [handle]
        assert handle(5) == 5
        assert (handle.__name__, handle.__doc__) == ("handle", "Say what it was.")

    def test_of_one_name_by_two_functions_is_refused(self) -> None:
        @consumer("g")
        def handle(event: Any) -> None:
            pass

        with pytest.raises(InvalidGroup, match=r"'g'.*tests\.events\.test_groups"):

            @consumer("g")
            def other(event: Any) -> None:
                pass

        assert consumers.find_consumer("g") is handle

    def test_again_as_its_module_is_reloaded_replaces_the_first(self) -> None:
        def declare() -> Consumer:
            @consumer("g")
            def handle(event: Any) -> None:
                pass

            return handle

        declare()
        second = declare()

        assert consumers.find_consumer("g") is second

    def test_of_what_can_not_be_called_is_refused(self) -> None:
        with pytest.raises(InvalidGroup, match="can't be called"):
            consumer("g")(5)  # type: ignore[arg-type]

    def test_without_a_name_is_refused(self) -> None:
        with pytest.raises(InvalidGroup, match="name="):
            consumer(lambda event: None)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            *(("name", each) for each in ("", "x" * 191, "\x00", 5, None, b"g")),
            *(("batch", each) for each in (0, 10_001, "1", 1.5, True)),
            *(("atomic", each) for each in (1, None, "yes")),
            *(("partitions", each) for each in (0, 1025, None, "1", True)),
            *(("start", each) for each in ("later", -1, None, 1.5, True, datetime(2026, 1, 1))),
            *(("max_attempts", each) for each in (0, -1, "1", True)),
            *(("backoff", each) for each in ([], [-1], 5, "1", int)),
            *(("on_failure", each) for each in ("", "ignore", None, [])),
            *(("database", each) for each in (5, "nope")),
        ],
    )
    def test_that_can_not_be_is_refused_by_the_name_of_its_option(
        self, option: str, value: Any
    ) -> None:
        with pytest.raises(InvalidGroup, match=f"{option}="):
            consumer(**{"name": "g", option: value})

        assert consumers.declared() == []

    @pytest.mark.parametrize("options", [{"topics": "a b"}, {"where": {"a": []}}, {"topics": 5}])
    def test_of_a_filter_that_can_not_be_is_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidFilter):
            consumer("g", **options)

    @pytest.mark.parametrize(
        "options",
        [{"name": ""}, {"name": 5}, {"partitions": 0}, {"start": "later"}, {"start": 99},
         {"database": "nope"}],
    )  # fmt: skip
    def test_of_a_group_by_name_is_refused_the_same(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidGroup):
            groups.make(**{"name": "g", **options})

        assert not Group.objects.exists()
