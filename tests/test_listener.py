"""What listens: it misses nothing, and waits without turning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from pgqueue.connections import Session
from pgqueue.engine import notifications
from pgqueue.listener import Listener
from tests.eventually import eventually
from tests.factories import Connection

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
NOTIFY = "SELECT pg_notify(pgqueue_notifications_v1(), 'said')"


@contextmanager
def listening(
    heard: list[str | None], between: Callable[[Connection], timedelta]
) -> Iterator[Listener]:
    listener = Listener(
        Session("default", name="ear"),
        listen=notifications.listen,
        heard=heard.append,
        between=between,
    )
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
            connection.execute(NOTIFY)  # who notifies himself hears it as it commits
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
