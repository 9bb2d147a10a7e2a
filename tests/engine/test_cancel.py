"""Whom a request to cancel notifies."""

from __future__ import annotations

from uuid import uuid4

import pytest

from pgqueue.engine import cancel, notifications
from tests.factories import Connection, Listening, bury, enqueue, run, schedule


@pytest.fixture
def listening(other: Connection) -> Listening:
    return Listening(other, notifications.listen_for_cancels)


def test_each_worker_that_runs_some_of_the_messages_is_notified_once(
    connection: Connection, listening: Listening
) -> None:
    first, second, third = uuid4(), uuid4(), uuid4()
    of_first = run(connection, 3, worker_id=first)
    of_second = run(connection, 2, worker_id=second)
    run(connection, worker_id=third)

    cancel.cancel(connection, [each.id for each in (*of_first, *of_second)])

    assert sorted(listening.heard()) == sorted([str(first), str(second)])


def test_no_worker_is_notified_of_messages_that_do_not_run(
    connection: Connection, listening: Listening
) -> None:
    ids = [*bury(connection), *enqueue(connection), *schedule(connection)]

    ended = cancel.cancel(connection, ids).ended

    assert (len(ended), listening.heard()) == (2, [])


def test_a_request_that_is_repeated_is_notified_again(
    connection: Connection, listening: Listening
) -> None:
    (claim,) = run(connection)

    heard = []
    for _ in range(2):
        cancel.cancel(connection, [claim.id])
        heard.append(listening.heard())

    assert heard == [[str(claim.worker_id)]] * 2


def test_the_notification_comes_with_the_commit(
    connection: Connection, listening: Listening
) -> None:
    (claim,) = run(connection)

    with connection.transaction():
        cancel.cancel(connection, [claim.id])
        before = listening.heard()

    assert (before, listening.heard()) == ([], [str(claim.worker_id)])
