"""Events that are published at a later time, exactly once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from pgqueue import (
    Channel,
    ChannelFull,
    Event,
    InvalidEvent,
    publish_later,
    read,
    receive_external,
)
from pgqueue.events import publishing
from pgqueue.events.later import publish_now
from pgqueue.models import Message, Policy
from pgqueue.testing import advance, run_all
from tests.factories import limit

HOUR = timedelta(hours=1)


class Reminded(Event, topic="user.reminded", key="user"):
    """A typed event."""

    user: str


def test_an_event_is_published_when_it_is_time() -> None:
    publish_later("a.b", {"n": 1}, run_after=HOUR, key="k", metadata={"m": 2})

    run_all(raise_errors=True)
    assert read() == []
    advance(HOUR)
    run_all(raise_errors=True)

    [event] = read()
    assert (event.topic, event.key, event.payload) == ("a.b", "k", {"n": 1})
    assert event.metadata == {"m": 2}


def test_an_event_is_refused_where_a_full_channel_drops_messages() -> None:
    limit("default", scope="channel", max_size=1)
    Channel("default").configure(on_full="drop")
    publish_later("a", run_after=HOUR)

    with pytest.raises(ChannelFull):
        publish_later("a", run_after=HOUR)
    with pytest.raises(ChannelFull):
        receive_external("evt_7", "a", run_after=HOUR)

    Policy.objects.update(max_size=2)
    assert receive_external("evt_7", "a", run_after=HOUR).is_new


@pytest.mark.parametrize(
    "run_after", [0, 0.0, timedelta(), datetime(2020, 1, 1, tzinfo=UTC)], ids=str
)
def test_a_time_that_has_come_is_now(run_after: Any) -> None:
    publish_later("a", None, run_after=run_after)

    run_all(raise_errors=True)

    [event] = read()
    assert event.payload is None


@pytest.mark.parametrize(
    "run_after", [datetime(2125, 1, 1, tzinfo=UTC), timedelta(days=36_000), 3e9], ids=str
)
def test_it_may_be_any_time_ahead(run_after: Any) -> None:
    result = publish_later("a", run_after=run_after)

    message = Message.objects.get(pk=result.id)
    assert message.state == "scheduled"
    assert message.run_at.year > 2100


def test_an_instance_is_published_as_it_is() -> None:
    publish_later(Reminded(user="a"), run_after=0)

    run_all(raise_errors=True)

    [event] = read()
    assert (event.as_event(), event.key) == (Reminded(user="a"), "a")


def test_it_is_part_of_the_transaction() -> None:
    with transaction.atomic():
        publish_later("a", run_after=0)
        transaction.set_rollback(True)

    assert not Message.objects.exists()


def test_one_that_is_cancelled_is_not_published() -> None:
    result = publish_later("a", run_after=HOUR)

    result.cancel()
    advance(2 * HOUR)
    run_all(raise_errors=True)

    assert read() == []


def test_who_acts_is_who_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as acting:
        acting.setattr(publishing, "acting", lambda: {"by": "one"})
        publish_later("a", run_after=0)
    with monkeypatch.context() as acting:
        acting.setattr(publishing, "acting", lambda: {"by": "another"})
        run_all(raise_errors=True)

    assert read()[0].metadata == {"acting": {"by": "one"}}


def test_a_run_that_is_undone_has_published_nothing() -> None:
    publish_later("a", run_after=0)

    with pytest.raises(RuntimeError), transaction.atomic():
        run_all(raise_errors=True)
        # Its effect and its end are of one transaction: here both are undone.
        raise RuntimeError

    assert read() == []
    run_all(raise_errors=True)
    run_all(raise_errors=True)
    assert len(read()) == 1


def test_a_run_publishes_in_the_transaction_in_which_it_ends() -> None:
    assert publish_now.atomic is True


def test_it_may_be_on_a_channel_of_its_own() -> None:
    result = publish_later("a", run_after=HOUR, channel="later")

    assert Message.objects.get(pk=result.id).channel == "later"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"event": "a..b"}, "topic='a..b'"),
        ({"payload": object()}, "payload of the event 'a'"),
        ({"key": "k" * 1001}, "key='kkk"),
        ({"metadata": 5}, "metadata=5"),
        ({"run_after": "soon"}, "run_after='soon'"),
        ({"run_after": datetime(2030, 1, 1)}, "run_after=.*time zone"),
        ({"run_after": timedelta(days=40_000)}, "run_after=.*hundred years"),
        ({"channel": ""}, "channel=''"),
        ({"database": "gone"}, "database='gone'"),
    ],
)
def test_what_can_not_be_is_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidEvent, match=said):
        publish_later(**{"event": "a", "run_after": 0, **options})

    assert not Message.objects.exists()
