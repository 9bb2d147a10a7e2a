"""A driver's row in the database, and what its workers read there. No Spark is needed for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db.models import F

from pgqueue.cluster.driver import Driver
from pgqueue.cluster.presence import Presence
from pgqueue.engine.workers import WorkerInfo
from pgqueue.models import Worker

pytestmark = pytest.mark.django_db(transaction=True)

LEASE = timedelta(seconds=0.2)
HOUR = timedelta(hours=1)


@pytest.fixture
def presence() -> Iterator[Presence]:
    info = WorkerInfo(
        host="a",
        pid=1,
        started_at=datetime.now(UTC),
        channels=[],
        excluded=[],
        info={"master": "yarn"},
    )
    presence = Presence("default", uuid4(), info, every=HOUR)
    yield presence
    presence.finish()


def seen_by(id: UUID, *, lease: timedelta = HOUR) -> Driver:
    return Driver("default", id, lease=lease)


@pytest.fixture
def driver(presence: Presence) -> Iterator[Driver]:
    """The driver as a worker sees it, which takes it for gone after a lease of 0.2 s."""
    presence.tick()
    driver = seen_by(presence._id, lease=LEASE)
    yield driver
    driver.finish()
    driver.close()


def test_a_driver_says_what_it_is(presence: Presence) -> None:
    presence.tick()

    row = Worker.objects.get()
    assert (row.channels, row.info) == ([], {"master": "yarn", "stop": 0})


@pytest.mark.parametrize("times", [1, 2])
def test_its_workers_hear_that_they_are_to_stop(
    presence: Presence, driver: Driver, times: int
) -> None:
    driver.tick()
    before = driver.requests

    presence.ask_to_stop(times)
    presence.tick()
    driver.tick()

    assert (before, driver.requests) == (0, times)


def test_a_request_outlives_the_driver_s_row(presence: Presence, driver: Driver) -> None:
    presence.ask_to_stop(1)
    presence.tick()
    Worker.objects.all().delete()

    presence.tick()
    driver.tick()

    assert driver.requests == 1


def be_silent() -> None:
    Worker.objects.update(last_seen=F("last_seen") - HOUR)


def remove_row() -> None:
    Worker.objects.all().delete()


@pytest.mark.parametrize("leave", [be_silent, remove_row])
def test_a_driver_that_is_silent_or_has_no_row_is_gone_after_a_lease(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, leave: Callable[[], None]
) -> None:
    clock = 100.0
    monkeypatch.setattr("pgqueue.cluster.driver.monotonic", lambda: clock)
    leave()
    driver.tick()
    at_first = driver.requests
    clock += LEASE.total_seconds()
    driver.tick()

    assert (at_first, driver.requests) == (0, 1)


def test_a_driver_is_not_gone_that_could_not_say_a_word_while_the_database_was_away(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 100.0
    monkeypatch.setattr("pgqueue.cluster.driver.monotonic", lambda: clock)
    be_silent()
    driver.tick()
    clock += LEASE.total_seconds()
    with monkeypatch.context() as patch, pytest.raises(psycopg.OperationalError):
        patch.setattr(driver._session, "_connection", None)
        patch.setattr("pgqueue.database.connections._open", _fail)
        driver.tick()
    driver.tick()

    assert driver.requests == 0


def _fail(alias: str, name: str) -> None:
    raise psycopg.OperationalError("away")


def test_a_request_wakes_who_waits_for_it(presence: Presence, driver: Driver) -> None:
    from pgqueue.worker.stopping import StopRequests

    requests = StopRequests(driver)
    presence.ask_to_stop(1)
    presence.tick()
    driver.tick()

    requests.wait(timedelta(seconds=60))

    assert requests.count == 1
    requests.close()


def test_who_has_begun_is_looked_up_once_workers_can_know_that_they_are_to_stop(
    presence: Presence,
) -> None:
    told: list[list[UUID]] = []
    presence._on_told = lambda ids: told.append(list(ids))
    presence.tick()
    before = list(told)
    row = Worker.objects.get()
    worker = Worker.objects.create(
        id=uuid4(),
        host="b",
        pid=2,
        started_at=row.started_at,
        last_seen=row.last_seen,
        info={"driver": str(presence._id)},
    )

    presence.ask_to_stop(1)
    presence.tick()

    assert (before, told) == ([], [[worker.pk]])
