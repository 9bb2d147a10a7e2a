"""The duty that gives positions to events where nobody else reads them."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest

from pgqueue import publish, publish_many
from pgqueue.database.connections import Contact, Session
from pgqueue.duties.run import run_duty
from pgqueue.duties.sequence import EVERY, Sequence
from pgqueue.duties.service import Duties
from pgqueue.engine import duty, readers, sequence
from pgqueue.engine.notifications import EVENTS, listen_to
from pgqueue.models import Event
from tests.factories import LEASE, Connection, Listening

ALWAYS = Contact(lease=LEASE)


def test_events_have_positions_a_second_after_they_were_published_though_nobody_reads() -> None:
    publish_many([("a", 1), ("a", 2)])

    with closing(Session("default", name="test")) as session:
        own = Sequence()
        nap = Duties(session, [own], lease=LEASE, on_done=lambda: None).tick()

    assert list(Event.objects.order_by("pk").values_list("pk", "payload")) == [(1, 1), (2, 2)]
    assert own.did == {"events": 2}
    assert nap <= timedelta(seconds=1)


def test_it_looks_before_it_is_due(connection: Connection) -> None:
    duty.due(connection, ["sequence"])
    duty.done(connection, "sequence", again_in=timedelta(days=1))
    own = Sequence()
    assert not own.look(connection)

    publish("a")

    assert own.look(connection)
    assert run_duty(connection, own, contact=ALWAYS) is None
    assert run_duty(connection, own, contact=ALWAYS, early=True) == EVERY
    assert not own.look(connection)


def test_a_batch_that_was_full_is_followed_at_once(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence, "BATCH", 2)
    monkeypatch.setattr(sequence.sequence, "__kwdefaults__", {"limit": 2})
    duty.due(connection, ["sequence"])
    publish_many([("a", n) for n in range(3)])
    own = Sequence()

    assert run_duty(connection, own, contact=ALWAYS, early=True) == timedelta()
    assert run_duty(connection, own, contact=ALWAYS, early=True) == EVERY
    assert Event.objects.count() == 3


def test_readers_that_wait_for_the_wal_feed_are_told_of_what_it_left(
    connection: Connection, other: Connection
) -> None:
    duty.due(connection, ["sequence"])
    reader = uuid4()
    readers.beat(connection, reader)
    connection.execute("UPDATE pgqueue_reader SET feed_until = now() + interval '1 minute'")
    listening = Listening(other, lambda session: listen_to(session, EVENTS))
    publish("a")
    assert listening.heard() == []

    run_duty(connection, Sequence(), contact=ALWAYS, early=True)
    run_duty(connection, Sequence(), contact=ALWAYS, early=True)

    assert listening.heard() == [""]


def test_nothing_is_done_while_another_session_is_at_it(
    connection: Connection, other: Connection
) -> None:
    publish("a")
    own = Sequence()

    with other.transaction():
        other.execute(sequence.SQL["lead"])
        with connection.transaction():
            assert own.run(connection) == EVERY

    assert own.did == {"events": 0}
    assert not Event.objects.exists()
