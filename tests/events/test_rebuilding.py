"""The rebuild of a group: a second table is filled beside the live one, and swapped with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection as django
from django.db import transaction

from pgqueue import Rebuild
from pgqueue.engine import groups as engine
from pgqueue.events import consumers, groups, rebuilding
from pgqueue.events.consumers import Consumer, consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.events.publishing import publish_many
from pgqueue.events.rebuilding import RebuildableReader, RebuildReader
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidGroup
from pgqueue.models import Cursor, Group, Message, Reader
from tests.events.test_groups import again, exhaust
from tests.eventually import eventually
from tests.factories import Connection

OWN = "sales:rebuild"


@pytest.fixture(autouse=True)
def _groups_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})


@pytest.fixture(autouse=True)
def _tables(connection: Connection) -> Iterator[None]:
    connection.execute("CREATE TABLE sales (n int); CREATE TABLE sales_next (n int)")
    yield
    connection.execute("DROP TABLE sales, sales_next")


def execute(statement: str, *values: Any) -> None:
    with django.cursor() as cursor:
        cursor.execute(statement, values)


def rows(table: str = "sales") -> list[int]:
    with django.cursor() as cursor:
        cursor.execute(f"SELECT n FROM {table} ORDER BY n")  # noqa: S608
        return [n for (n,) in cursor.fetchall()]


def empty() -> None:
    execute("TRUNCATE sales_next")


def swap() -> None:
    execute("ALTER TABLE sales RENAME TO sales_old")
    execute("ALTER TABLE sales_next RENAME TO sales")
    execute("ALTER TABLE sales_old RENAME TO sales_next")


def declare(
    handle: Callable[[RecordedEvent], Any] | None = None,
    hand_over: Callable[[], Any] = swap,
    begin: Callable[[], Any] = empty,
    **options: Any,
) -> Consumer:
    """Declare the group "sales", which stores each payload in the live or the second table."""

    def store(event: RecordedEvent) -> None:
        if handle:
            handle(event)
        table = "sales_next" if made.is_rebuilding else "sales"
        execute(f"INSERT INTO {table} VALUES (%s)", event.payload)  # noqa: S608

    given = {"topics": "order", "start": "beginning", "atomic": True, "backoff": [60], **options}
    consumers._consumers.pop("sales", None)
    made = consumer("sales", rebuild=Rebuild(begin=begin, hand_over=hand_over), **given)(store)
    return made


def is_waiting() -> bool:
    """Whether a session waits for a lock of another one."""
    with django.cursor() as cursor:
        cursor.execute(
            "SELECT FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return cursor.fetchone() is not None


def orders(first: int, last: int) -> None:
    publish_many([("order", n, f"k{n}") for n in range(first, last + 1)])


def position(group: str = "sales", partition: int = 0) -> int:
    return int(Cursor.objects.get(group=group, partition=partition).position)


def is_over() -> bool:
    return not Group.objects.filter(name=OWN).exists()


@pytest.fixture
def reading() -> Iterator[Callable[..., Any]]:
    """A function that makes a reader of a kind, to be driven by its `tick()`."""
    made: list[GroupReader] = []

    def reading(kind: type[GroupReader], of: Consumer) -> GroupReader:
        made.append(kind(of))
        return made[-1]

    yield reading
    for each in made:
        each.stop()
        each.finish()


Make = Callable[..., Any]


def elsewhere(work: Callable[[], Any]) -> None:
    """Do something in a thread of its own, on a connection of its own, to its end."""

    def run() -> None:
        try:
            work()
        finally:
            django.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def retake(reader: Any) -> None:
    """Have a reader see the loss of its partitions, as the thread that renews leases does."""
    reader._held.clear()
    again(reader)


def at_work(reading: Make, of: Consumer, *, events: int = 3) -> tuple[Any, Any]:
    """Begin a rebuild behind some events; return the reader of the group and of its rebuild."""
    orders(1, events)
    live = reading(GroupReader, of)
    exhaust(live)
    groups.rebuild("sales")
    return live, reading(RebuildReader, of)


class TestARebuild:
    def test_fills_the_second_table_and_swaps_it(self, reading: Make) -> None:
        live, rebuild = at_work(reading, declare())
        execute("INSERT INTO sales VALUES (99)")  # an error of an older handler

        exhaust(rebuild)

        assert rows() == [1, 2, 3]
        assert rows("sales_next") == [1, 2, 3, 99]
        assert is_over()
        assert position() == 3
        orders(4, 5)
        again(live)
        exhaust(live)
        assert rows() == [1, 2, 3, 4, 5]
        assert rows("sales_next") == [1, 2, 3, 99]

    @pytest.mark.parametrize("batch", [None, 2])
    def test_never_reads_beyond_the_live_group(self, reading: Make, batch: int | None) -> None:
        def handle(event: Any) -> None:
            seen.append((made.is_rebuilding, [e.payload for e in event] if batch else None))

        seen: list[Any] = []
        made = consumer(
            "sales",
            start="beginning",
            batch=batch,
            rebuild=Rebuild(begin=empty, hand_over=lambda: seen.append("over")),
        )(handle)
        groups.make("sales", start="beginning")
        orders(1, 4)
        groups.rebuild("sales")
        Cursor.objects.filter(group="sales").update(position=3)

        exhaust(reading(RebuildReader, made))

        assert seen[-1] == "over"
        assert all(is_rebuilding for is_rebuilding, _ in seen[:-1])
        assert [lists for _, lists in seen[:-1]] == ([[1, 2], [3]] if batch else [None] * 3)
        assert position() == 3

    def test_of_partitions_is_handed_over_once(self, reading: Make) -> None:
        made = declare(partitions=3)
        live, first = at_work(reading, made, events=30)
        second = reading(RebuildReader, made)
        second.tick()
        for each in (first, second):
            again(each)

        exhaust(first, second)
        for _ in range(3):
            again(live)
            exhaust(live)

        assert is_over()
        assert rows() == list(range(1, 31))
        assert rows("sales_next") == list(range(1, 31))
        orders(31, 40)
        exhaust(live)
        assert rows() == list(range(1, 41))

    def test_gives_the_live_group_back(self, reading: Make) -> None:
        _, rebuild = at_work(reading, declare(partitions=2))

        exhaust(rebuild)

        readers = Cursor.objects.filter(group="sales").values_list("reader_id", "lease_until")
        assert set(readers) == {(None, None)}

    def test_of_an_empty_log_is_over_at_once(self, reading: Make) -> None:
        made = declare()
        groups.make("sales", start="beginning")
        groups.rebuild("sales")

        exhaust(reading(RebuildReader, made))

        assert is_over()

    def test_ends_other_readers_of_it(self, reading: Make) -> None:
        made = declare()
        _, first = at_work(reading, made)
        second = reading(RebuildReader, made)
        first.tick()
        second.tick()

        exhaust(first)
        again(second)
        second.tick()

        assert first._stopping.is_set() and second._stopping.is_set()
        assert is_over()

    def test_takes_part_in_no_events_while_it_is_far(
        self, reading: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rebuilding, "NEAR", 1)
        monkeypatch.setattr("pgqueue.events.consuming.PAGE", 1)
        live, rebuild = at_work(reading, declare(), events=4)

        rebuild.tick()

        assert position(OWN) == 1
        assert Cursor.objects.get(group="sales").reader_id == live.id


class TestTheHandOver:
    def test_is_one_transaction(self, reading: Make, connection: Connection) -> None:
        def hand_over() -> None:
            swap()
            with pytest.raises(Exception, match="lock"), connection.transaction():
                connection.execute("SELECT FROM pgqueue_cursor FOR UPDATE NOWAIT")
            raise ValueError("no swap today")

        live, rebuild = at_work(reading, declare(hand_over=hand_over))

        exhaust(rebuild)

        assert rows("sales_next") == [1, 2, 3]  # the rename was rolled back, too
        assert not is_over()
        state = Cursor.objects.get(group=OWN)
        assert (state.failures, state.error) == (1, "ValueError: no swap today")
        assert Cursor.objects.get(group="sales").reader_id is None
        orders(4, 4)
        again(live)
        exhaust(live)
        assert rows() == [1, 2, 3, 4]

    def test_that_fails_is_tried_again_and_at_last_stops(self, reading: Make) -> None:
        tries = []

        def hand_over() -> None:
            tries.append(1)
            if len(tries) <= 2:
                raise SystemExit
            swap()

        made = declare(hand_over=hand_over, max_attempts=2, backoff=[0.0])
        _, rebuild = at_work(reading, made)

        for _ in range(10):
            rebuild.tick()
        assert len(tries) == 2
        assert Cursor.objects.get(group=OWN).is_stopped
        groups.resume(OWN)
        again(rebuild)
        exhaust(rebuild)

        assert is_over()
        assert rows() == rows("sales_next") == [1, 2, 3]

    def test_waits_for_the_live_handler_that_was_begun(self, reading: Make) -> None:
        """The live group handles an event while its partition is taken: it is rolled back."""

        def handle(event: RecordedEvent) -> None:
            if event.payload == 4 and not made.is_rebuilding and not calls:
                calls.append(event)
                elsewhere(lambda: exhaust(rebuild))
                assert is_over()

        calls: list[RecordedEvent] = []
        made = declare(handle)
        live, rebuild = at_work(reading, made)
        orders(4, 4)

        exhaust(live)

        assert rows() == [1, 2, 3, 4]  # once, in the new table
        assert rows("sales_next") == [1, 2, 3]

    def test_that_waits_for_a_table_and_the_handler_that_writes_to_it_do_not_deadlock(
        self, reading: Make
    ) -> None:
        def handle(event: RecordedEvent) -> None:
            if event.payload == 4 and not written.is_set():
                execute("INSERT INTO sales VALUES (4)")
                written.set()
                assert goes_on.wait(30)

        written, goes_on = threading.Event(), threading.Event()
        live, rebuild = at_work(reading, declare(handle))
        orders(4, 4)
        threads = [threading.Thread(target=elsewhere, args=[lambda: exhaust(live)])]
        threads[0].start()
        assert written.wait(30)
        threads.append(threading.Thread(target=elsewhere, args=[lambda: exhaust(rebuild)]))
        threads[1].start()

        eventually(is_waiting, within=30)  # the table's new name for the end of the handler
        goes_on.set()
        for each in threads:
            each.join(30)

        assert is_over()
        again(live)
        exhaust(live)
        assert rows() == [1, 2, 3, 4]
        assert rows("sales_next") == [1, 2, 3]

    def test_holds_a_busy_group_until_both_are_level(self, reading: Make) -> None:
        made = declare()
        live, rebuild = at_work(reading, made)
        orders(4, 9)

        def come(connection: Any, held: Any) -> bool:
            monkey.undo()
            exhaust(live)  # the live group goes on, just before it is held
            return bool(rebuild._come_to_hand_over(connection, held))

        monkey = pytest.MonkeyPatch()
        monkey.setattr(rebuild, "_come_to_hand_over", come)
        exhaust(rebuild)

        assert is_over()
        assert rows() == list(range(1, 10))
        assert position() == 9

    def test_is_put_off_where_the_live_group_moved_meanwhile(
        self, reading: Make, connection: Connection
    ) -> None:
        _, rebuild = at_work(reading, declare())
        hold = rebuild._hand_over

        def too_late(*given: Any) -> None:
            # Its lease ended, and another reader has taken the group.
            connection.execute(
                "UPDATE pgqueue_cursor SET reader_id = gen_random_uuid() WHERE \"group\" = 'sales'"
            )
            hold(*given)

        rebuild._hand_over = too_late
        exhaust(rebuild)

        assert not is_over()
        assert rows("sales_next") == [1, 2, 3]
        rebuild._hand_over, rebuild._hold_again_at = hold, 0.0
        exhaust(rebuild)
        assert is_over()

    def test_leaves_the_loss_of_a_reader_to_the_next_one(self, reading: Make) -> None:
        _, rebuild = at_work(reading, declare())
        ended = datetime.now(UTC) - timedelta(seconds=1)
        Cursor.objects.filter(group="sales").update(lease_until=ended)
        before = Cursor.objects.get(group="sales").reader_id

        exhaust(rebuild)

        assert not is_over()
        assert Cursor.objects.get(group="sales").reader_id == before

    def test_gives_up_to_hold_the_group_when_it_takes_too_long(
        self, reading: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = declare(partitions=2)
        _, rebuild = at_work(reading, made, events=9)
        rebuild.tick()
        # Another reader of the rebuild has a partition, and does not come on.
        assert rebuild._held_until
        Cursor.objects.filter(group=OWN, partition=1).update(position=0)
        rebuild._held.pop(1, None)
        monkeypatch.setattr(rebuilding, "monotonic", lambda: rebuild._held_until + 1)

        rebuild.tick()

        assert not rebuild._held_until
        readers = Cursor.objects.filter(group="sales").values_list("reader_id", flat=True)
        assert set(readers) == {None}


class TestAnEvent:
    def test_that_fails_stops_the_rebuild_and_not_the_group(self, reading: Make) -> None:
        failing = [2]

        def handle(event: RecordedEvent) -> None:
            if made.is_rebuilding and event.payload in failing:
                raise ValueError("no such order")

        made = declare(handle, max_attempts=1)
        live, rebuild = at_work(reading, made)

        exhaust(rebuild)

        state = Cursor.objects.get(group=OWN)
        assert (state.position, state.is_stopped) == (1, True)
        assert not Message.objects.exists()
        orders(4, 4)
        exhaust(live)
        assert rows() == [1, 2, 3, 4]
        failing.clear()
        groups.resume(OWN)
        again(rebuild)
        exhaust(rebuild)
        assert is_over()
        assert rows() == [1, 2, 3, 4]

    def test_that_stopped_the_live_group_is_left_to_it(self, reading: Make) -> None:
        def handle(event: RecordedEvent) -> None:
            if event.payload == 3:
                raise ValueError

        _, rebuild = at_work(reading, declare(handle, max_attempts=1, on_failure="stop"))

        exhaust(rebuild)

        assert is_over()
        assert rows() == [1, 2]
        state = Cursor.objects.get(group="sales")
        assert (state.position, state.is_stopped, state.failures) == (2, True, 1)


class TestAProcessThatEnds:
    @pytest.mark.parametrize("ticks", [1, 2, 3])
    def test_is_followed_by_the_next_one(self, reading: Make, ticks: int) -> None:
        """The reader is gone after each of its steps: its leases end, and another goes on."""
        made = declare()
        live, lost = at_work(reading, made)
        for _ in range(ticks):
            lost.tick()
        silent = datetime.now(UTC) - timedelta(minutes=1)
        Cursor.objects.filter(reader_id=lost.id).update(lease_until=silent)
        Reader.objects.filter(pk=lost.id).update(last_seen=silent)

        retake(live)
        exhaust(live)
        exhaust(reading(RebuildReader, made))
        orders(4, 4)
        again(live)
        exhaust(live)

        assert is_over()
        assert rows() == [1, 2, 3, 4]
        assert rows("sales_next") == [1, 2, 3]

    def test_and_comes_back_changes_nothing(self, reading: Make) -> None:
        def handle(event: RecordedEvent) -> None:
            if made.is_rebuilding and event.payload == 2 and not calls:
                calls.append(event)
                elsewhere(lambda: groups.delete(OWN))
                elsewhere(lambda: groups.rebuild("sales"))

        calls: list[RecordedEvent] = []
        made = declare(handle, begin=lambda: execute("DELETE FROM sales_next"))
        _, first = at_work(reading, made)

        first.tick()

        assert rows("sales_next") == []
        assert position(OWN) == 0
        exhaust(reading(RebuildReader, made))

        assert rows() == [1, 2, 3]


class TestBegin:
    def test_is_in_the_transaction_that_begins_the_rebuild(self) -> None:
        def begin() -> None:
            execute("INSERT INTO sales_next VALUES (1)")
            raise RuntimeError("no table")

        declare(begin=begin)
        groups.make("sales")

        with pytest.raises(RuntimeError):
            groups.rebuild("sales")

        assert is_over()
        assert rows("sales_next") == []

    def test_is_refused_while_a_rebuild_is_going_on(self) -> None:
        declare()
        groups.make("sales")
        groups.rebuild("sales")

        with pytest.raises(InvalidGroup, match="is being rebuilt: delete 'sales:rebuild'"):
            groups.rebuild("sales")
        groups.delete(OWN)
        groups.rebuild("sales")

        assert not is_over()

    def test_of_two_at_once_happens_once(self, connection: Connection) -> None:
        made = []
        declare(begin=lambda: made.append(1))
        groups.make("sales")
        with connection.transaction():
            engine.begin_rebuild(connection, OWN, partitions=1, position=0)
            refused: list[BaseException] = []

            def second() -> None:
                try:
                    groups.rebuild("sales")
                except InvalidGroup as error:
                    refused.append(error)
                finally:
                    django.close()

            thread = threading.Thread(target=second)
            thread.start()
            eventually(is_waiting)
        thread.join(20)

        assert len(refused) == 1
        assert made == []

    def test_names_what_is_missing(self) -> None:
        consumer("plain")(lambda event: None)
        declare()

        for name, reason in (
            ("nobody", "'nobody' can't be rebuilt: it is not declared here"),
            ("plain", "'plain' can't be rebuilt: it has no rebuild="),
            ("sales", "There is no group 'sales'"),
        ):
            with pytest.raises(InvalidGroup, match=reason):
                groups.rebuild(name)

    def test_goes_with_its_group(self) -> None:
        declare()
        groups.make("sales")
        groups.rebuild("sales")

        groups.delete("sales")

        assert not Group.objects.exists()
        assert not Cursor.objects.filter(group__startswith="sales").exists()


class TestADeclaration:
    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"rebuild": "yes"}, "rebuild='yes': it must be a pgqueue.Rebuild"),
            ({"name": "g:rebuild"}, "reserved for rebuilds"),
            (
                {"name": "x" * 183, "rebuild": Rebuild(begin=empty, hand_over=swap)},
                "it has at most 182 bytes",
            ),
        ],
    )
    def test_that_is_invalid_is_refused(self, options: dict[str, Any], reason: str) -> None:
        with pytest.raises(InvalidGroup, match=reason):
            consumer(**{"name": "g", **options})(print)

    def test_of_functions_that_can_not_be_called_is_refused(self) -> None:
        async def later() -> None: ...

        def lazily() -> Iterator[None]:
            yield

        for wrong, reason in ((1, "can't be called"), (later, "async"), (lazily, "generator")):
            with pytest.raises(InvalidGroup, match=f"hand_over=.*{reason}"):
                Rebuild(begin=empty, hand_over=wrong)  # type: ignore[arg-type]

    def test_of_a_reserved_name_is_made_by_nobody(self) -> None:
        with pytest.raises(InvalidGroup, match="reserved for rebuilds"):
            groups.make(OWN)


class TestAProcess:
    def test_that_reads_for_the_group_rebuilds_it(self) -> None:
        orders(1, 20)
        live = RebuildableReader(declare())
        live.start()
        try:
            at_20 = Cursor.objects.filter(group="sales", position=20)
            eventually(at_20.exists, within=30)
            with transaction.atomic():
                groups.rebuild("sales")
            eventually(is_over, within=30)
            eventually(lambda: rows("sales_next") == list(range(1, 21)), within=30)
            orders(21, 22)
            eventually(lambda: rows() == list(range(1, 23)), within=30)
        finally:
            live.stop()
            live.join(20)
        assert not live.is_alive()
        assert live._rebuild is None or not live._rebuild.is_alive()
