"""The listener of a process: it misses nothing, naps while idle, and has one connection for all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from pgqueue import signals
from pgqueue.database.connections import Session
from pgqueue.database.connections import connect as open_connection
from pgqueue.engine import notifications
from pgqueue.exceptions import NothingToHear
from pgqueue.threads import listener as listening_module
from pgqueue.threads.listener import (
    Listener,
    Topic,
    TopicListener,
    subscribe,
)
from tests.eventually import eventually
from tests.factories import Connection
from tests.hearing import heard as hearing

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
NOTIFY = "SELECT pg_notify(pgqueue_notifications_v1(), 'said')"
NEW = Topic(notifications.NEW)
WITHIN = 10.0


def split(text: str) -> tuple[str, str]:
    key, _, news = text.partition(":")
    if not news:
        raise ValueError(f"no colon in {text}")
    return key, news


KEYED = Topic(notifications.NOTICES, read=split)


@pytest.fixture
def connection() -> Iterator[Connection]:
    """A connection that notifies."""
    with open_connection("default", name="test") as connection:
        yield connection


@pytest.fixture
def linger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The listener ends soon after its last subscription."""
    monkeypatch.setattr(listening_module, "LINGER", timedelta(seconds=0.05))
    yield
    eventually(lambda: not listening_module._open)


def backends(connection: Connection) -> list[int]:
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgqueue listener' "
        "AND datname = current_database()"
    )
    return [pid for (pid,) in rows]


def notify(connection: Connection, text: str) -> None:
    connection.execute(
        "SELECT pg_notify(pgqueue_notifications_v1() || %s, %s)", [notifications.NOTICES, text]
    )


def subscribed(heard: list[Any], key: str = "a", **options: Any) -> TopicListener:
    subscription = TopicListener(topic=KEYED, key=key, heard=heard.append, **options)
    subscribe("default", subscription).begun.result(WITHIN)
    return subscription


@contextmanager
def listening(
    heard: list[str | None], between: Callable[[Connection], timedelta]
) -> Iterator[Listener]:
    listener = Listener(Session("default", name="listening"))
    listener.add(TopicListener(topic=NEW, heard=heard.append, between=between))
    listener.start()
    yield listener
    listener.stop()
    assert listener.stopped(timedelta(seconds=10))


def test_what_comes_with_the_answer_to_something_else_is_heard_at_once() -> None:
    heard: list[str | None] = []
    asked: list[None] = []

    def ask(connection: Connection) -> timedelta:
        if not asked:
            asked.append(None)
            connection.execute(NOTIFY)  # a session hears its own notification at the commit
        return HOUR

    with listening(heard, ask):
        eventually(lambda: heard == [None, "said"])


def test_one_that_is_woken_does_once_what_is_to_be_done_and_waits_again() -> None:
    asked: list[None] = []

    def ask(connection: Connection) -> timedelta:
        asked.append(None)
        return HOUR

    with listening([], ask) as listener:
        eventually(lambda: len(asked) == 1)
        for expected in range(2, 5):
            listener.wake()
            eventually(lambda expected=expected: len(asked) >= expected)  # type: ignore[misc]

        assert len(asked) == 4


@pytest.mark.usefixtures("linger")
class TestAllSubscriptionsOfAProcess:
    def test_share_one_connection(self, connection: Connection) -> None:
        heard: list[str | None] = []
        others = [subscribed([], key=f"k{n}") for n in range(1000)]
        same = [subscribed(heard) for _ in range(1000)]

        notify(connection, "a:news")
        eventually(lambda: heard.count("news") == 1000)

        assert len(backends(connection)) == 1
        for each in others + same:
            each.close()
        eventually(lambda: not backends(connection))

    def test_hear_only_what_has_their_key(self, connection: Connection) -> None:
        first: list[str | None] = []
        second: list[str | None] = []
        subscriptions = [subscribed(first, "a"), subscribed(second, "b")]

        for text in ("a:1", "b:2", "c:3", "a:4"):
            notify(connection, text)

        eventually(lambda: first == [None, "1", "4"])
        assert second == [None, "2"]
        for each in subscriptions:
            each.close()

    def test_hear_it_though_one_of_them_raises_or_a_notification_is_not_readable(
        self, connection: Connection
    ) -> None:
        heard: list[str | None] = []

        def fail(news: str | None) -> None:
            raise ValueError("heard")

        with hearing(signals.service_failed, "error") as errors:
            failing = subscribe("default", TopicListener(topic=KEYED, key="a", heard=fail))
            subscription = subscribed(heard)
            notify(connection, "unreadable")
            notify(connection, "a:1")

            eventually(lambda: heard == [None, "1"])

        assert {str(error) for error in errors} == {"heard", "no colon in unreadable"}
        failing.close()
        subscription.close()

    def test_are_told_that_something_may_be_missed_when_the_connection_was_lost(
        self, connection: Connection
    ) -> None:
        heard: list[str | None] = []
        subscription = subscribed(heard)
        (pid,) = backends(connection)

        connection.execute("SELECT pg_terminate_backend(%s)", [pid])

        eventually(lambda: heard == [None, None])
        notify(connection, "a:after")
        eventually(lambda: heard == [None, None, "after"])
        subscription.close()

    def test_leave_a_channel_that_only_a_closed_one_had(self, connection: Connection) -> None:
        heard: list[str | None] = []
        staying = TopicListener(topic=NEW, heard=[].append)
        subscribe("default", staying).begun.result(WITHIN)
        subscription = subscribed(heard)
        listener = staying.listener
        assert listener and len(listener._channels) == 2

        subscription.close()

        eventually(lambda: list(listener._channels.values()) == [NEW])
        notify(connection, "a:late")
        connection.execute(NOTIFY)
        assert heard == [None]
        staying.close()

    def test_learn_what_their_check_raised(self) -> None:
        def check(connection: Connection) -> None:
            raise NothingToHear

        subscription = TopicListener(topic=KEYED, heard=[].append, check=check)

        with pytest.raises(NothingToHear):
            subscribe("default", subscription).begun.result(WITHIN)

        subscription.close()

    def test_have_a_connection_of_their_own_in_a_forked_process(
        self, connection: Connection
    ) -> None:
        heard: list[str | None] = []
        subscription = subscribed(heard)
        connections.close_all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
            child = os.fork()
        if not child:
            in_child: list[str | None] = []
            subscribed(in_child)
            eventually(lambda: "news" in in_child)
            os._exit(in_child.count("news"))

        eventually(lambda: len(backends(connection)) == 2)
        eventually(lambda: notify(connection, "a:news") or os.waitpid(child, os.WNOHANG)[0])
        assert "news" in heard
        subscription.close()
