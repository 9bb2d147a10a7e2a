"""The feed: events get their positions as their transactions commit, and readers are told."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import transaction

from pgqueue import signals
from pgqueue.engine import log, notifications, readers, replication, sequence
from pgqueue.engine.values import Connection
from pgqueue.events.publishing import publish, publish_many
from pgqueue.events.tailing import tail
from pgqueue.exceptions import FeedUnavailable
from pgqueue.replication import feed as module
from pgqueue.replication import slots
from pgqueue.replication.stream import Stream
from tests.eventually import eventually
from tests.factories import one
from tests.feeding import feeding

pytestmark = pytest.mark.usefixtures("slot")


CONFIRMED = """
SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = %s
"""


def head(connection: Connection) -> int:
    return log.bounds(connection).head


def confirmed(connection: Connection, slot: str) -> int:
    """Return the position in the WAL that the server knows to be confirmed."""
    return int(one(connection, CONFIRMED, slot)[0])


def has_confirmed(connection: Connection, slot: str, at: int) -> bool:
    """Return whether the server knows a position to be confirmed; the slot may be missing."""
    rows = connection.execute(CONFIRMED, [slot]).fetchall()
    return any(confirmed >= at for (confirmed,) in rows)


def written(connection: Connection) -> int:
    return int(one(connection, "SELECT (pg_current_wal_lsn() - '0/0')::bigint")[0])


class TestACommit:
    def test_has_its_events_given_positions_by_nobody_but_the_feed(
        self, connection: Connection
    ) -> None:
        with feeding():
            publish("order.paid", 1)
            publish_many([("order.paid", number) for number in range(2, 5)])

            eventually(lambda: head(connection) == 4)

        stored = log.read(connection, after=0, limit=10).events
        assert [each.payload for each in stored] == ["1", "2", "3", "4"]

    def test_that_never_comes_moves_nothing(self, connection: Connection) -> None:
        with feeding():
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                publish("order.paid", 1)
                _ = 1 / 0
            publish("order.paid", 2)
            eventually(lambda: head(connection) == 1)

        assert [each.payload for each in log.read(connection, after=0, limit=9).events] == ["2"]

    def test_is_confirmed_when_it_is_in_the_log(self, connection: Connection, slot: str) -> None:
        with feeding():
            publish("order.paid", 1)
            at = written(connection)
            eventually(lambda: confirmed(connection, slot) >= at)

            assert head(connection) == 1

    def test_is_not_confirmed_while_its_event_can_not_be_moved(
        self, connection: Connection, other: Connection, slot: str
    ) -> None:
        with feeding() as feed, other.transaction():
            assert other.execute(sequence.SQL["lead"]).fetchone()  # another one is at it
            before = written(connection)
            publish("order.paid", 1)
            at = written(connection)
            eventually(lambda: feed._announced, what="it was told")
            # It goes on to ask, and the server to write.
            eventually(lambda: feed._nap == module.BEHIND_NAP)
            assert confirmed(connection, slot) < at
            assert min(feed._announced.values()) >= before

        assert head(connection) in (0, 1)

    def test_that_is_not_confirmed_is_told_again_and_moves_nothing_twice(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Stream, "confirm", lambda self, lsn: None)
            with feeding():
                publish("order.paid", 1)
                eventually(lambda: head(connection) == 1)
        seen: list[int] = []
        ask = replication.unseen

        def unseen(connection: Connection, xids: Any) -> list[int]:
            seen.extend(xids)
            return ask(connection, xids)

        monkeypatch.setattr("pgqueue.engine.replication.unseen", unseen)
        with feeding():
            eventually(lambda: seen, what="it is told again")
            publish("order.paid", 2)
            eventually(lambda: head(connection) == 2)

    def test_whose_events_a_look_has_missed_is_kept_until_a_look_from_the_front(
        self, connection: Connection, slot: str
    ) -> None:
        """Its transaction was open while many others published, and looks are expensive."""
        with feeding() as feed:
            mark = log._Mark(after=2**62, until=monotonic() + 0.5)
            log._marks[feed._session.connection] = mark
            publish("order.paid", 1)

            eventually(lambda: head(connection) == 1, within=10)
            at = written(connection)
            eventually(lambda: confirmed(connection, slot) >= at, within=15)

    def test_of_other_tables_is_confirmed_too(self, connection: Connection, slot: str) -> None:
        """Or the WAL that they write would be kept for ever where few events are published."""
        connection.execute("CREATE TABLE elsewhere (id int)")
        try:
            with feeding():
                connection.execute("INSERT INTO elsewhere SELECT generate_series(1, 1000)")
                at = written(connection)
                connection.execute("CHECKPOINT")
                eventually(lambda: confirmed(connection, slot) >= at, within=15)
        finally:
            connection.execute("DROP TABLE elsewhere")


def own_number(connection: Connection) -> int:
    (xid,) = one(connection, "SELECT pg_current_xact_id()::text::bigint")
    return int(xid)


class TestATransactionThatIsNotSeen:
    def test_is_asked_for_again(
        self, connection: Connection, slot: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It has committed in the WAL, and waits for a standby: nobody sees its events yet."""
        hidden = threading.Event()
        hidden.set()
        ask, move = replication.unseen, sequence.advance
        monkeypatch.setattr(
            replication,
            "unseen",
            lambda connection, xids: list(xids) if hidden.is_set() else ask(connection, xids),
        )
        monkeypatch.setattr(
            sequence, "advance", lambda connection: False if hidden.is_set() else move(connection)
        )
        with feeding() as feed:
            publish("order.paid", 1)
            at = written(connection)
            eventually(lambda: feed._nap == module.LONGEST_NAP, what="it asks less often")
            assert (head(connection), confirmed(connection, slot) < at) == (0, True)

            hidden.clear()

            # Without another commit that would have it look.
            eventually(lambda: head(connection) == 1)
            eventually(lambda: confirmed(connection, slot) >= at)

    def test_is_known_by_its_number(self, connection: Connection, other: Connection) -> None:
        # Of our own: transactions of other databases may have the numbers before and behind it.
        ended = [own_number(connection) for _ in range(2)]
        with other.transaction():
            xid = own_number(other)

            assert replication.unseen(connection, [xid, *ended]) == [xid]
        assert replication.unseen(connection, [xid, *ended]) == []

    def test_is_known_by_the_lower_half_of_its_number(
        self, connection: Connection, other: Connection
    ) -> None:
        """One that is behind the newest of which the snapshot knows is not seen."""
        (newest,) = one(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        soon, old = (newest + 1_000_000) % 2**32, own_number(connection) % 2**32

        assert replication.unseen(connection, [soon, old]) == [soon]


class TestReaders:
    def test_that_are_idle_are_told_by_the_feed_and_not_by_those_who_publish(
        self, connection: Connection
    ) -> None:
        with feeding(), tail() as events:
            came: list[Any] = []
            following = threading.Thread(
                target=lambda: came.extend(each.payload for each in events), daemon=True
            )
            following.start()
            eventually(lambda: one(connection, ASKING) == (1, 0), what="it asks the feed")

            publish("order.paid", 1)

            # Much earlier than it would look by itself.
            eventually(lambda: came == [1], within=2)
            events.close()
            following.join(10)

    def test_are_notified_by_the_session_that_moves(
        self, connection: Connection, other: Connection, slot: str
    ) -> None:
        told_by: list[int] = []
        other.add_notify_handler(lambda notice: told_by.append(notice.pid))
        notifications.listen_to(other, notifications.EVENTS)
        with feeding() as feed:
            publish("order.paid", 0)
            eventually(lambda: head(connection) == 1)
            other.execute("SELECT 1")
            assert told_by == [], "nobody is idle"
            readers.beat(connection, uuid4(), notify_for=timedelta(minutes=1), fed_by=slot)

            publish("order.paid", 1)

            eventually(lambda: other.execute("SELECT 1") and told_by)
            assert set(told_by) == {feed._session.connection.info.backend_pid}

    def test_are_told_by_those_who_publish_where_no_feed_runs(self, connection: Connection) -> None:
        with tail() as events:
            came: list[Any] = []
            following = threading.Thread(
                target=lambda: came.extend(each.payload for each in events), daemon=True
            )
            following.start()
            eventually(lambda: one(connection, ASKING) == (0, 1), what="it asks them")
            publish("order.paid", 1)
            eventually(lambda: came == [1], within=2)
            events.close()
            following.join(10)


ASKING = "SELECT count(feed_until), count(notify_until) FROM pgqueue_reader"


class TestTwoFeeds:
    def test_are_never_at_it_at_once_and_the_second_takes_over(
        self, connection: Connection
    ) -> None:
        with feeding() as first, feeding(waits=False) as second:
            publish("order.paid", 1)
            eventually(lambda: head(connection) == 1)
            assert not second.is_streaming

            first.stop()
            assert first.stopped(timedelta(seconds=10))

            eventually(lambda: second.is_streaming)
            publish("order.paid", 2)
            eventually(lambda: head(connection) == 2)

    def test_may_take_turns_with_those_who_read(
        self, connection: Connection, other: Connection
    ) -> None:
        with feeding():
            for number in range(20):
                publish("order.paid", number)
                if number % 2:
                    sequence.advance(other)
            eventually(lambda: head(connection) == 20)
        payloads = [each.payload for each in log.read(connection, after=0, limit=99).events]
        assert payloads == [str(number) for number in range(20)]


class TestASlot:
    @pytest.mark.parametrize("runs", [False, True], ids=["stopped", "running"])
    @pytest.mark.parametrize("by_hand", [False, True], ids=["by make", "by hand"])
    def test_older_than_its_publication_is_followed_again(
        self, connection: Connection, slot: str, runs: bool, by_hand: bool
    ) -> None:
        """Before version 18, PostgreSQL reads no WAL by a publication that is younger."""
        with ExitStack() as running:
            if runs:
                running.enter_context(feeding())
            replication.drop_publication(connection, "tests")
            publish("order.paid", 1)
            if by_hand:
                replication.make_publication(connection, "tests")
            else:
                slots.make_feed(connection, slot, "tests")
            publish("order.paid", 2)
            if not runs:
                running.enter_context(feeding(waits=False))
            publish("order.paid", 3)

            eventually(lambda: head(connection) == 3, within=20)
            # The slot is missing for a moment.
            at = written(connection)
            eventually(lambda: has_confirmed(connection, slot, at), within=20)

    def test_that_can_not_be_read_is_made_again(self, connection: Connection, slot: str) -> None:
        heard: list[bool] = []

        def hear(**said: Any) -> None:
            heard.append(said["is_unreadable"])

        before = confirmed(connection, slot)
        signals.slot_lost.connect(hear)
        try:
            with feeding():
                taken = slots.as_it_should_be(connection, slot, "tests", can_be_read=False)
            eventually(lambda: slots.as_it_should_be(connection, slot, "tests", can_be_read=False))
        finally:
            signals.slot_lost.disconnect(hear)

        assert not taken
        assert heard == [True]
        assert confirmed(connection, slot) > before

    def test_whose_publication_lacks_the_inbox_is_not_followed(
        self, connection: Connection, slot: str
    ) -> None:
        connection.execute("ALTER PUBLICATION tests DROP TABLE pgqueue_event_inbox")

        for verb in (slots.as_it_should_be, slots.make_feed):
            with pytest.raises(FeedUnavailable, match="pgqueue_event_inbox"):
                verb(connection, slot, "tests")

    def test_whose_publication_was_dropped_is_followed_no_longer(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """PostgreSQL 18 only warns of it: the stream goes on, and announces nothing."""
        monkeypatch.setattr(module, "CHECK_EVERY", 0.0)
        with feeding() as feed:
            replication.drop_publication(connection, "tests")

            eventually(lambda: not feed.is_streaming)

    def test_of_a_server_that_takes_the_feed_for_a_standby_is_not_followed(
        self, connection: Connection, slot: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        state = replication.state(connection, slot, "tests")._replace(is_standby=True)
        monkeypatch.setattr(replication, "state", lambda *given: state)

        with pytest.raises(FeedUnavailable, match="synchronous_standby_names"):
            slots.as_it_should_be(connection, slot, "tests")

    def test_that_was_dropped_is_made_again_and_no_event_is_lost(
        self, connection: Connection, slot: str
    ) -> None:
        lost: list[Any] = []

        def hear(**said: Any) -> None:
            lost.append(said["is_there"])

        signals.slot_lost.connect(hear)
        try:
            with feeding() as feed:
                replication.take_over(connection, slot)
                eventually(lambda: drops(connection, slot), what="the slot is dropped")
                publish("order.paid", 1)

                eventually(lambda: head(connection) == 1, what="what nobody announced is moved")
                eventually(lambda: feed.is_streaming)
                publish("order.paid", 2)
                eventually(lambda: head(connection) == 2)
        finally:
            signals.slot_lost.disconnect(hear)
        assert lost == [False]


def drops(connection: Connection, slot: str) -> bool:
    try:
        replication.drop_slot(connection, slot)
    except psycopg.errors.ObjectInUse:
        return False
    return True
