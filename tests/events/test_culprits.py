"""One subscription, or one event, that makes the dispatch fail each time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from pgqueue import publish, publish_many, read
from pgqueue.database.connections import connect
from pgqueue.engine import culprits, matching, readers
from pgqueue.engine import dispatch as engine
from pgqueue.engine import groups as engine_of_groups
from pgqueue.engine.sequence import catch_up, sequence
from pgqueue.events import consumers, groups, subscriptions
from pgqueue.events.consuming import GroupReader
from pgqueue.models import Cursor, Message, Subscription
from pgqueue.models.event import EventInbox
from tests.damage import damaged_events
from tests.factories import Connection, refusing

DUE = """jsonb_path_match(e.payload, '$.due.datetime() < "2027-01-01 00:00:00 +00".datetime()')"""


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.ERROR, logger="pgqueue")
    yield
    culprits.forget_all()


def dispatch(connection: Connection) -> None:
    """Match all events that are there with all subscriptions."""
    catch_up(connection)
    while True:
        with connection.transaction():
            if engine.step(connection).is_last:
                return


def numbers(name: str) -> list[int]:
    """Return what the messages of a subscription are of."""
    rows = Message.objects.filter(metadata__subscription=name).order_by("id")
    return [each.payload["payload"]["n"] for each in rows]


class TestAPredicate:
    def test_that_raises_pauses_its_subscription_alone(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        subscriptions.create("due", channel="due", predicate=DUE)
        subscriptions.create("other", channel="other")
        dispatch(connection)
        texts = ("2026-12-24 10:00:00 +00", "2026-12-24")
        publish_many([("inv.x", {"n": n, "due": text}) for n, text in enumerate(texts, 1)])

        dispatch(connection)

        due = Subscription.objects.get(pk="due")
        assert (due.paused, due.position) == (True, 1)
        assert due.error.startswith("FeatureNotSupported")
        assert numbers("other") == [1, 2]
        assert "The subscription due can't be matched" in caplog.text
        assert "position 2" in caplog.text

    def test_that_raises_by_its_parameters_spares_those_with_others(
        self, connection: Connection
    ) -> None:
        half = "(e.payload ->> 'n')::int / (s.params ->> 'by')::int >= 0"
        for by in range(5):
            subscriptions.create(f"by {by}", channel="x", predicate=half, params={"by": by})
        publish_many([("x", {"n": n}) for n in range(3)])

        dispatch(connection)

        assert list(Subscription.objects.filter(paused=True)) == [
            Subscription.objects.get(pk="by 0")
        ]
        assert numbers("by 1") == numbers("by 4") == [0, 1, 2]
        assert numbers("by 0") == []

    def test_goes_on_in_front_of_the_event_that_it_failed_with(
        self, connection: Connection
    ) -> None:
        own = "(e.payload ->> 'n')::int >= 0 OR e.key <> ''"
        subscriptions.create("own", channel="own", predicate=own)
        publish_many([("x", {"n": n}) for n in (0, 1, "two", 3)])

        dispatch(connection)
        dispatch(connection)

        assert numbers("own") == [0, 1]
        assert "position 3" in Subscription.objects.get(pk="own").error
        Subscription.objects.update(predicate="(e.payload -> 'n') IS NOT NULL")
        Subscription.objects.all().resume()
        dispatch(connection)
        assert numbers("own") == [0, 1, "two", 3]

    def test_of_one_that_catches_up_is_evaluated_however_late_it_is(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish_many([("x", {"n": n}) for n in range(3)])
        own = "(e.payload ->> 'n')::int >= 0"
        subscriptions.create("own", channel="own", predicate=own, start="beginning")
        monkeypatch.setattr(matching, "LONGEST", -1.0)

        dispatch(connection)

        assert numbers("own") == [0, 1, 2]

    def test_that_was_not_evaluated_in_time_is_evaluated_later(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = "(e.payload ->> 'n')::int >= 0"
        subscriptions.create("own", channel="own", predicate=own)
        dispatch(connection)
        publish_many([("x", {"n": n}) for n in range(3)])
        monkeypatch.setattr(matching, "LONGEST", -1.0)

        dispatch(connection)

        assert numbers("own") == [0, 1, 2]


class TestAnEvent:
    def test_of_which_no_message_can_be_stored_is_set_aside(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in ("a", "b"):
            subscriptions.create(name, channel=name)
        subscriptions.create("even", channel="even", predicate="(e.payload ->> 'n')::int % 2 = 0")
        dispatch(connection)
        publish_many([("x", {"n": n}) for n in range(5)])

        with refusing(connection, "pgqueue_message", """NEW.payload::text LIKE '%"n": 2%'"""):
            dispatch(connection)

        assert numbers("a") == numbers("b") == [0, 1, 3, 4]
        assert numbers("even") == [0, 4]
        assert not Subscription.objects.filter(paused=True).exists()
        assert "the event at position 3" in caplog.text
        assert "secret" not in caplog.text
        letter = Message.objects.get(channel="subscriptions")
        assert letter.state == "dead"
        assert letter.errors[-1]["message"] == "RaiseException: refused"

    def test_that_was_set_aside_is_matched_by_a_replay(self, connection: Connection) -> None:
        subscriptions.create("old", channel="old", topics="x")
        dispatch(connection)
        publish_many([("x", {"n": n}) for n in range(3)])
        with refusing(connection, "pgqueue_message", """NEW.payload::text LIKE '%"n": 1%'"""):
            dispatch(connection)
            subscriptions.create("new", channel="new")
            Message.objects.filter(channel="subscriptions").replay()
            call_command("runworker", "--drain", channel=["subscriptions"])
            assert Message.objects.get(channel="subscriptions").state == "dead"

        Message.objects.filter(channel="subscriptions", state="dead").replay()
        call_command("runworker", "--drain", channel=["subscriptions"])

        assert not Message.objects.filter(channel="subscriptions").exists()
        assert sorted(numbers("old")) == [0, 1, 2]

    def test_that_was_removed_before_the_replay_stays_a_dead_letter(
        self, connection: Connection
    ) -> None:
        subscriptions.create("own", channel="own")
        dispatch(connection)
        publish_many([("x", {"n": n}) for n in range(3)])
        with refusing(connection, "pgqueue_message", """NEW.payload::text LIKE '%"n": 1%'"""):
            dispatch(connection)
        connection.execute("DELETE FROM pgqueue_event WHERE position = 2")

        Message.objects.filter(channel="subscriptions").replay()
        call_command("runworker", "--drain", channel=["subscriptions"])

        letter = Message.objects.get(channel="subscriptions")
        assert letter.state == "dead"
        assert letter.errors[-1]["class"].endswith("EventsRemoved")
        assert "up to 2. Discard this dead letter" in letter.errors[-1]["message"]
        assert numbers("own") == [0, 2]

    def test_is_not_to_blame_for_a_subscription_whose_messages_are_refused(
        self, connection: Connection
    ) -> None:
        for name in ("good", "refused"):
            subscriptions.create(name, channel=name)
        publish_many([("x", {"n": n}) for n in range(4)])

        condition = """NEW.channel = 'refused' AND NEW.payload::text LIKE '%"n": 2%'"""
        with refusing(connection, "pgqueue_message", condition):
            dispatch(connection)

        assert (numbers("good"), numbers("refused")) == ([0, 1, 2, 3], [0, 1])
        refused = Subscription.objects.get(pk="refused")
        assert (refused.paused, refused.position) == (True, 2)
        Subscription.objects.all().resume()
        dispatch(connection)
        assert numbers("refused") == [0, 1, 2, 3]


def test_what_refuses_every_message_is_nobody_s_fault(connection: Connection) -> None:
    subscriptions.create("own", channel="own")
    publish("x", {"n": 1})
    catch_up(connection)

    with (
        refusing(connection, "pgqueue_message", "true"),
        pytest.raises(Exception, match="refused"),
        connection.transaction(),
    ):
        engine.step(connection)

    assert not Subscription.objects.filter(paused=True).exists()
    dispatch(connection)
    assert numbers("own") == [1]


class TestTheSequencer:
    def test_leaves_an_event_that_can_not_be_moved_and_goes_on(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        publish_many([("x", {"n": n}) for n in range(7)])
        inbox = EventInbox.objects.get(payload__n=3)

        with refusing(connection, "pgqueue_event", """NEW.payload::text LIKE '%"n": 3%'"""):
            catch_up(connection)
            publish("x", {"n": 7})
            catch_up(connection)

            assert [each.payload["n"] for each in read()] == [0, 1, 2, 4, 5, 6, 7]
        assert [each.position for each in read()] == [*range(1, 8)]
        assert f"pgqueue_event_inbox {inbox.pk}" in caplog.text
        assert caplog.text.count("goes on without it") == 1
        assert EventInbox.objects.get() == inbox

    def test_moves_it_once_it_can(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(culprits, "AGAIN", 0.0)
        publish_many([("x", {"n": n}) for n in range(3)])
        with refusing(connection, "pgqueue_event", """NEW.payload::text LIKE '%"n": 1%'"""):
            catch_up(connection)

        catch_up(connection)

        assert [each.payload["n"] for each in read()] == [0, 2, 1]

    @pytest.mark.parametrize("autocommit", [True, False])
    def test_finds_several(self, connection: Connection, autocommit: bool) -> None:
        publish_many([("x", {"n": n}) for n in range(40)])

        with refusing(connection, "pgqueue_event", "(NEW.payload ->> 'n')::int % 9 = 5"):
            with nullcontext() if autocommit else connection.transaction():
                sequence(connection)

            assert len(list(read(limit=100))) == 36

    def test_raises_what_is_no_event_s_fault(self, connection: Connection) -> None:
        publish_many([("x", {"n": n}) for n in range(40)])

        with (
            refusing(connection, "pgqueue_event", "true"),
            pytest.raises(Exception, match="refused"),
        ):
            sequence(connection)

        assert EventInbox.objects.count() == 40


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., GroupReader]]:
    monkeypatch.setattr(consumers, "_consumers", {})
    made: list[GroupReader] = []

    def reader(handler: Callable[[Any], Any], **options: Any) -> GroupReader:
        given = {"start": "beginning", "backoff": [0], "max_attempts": 2, **options}
        made.append(GroupReader(consumers.consumer("own", **given)(handler)))
        return made[-1]

    yield reader
    for each in made:
        each.finish()


class TestAGroup:
    @pytest.fixture(autouse=True)
    def damaged(self, connection: Connection) -> Iterator[None]:
        with damaged_events(connection):
            yield

    @pytest.mark.parametrize("atomic", [False, True])
    @pytest.mark.parametrize("batch", [None, 3])
    def test_parks_an_event_that_can_not_be_read_and_goes_on(
        self,
        connection: Connection,
        reader: Callable[..., GroupReader],
        caplog: pytest.LogCaptureFixture,
        atomic: bool,
        batch: int | None,
    ) -> None:
        publish_many([("x", {"n": n}, str(n)) for n in range(8)])
        catch_up(connection)
        connection.execute("UPDATE pgqueue_event SET created_at = 'infinity' WHERE position = 5")
        seen: list[int] = []

        def handle(given: Any) -> None:
            seen.extend(each.payload["n"] for each in (given if batch else [given]))

        own = reader(handle, atomic=atomic, batch=batch)
        for _ in range(8):
            own.tick()

        assert seen == [0, 1, 2, 3, 5, 6, 7]
        assert "The event at 5 failed in the group own: dead letter" in caplog.text
        assert groups.states()[0].lag == 0
        letters = Message.objects.filter(channel="group:own")
        assert letters.get().failures == 2

        connection.execute("UPDATE pgqueue_event SET created_at = now() WHERE position = 5")
        letters.replay()
        call_command("runworker", "--drain", channel=["group:own"])
        assert seen[-1] == 4
        assert not letters.exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("floor", [0, 2])
    def test_keeps_the_dead_letter_of_an_event_that_was_removed_before_the_replay(
        self, connection: Connection, reader: Callable[..., GroupReader], floor: int
    ) -> None:
        publish_many([("x", n) for n in range(3)])
        catch_up(connection)
        connection.execute("UPDATE pgqueue_event SET created_at = 'infinity' WHERE position = 2")
        own = reader(lambda event: None)
        for _ in range(4):
            own.tick()
        connection.execute("DELETE FROM pgqueue_event WHERE position = 2")
        given = [floor]
        connection.execute(
            "INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %s)", given
        )

        Message.objects.filter(channel="group:own").replay()
        call_command("runworker", "--drain", channel=["group:own"])

        error = Message.objects.get(channel="group:own").errors[-1]
        assert "up to 2. Discard this dead letter" in error["message"]

    def test_stops_at_it_if_it_is_to(
        self, connection: Connection, reader: Callable[..., GroupReader]
    ) -> None:
        publish_many([("x", {"n": n}) for n in range(4)])
        catch_up(connection)
        connection.execute("UPDATE pgqueue_event SET created_at = 'infinity' WHERE position = 3")

        own = reader(lambda event: None, on_failure="stop")
        for _ in range(5):
            own.tick()

        assert groups.states()[0].position == 2
        assert Cursor.objects.get(group="own").is_stopped

    def test_reads_it_not_where_it_does_not_want_it(
        self, connection: Connection, reader: Callable[..., GroupReader]
    ) -> None:
        publish_many([("x", 0), ("y", 1), ("x", 2)])
        catch_up(connection)
        connection.execute("UPDATE pgqueue_event SET created_at = 'infinity' WHERE position = 2")
        seen: list[int] = []

        own = reader(lambda event: seen.append(event.payload), topics="x")
        own.tick()

        assert seen == [0, 2]
        assert not Message.objects.exists()


class TestAPartition:
    @pytest.mark.parametrize("moment", ["taken", "moved", "renewed"])
    def test_whose_cursor_can_not_be_changed_keeps_no_other(
        self,
        connection: Connection,
        reader: Callable[..., GroupReader],
        caplog: pytest.LogCaptureFixture,
        moment: str,
    ) -> None:
        publish_many([("x", {"n": n}, str(n)) for n in range(40)])
        catch_up(connection)
        seen: list[int] = []
        own = reader(lambda event: seen.append(event.payload["n"]), partitions=4)
        groups.make("own", partitions=4, start="beginning")
        condition = (
            "OLD.partition = 1"
            + {
                "taken": "",
                "moved": " AND NEW.position <> OLD.position",
                "renewed": " AND NEW.reader_id = OLD.reader_id",
            }[moment]
        )

        with refusing(connection, "pgqueue_cursor", condition, "UPDATE"):
            for _ in range(12):
                with suppress(Exception):
                    own.tick()
            states = {each.partition: each.position for each in Cursor.objects.filter(group="own")}

        assert [states[n] for n in (0, 2, 3)] == [40, 40, 40]
        assert "refused" in caplog.text or moment == "moved"

    @pytest.mark.parametrize("atomic", [True, False])
    def test_whose_cursor_is_locked_keeps_no_other(
        self,
        connection: Connection,
        reader: Callable[..., GroupReader],
        monkeypatch: pytest.MonkeyPatch,
        atomic: bool,
    ) -> None:
        monkeypatch.setattr(engine_of_groups, "PATIENCE", "100ms", raising=False)
        publish_many([("x", {"n": n}, str(n)) for n in range(40)])
        catch_up(connection)
        own = reader(lambda event: None, partitions=4, atomic=atomic)
        own._rebalance(own._session.connection)
        rows = Cursor.objects.filter(group="own").order_by("partition")

        with connect("default", name="test") as session, session.transaction():
            session.execute("SELECT FROM pgqueue_cursor WHERE partition = 1 FOR UPDATE")
            for _ in range(12):
                own.tick()
            assert [each.position for each in rows.all()] == [40, 0, 40, 40]
            own.excuse()
        own._rebalance_at = 0
        for _ in range(12):
            own.tick()

        assert [each.position for each in rows] == [40] * 4
        assert not any(each.failures for each in rows)


def test_a_reader_renews_the_leases_that_nobody_has_locked(connection: Connection) -> None:
    groups.make("own", partitions=4, start="beginning")
    id = uuid4()
    readers.beat(connection, id, group="own")
    engine_of_groups.take(connection, "own", id, held=[])
    before = {each.partition: each.lease_until for each in Cursor.objects.all()}

    with connect("default", name="test") as session, session.transaction():
        session.execute("SELECT FROM pgqueue_cursor WHERE partition = 1 FOR UPDATE")
        connection.execute("SET lock_timeout = '2s'")
        assert engine_of_groups.renew(connection, "own", id) == {0, 1, 2, 3}
        engine_of_groups.release(connection, "own", id, [0, 1])

    rows = {each.partition: each for each in Cursor.objects.all()}
    assert [rows[n].reader_id for n in range(4)] == [None, id, id, id]
    assert rows[1].lease_until == before[1]
    assert all(rows[n].lease_until > before[n] for n in (2, 3))


def test_a_reader_keeps_the_partitions_whose_leases_can_be_renewed(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    groups.make("own", partitions=4, start="beginning")
    id = uuid4()
    readers.beat(connection, id, group="own")
    taken = engine_of_groups.take(connection, "own", id, held=[])
    assert len(taken) == 4

    with refusing(connection, "pgqueue_cursor", "OLD.partition = 1", "UPDATE"):
        assert engine_of_groups.renew(connection, "own", id) == {0, 2, 3}

    assert "the group 'own' fails because of pgqueue_cursor 1" in caplog.text


def test_a_reader_takes_the_partitions_that_it_can(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    groups.make("own", partitions=4, start="beginning")
    id = uuid4()
    readers.beat(connection, id, group="own")

    with refusing(connection, "pgqueue_cursor", "OLD.partition = 1", "UPDATE"):
        taken = engine_of_groups.take(connection, "own", id, held=[])

    assert {each.number for each in taken} == {0, 2, 3}
    assert "the group 'own' fails because of pgqueue_cursor 1" in caplog.text
