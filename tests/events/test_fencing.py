"""What a reader may not do once its partition, or an answer of the database, was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from pgqueue import publish
from pgqueue.engine import groups as engine
from pgqueue.events import consumers, consuming, groups
from pgqueue.events.consumers import Consumer, consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.exceptions import EventsRemoved, LeaseLost
from tests.eventually import eventually

Connection = psycopg.Connection[Any]
Read = Callable[..., GroupReader]


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Consumer]:
    """A function that declares the handler of the group `g`."""
    monkeypatch.setattr(consumers, "_consumers", {})

    def declare(handler: Callable[[Any], Any], **options: Any) -> Consumer:
        return consumer("g", start="beginning", backoff=[0], **options)(handler)

    return declare


@pytest.fixture
def read(declare: Callable[..., Consumer]) -> Iterator[Read]:
    """A function that makes a reader for a handler, which the test has tick."""
    readers: list[GroupReader] = []

    def read(handler: Callable[[Any], Any], **options: Any) -> GroupReader:
        readers.append(GroupReader(declare(handler, **options)))
        return readers[-1]

    yield read
    for each in readers:
        if each.ident is None:
            each.finish()


def cursor(connection: Connection) -> int:
    [row] = connection.execute("SELECT min(position) FROM pgqueue_cursor").fetchall()
    return int(row[0])


def dead_letters(connection: Connection) -> int:
    query = "SELECT count(*) FROM pgqueue_message WHERE state = 'dead'"
    [row] = connection.execute(query).fetchall()
    return int(row[0])


def test_a_cursor_is_not_moved_back_by_a_commit_or_a_failure(connection: Connection) -> None:
    reader = uuid4()
    with connection.transaction():
        engine.make_group(connection, "g", partitions=1, position=0)
    engine.take(connection, "g", reader, held=[])
    assert engine.commit(connection, "g", 0, reader, upto=5)
    failed = {"failures": 1, "error": "e", "retry_after": timedelta()}

    assert not engine.commit(connection, "g", 0, reader, upto=4)
    assert not engine.fail(connection, "g", 0, reader, upto=4, **failed)
    assert not engine.commit(connection, "g", 0, reader, upto=7, after=4)

    assert cursor(connection) == 5
    assert engine.commit(connection, "g", 0, reader, upto=5)
    assert engine.commit(connection, "g", 0, reader, upto=7, after=5)
    assert engine.fail(connection, "g", 0, reader, upto=7, **failed)


def set_back(connection: Connection, position: int) -> None:
    """Do as the promotion of a standby that lacks the last moves of a cursor."""
    connection.execute("UPDATE pgqueue_cursor SET position = %s", [position])


def test_a_cursor_that_a_failover_has_set_back_is_not_moved(connection: Connection) -> None:
    reader = uuid4()
    with connection.transaction():
        engine.make_group(connection, "g", partitions=1, position=0)
    engine.take(connection, "g", reader, held=[])
    assert engine.commit(connection, "g", 0, reader, upto=5)
    failed = {"failures": 1, "error": "e", "retry_after": timedelta()}

    set_back(connection, 2)

    assert not engine.commit(connection, "g", 0, reader, upto=7, stored=5)
    assert not engine.commit(connection, "g", 0, reader, upto=7, after=6, stored=5)
    assert not engine.fail(connection, "g", 0, reader, upto=7, stored=5, **failed)
    assert cursor(connection) == 2
    assert engine.commit(connection, "g", 0, reader, upto=7, stored=2)


def ahead_of_its_cursor(
    connection: Connection, read: Read, *, atomic: bool
) -> tuple[GroupReader, list[int]]:
    """Return a reader that has handled three events, and their positions; its cursor is at 1."""
    handled: list[int] = []
    reader = read(lambda event: handled.append(event.position), atomic=atomic)
    for _ in range(3):
        publish("a")
    reader.tick()
    set_back(connection, 1)
    publish("a")
    return reader, handled


@pytest.mark.parametrize("atomic", [True, False])
def test_a_reader_goes_back_with_its_cursor_when_it_connects_again(
    connection: Connection, read: Read, atomic: bool
) -> None:
    reader, handled = ahead_of_its_cursor(connection, read, atomic=atomic)

    reader._session.close()
    reader.tick()

    assert handled == [1, 2, 3, 2, 3, 4]
    assert cursor(connection) == 4


def broken(*_: Any) -> Any:
    raise psycopg.OperationalError("terminating connection")


@pytest.mark.parametrize(("timeline", "again"), [("00000001", []), ("00000002", [2])])
def test_a_reader_goes_back_behind_a_promotion_that_may_have_lost_effects(
    connection: Connection,
    read: Read,
    monkeypatch: pytest.MonkeyPatch,
    timeline: str,
    again: list[int],
) -> None:
    handled: list[int] = []

    def handle(event: Any) -> None:
        handled.append(event.position)
        if handled == [1, 2]:
            reader._session.close()  # before the cursor moves on to 2

    monkeypatch.setattr(engine, "timeline", lambda connection: "00000001")
    reader = read(handle)
    publish("a")
    reader.tick()
    publish("a")
    with pytest.raises(psycopg.OperationalError):
        reader.tick()
    monkeypatch.setattr(engine, "timeline", lambda connection: timeline)
    publish("a")
    with monkeypatch.context() as patch:
        patch.setattr(engine, "positions", broken)  # the first connection after it breaks, too
        with pytest.raises(psycopg.OperationalError):
            reader.tick()
    reader._session.close()

    for _ in range(2):
        reader.tick()

    assert handled == [1, 2, *again, 3]
    assert cursor(connection) == 3


def test_the_timeline_is_that_of_the_server(connection: Connection) -> None:
    [row] = connection.execute("SELECT timeline_id FROM pg_control_checkpoint()").fetchall()

    assert int(engine.timeline(connection), 16) == row[0]


def test_an_atomic_reader_goes_back_with_its_cursor_on_the_connection_of_a_pooler(
    connection: Connection, read: Read
) -> None:
    reader, handled = ahead_of_its_cursor(connection, read, atomic=True)

    for _ in range(2):
        reader.tick()

    assert handled == [1, 2, 3, 4, 2, 3, 4]  # the first transaction of 4 was rolled back
    assert cursor(connection) == 4


def test_a_parked_event_does_not_move_a_cursor_that_a_failover_has_set_back(
    connection: Connection, read: Read
) -> None:
    def fail(event: Any) -> None:
        if event.position == 3:
            set_back(connection, 1)
            raise ValueError

    reader = read(fail, max_attempts=1)
    for _ in range(2):
        publish("a")
    reader.tick()
    publish("a")

    reader.tick()

    assert (cursor(connection), dead_letters(connection)) == (1, 0)


def test_an_atomic_commit_whose_answer_was_lost_is_not_repeated(
    connection: Connection, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[int] = []
    reader = read(lambda event: handled.append(event.position), atomic=True)
    for _ in range(2):
        publish("a")
    commit = BaseDatabaseWrapper._commit

    def commit_and_break(wrapper: BaseDatabaseWrapper) -> None:
        commit(wrapper)
        if len(handled) == 1:
            wrapper.connection.close()
            raise OperationalError("terminating connection")

    monkeypatch.setattr(BaseDatabaseWrapper, "_commit", commit_and_break)

    for _ in range(3):
        reader.tick()

    assert handled == [1, 2]
    assert cursor(connection) == 2


def test_an_event_that_was_parked_without_an_answer_is_parked_once(
    connection: Connection, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(event: Any) -> None:
        raise ValueError

    reader = read(fail, max_attempts=1)
    publish("a")
    commit = engine.commit

    def commit_and_break(own: Connection, *arguments: Any, **options: Any) -> bool:
        commit(own, *arguments, **options)
        monkeypatch.undo()
        own.execute("COMMIT")
        own.close()
        raise psycopg.OperationalError("terminating connection")

    monkeypatch.setattr(engine, "commit", commit_and_break)

    with pytest.raises(psycopg.OperationalError):
        reader.tick()
    for _ in range(3):
        reader.tick()

    assert dead_letters(connection) == 1
    assert cursor(connection) == 1


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("verb", [partial(engine.reset, position=0), engine.delete])
def test_a_partition_that_was_lost_is_left_without_an_error(
    connection: Connection, read: Read, verb: Any, atomic: bool, noticed: bool
) -> None:
    handled: list[int] = []

    def handle(event: Any) -> None:
        handled.append(event.position)
        if len(handled) == 1:
            verb(connection, "g")
            if noticed:
                reader._leases.tick()

    reader = read(handle, atomic=atomic)
    for _ in range(2):
        publish("a")
    reader._leases.note({0})

    for _ in range(3):
        reader.tick()

    # A plain handler is not interrupted between two events, until the loss is noticed.
    assert handled == ([1, 1, 2] if atomic or noticed else [1, 2, 1, 2])
    assert cursor(connection) == 2
    reader._leases.finish()


def test_an_event_that_is_given_up_after_a_reset_leaves_no_dead_letter(
    connection: Connection, read: Read
) -> None:
    handled: list[int] = []

    def handle(event: Any) -> None:
        handled.append(event.position)
        if len(handled) == 1:
            groups.reset("g", "beginning")
            raise ValueError

    reader = read(handle, max_attempts=1)
    publish("a")

    for _ in range(2):
        reader.tick()

    assert handled == [1, 1]
    assert dead_letters(connection) == 0
    assert cursor(connection) == 1


def test_a_handler_that_raises_lease_lost_has_failed(connection: Connection, read: Read) -> None:
    def lose(event: Any) -> None:
        raise LeaseLost

    reader = read(lose, max_attempts=2)
    publish("a")

    for _ in range(3):
        reader.tick()

    assert dead_letters(connection) == 1
    assert cursor(connection) == 1


@pytest.mark.parametrize("batch", [None, 10])
def test_a_cursor_that_could_not_be_moved_is_moved_next(
    connection: Connection, read: Read, monkeypatch: pytest.MonkeyPatch, batch: int | None
) -> None:
    handled: list[Any] = []
    reader = read(handled.append, batch=batch)
    publish("a")

    def break_down(*arguments: Any, **options: Any) -> bool:
        monkeypatch.undo()
        raise psycopg.OperationalError("terminating connection")

    monkeypatch.setattr(engine, "commit", break_down)

    with pytest.raises(psycopg.OperationalError):
        reader.tick()
    reader.tick()

    assert len(handled) == 1
    assert cursor(connection) == 1


def test_a_group_that_was_made_anew_is_read_as_it_is_now(
    connection: Connection, read: Read
) -> None:
    handled: list[int] = []
    reader = read(lambda event: handled.append(event.position), partitions=2)
    reader.tick()
    groups.delete("g")
    groups.make("g", partitions=3, start="beginning")
    for key in "abcdefgh":
        publish("a", key=key)

    reader._rebalance_at = 0.0
    for _ in range(2):
        reader.tick()

    assert sorted(handled) == list(range(1, 9))


@pytest.mark.polled
def test_a_reader_behind_what_was_removed_says_so_and_goes_on_after_a_reset(
    connection: Connection, read: Read
) -> None:
    handled: list[int] = []
    reader = read(lambda event: handled.append(event.position), partitions=2)
    reader.tick()
    for key in "abcdefgh":
        publish("a", key=key)
    connection.execute("INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', 4)")
    connection.execute("UPDATE pgqueue_cursor SET position = 4 WHERE partition = 1")

    for _ in range(5):
        with pytest.raises(EventsRemoved):
            reader.tick()
    others = list(handled)
    groups.reset("g", "beginning")
    reader._leases.tick()
    for _ in range(2):
        reader.tick()

    # One that is behind keeps no other partition waiting.
    assert others
    assert set(handled) == set(range(5, 13))
    assert cursor(connection) == 12
    reader._leases.finish()


@pytest.mark.polled
def test_a_reader_takes_again_at_once_what_it_was_wrongly_told_is_lost(
    connection: Connection, read: Read
) -> None:
    handled: list[int] = []
    reader = read(lambda event: handled.append(event.position))
    reader.tick()
    publish("a")
    # As a renewal does that began before the partition was taken, and ends after.
    reader._leases._lost.add(0)

    reader.tick()

    assert handled == [1]


def test_a_reader_whose_thread_ends_renews_its_leases_no_more(
    connection: Connection, declare: Callable[..., Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(self: GroupReader, nap: timedelta) -> None:
        raise SystemExit

    monkeypatch.setattr(GroupReader, "rest", end)
    reader = GroupReader(declare(print))
    reader.start()

    eventually(lambda: not reader.is_alive())

    eventually(lambda: not reader._leases.is_alive())
    reader.finish()


def test_leases_are_tried_again_well_before_they_run_out(declare: Callable[..., Consumer]) -> None:
    reader = GroupReader(declare(print), lease=timedelta(seconds=3))

    assert reader._leases.longest_backoff <= timedelta(seconds=1)
    assert reader._leases.longest_backoff < consuming.LEASE / 3
