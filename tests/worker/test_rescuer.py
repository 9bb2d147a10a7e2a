"""Who takes away what processes held that died: it goes on until nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from unittest.mock import PropertyMock, patch

import pytest
from psycopg import OperationalError

from pgqueue import signals
from pgqueue.claiming.registration import WorkerIds
from pgqueue.database.connections import Session, connect
from pgqueue.models import Message
from pgqueue.states import State
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.rescuer import Rescuer
from pgqueue.worker.supervisor import Supervisor
from tests.eventually import eventually
from tests.factories import SOON, run
from tests.hearing import heard

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def rescuer() -> Iterator[Rescuer]:
    rescuer = Rescuer("default")
    rescuer.start()
    yield rescuer
    rescuer.stop()
    assert rescuer.stopped(timedelta(seconds=10))


@pytest.fixture
def dead() -> WorkerIds:
    """One that died, with a message whose lease lasts."""
    ids = WorkerIds()
    with closing(connect("default", name="test")) as connection:
        run(connection, worker_id=ids.next(), lease=SOON)
    return ids


def is_rescued() -> bool:
    return Message.objects.filter(state=State.READY, lost=1).exists()


def test_it_tries_again_where_the_database_is_away(rescuer: Rescuer, dead: WorkerIds) -> None:
    with (
        patch.object(Session, "connection", PropertyMock(side_effect=OperationalError("away"))),
        heard(signals.service_failed, "service") as failures,
    ):
        rescuer.rescue_from(dead)
        eventually(lambda: len(failures) > 1)

    eventually(is_rescued)


def test_it_tries_again_where_a_message_is_locked_for_long(
    rescuer: Rescuer, dead: WorkerIds
) -> None:
    with closing(connect("default", name="test")) as other, other.transaction():
        other.execute("SELECT FROM pgqueue_message FOR UPDATE")
        rescuer.rescue_from(dead)
        eventually(lambda: rescuer._dead and rescuer._dead[0].pause > 1)

    eventually(is_rescued)


def test_it_looks_again_for_what_was_carried_out_late(rescuer: Rescuer) -> None:
    # What a process had sent last, the server may read when that is dead.
    ids = WorkerIds()
    rescuer.rescue_from(ids)
    eventually(lambda: rescuer._dead[0].pause)
    with closing(connect("default", name="test")) as connection:
        run(connection, worker_id=ids.next(), lease=SOON)

    eventually(is_rescued)


def test_a_supervisor_s_own_rescues_by_leases_too() -> None:
    def with_duties(duties: bool) -> Rescuer:
        config = WorkerConfig(
            database="default", threads=1, grace=timedelta(), processes=2, duties=duties
        )
        supervisor = Supervisor(config)
        supervisor._requests.close()
        return supervisor._rescuer

    assert with_duties(True)._duties is not None
    assert with_duties(False)._duties is None


def test_it_forgets_who_has_nothing_any_more(rescuer: Rescuer, dead: WorkerIds) -> None:
    rescuer.rescue_from(dead)

    eventually(lambda: not rescuer._dead)
    assert is_rescued()
