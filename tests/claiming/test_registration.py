"""The row of a process that claims, whatever becomes of the connections that it claims on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgqueue.claiming.registration import Registration
from pgqueue.database.connections import connect
from pgqueue.engine import culprits, health
from pgqueue.engine.values import Connection
from pgqueue.engine.workers import WorkerInfo
from pgqueue.models import Worker
from tests.factories import claim, enqueue, refusing

pytestmark = pytest.mark.django_db(transaction=True)


class Dying:
    """A connection that is lost with a statement: before that took effect, or after."""

    def __init__(self, connection: Connection, moment: str) -> None:
        self._connection = connection
        self._moment = moment

    def execute(self, *arguments: Any) -> None:
        if self._moment == "after":
            self._connection.execute(*arguments)
        raise psycopg.OperationalError("the connection is lost")


@pytest.fixture(autouse=True)
def _none_left_out() -> Iterator[None]:
    yield
    culprits.forget_all()


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture
def registration() -> Registration:
    info = WorkerInfo(
        host="", pid=1, started_at=datetime.now(UTC), channels=None, excluded=(), info={}
    )
    return Registration(info, notify_for=timedelta(seconds=20))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_it_has_one_row_whatever_became_of_a_registration(
    connection: Connection, registration: Registration, moment: str
) -> None:
    registration.register(connection)
    with pytest.raises(psycopg.OperationalError):
        registration.register(Dying(connection, moment))
    registration.beat(connection)

    worker_id = registration.register(connection)

    assert list(Worker.objects.values_list("id", flat=True)) == [worker_id]


def test_it_tells_how_many_rows_are_left_out(
    connection: Connection, registration: Registration, monkeypatch: pytest.MonkeyPatch
) -> None:
    culprits.forget_all()
    registration.register(connection)
    first, *_ = enqueue(connection, 3)
    with refusing(connection, "pgqueue_message", f"OLD.id = {first}", "UPDATE"):
        claims = claim(connection, limit=10)
    assert len(claims) == 2

    registration.beat(connection)

    assert health.workers(connection)[0].left_out == 1
    monkeypatch.setattr(culprits, "AGAIN", 0.0)
    for rows in culprits._left_out.values():
        rows[first] = 0.0  # its time was over long ago
    registration.beat(connection)
    assert health.workers(connection)[0].left_out == 0


@pytest.mark.parametrize("moment", ["before", "after"])
def test_it_leaves_no_row_whatever_became_of_a_registration(
    connection: Connection, registration: Registration, moment: str
) -> None:
    registration.register(connection)
    with pytest.raises(psycopg.OperationalError):
        registration.register(Dying(connection, moment))

    registration.retire(connection)

    assert not Worker.objects.exists()


def test_a_heartbeat_does_not_wait_for_one_that_says_the_same(
    connection: Connection, registration: Registration
) -> None:
    # Else a connection that says nothing would keep all leases from being renewed.
    registration.register(connection)
    asked, answer = threading.Event(), threading.Event()

    class Silent:
        info = connection.info

        def execute(self, *arguments: Any) -> Any:
            asked.set()
            answer.wait(30)
            return connection.execute(*arguments)

    fetcher = threading.Thread(target=registration.want_notice, args=[Silent(), True])
    fetcher.start()
    assert asked.wait(10)

    heartbeat = threading.Thread(target=registration.beat, args=[connection], daemon=True)
    heartbeat.start()
    heartbeat.join(5)
    went_on = not heartbeat.is_alive()
    answer.set()
    fetcher.join()
    assert went_on


def test_a_beat_says_for_how_long_no_thread_has_been_free(connection: Connection) -> None:
    info = WorkerInfo(
        host="", pid=1, started_at=datetime.now(UTC), channels=None, excluded=(), info={}
    )
    busy = Registration(info, notify_for=timedelta(seconds=20))
    busy.register(connection)

    busy.beat(connection, busy_for=600.0)

    assert Worker.objects.get().info["busy_for"] == 600
