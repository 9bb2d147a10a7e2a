"""A loop that lives on whatever its ticks come to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import monotonic

import pytest
from django.db import connection

from pgqueue import signals
from pgqueue.database.connections import Session
from pgqueue.threads.service import LONGEST_BACKOFF, Service
from tests.eventually import eventually


class Fails(Service):
    """Ticks that fail a number of times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = times

    def tick(self) -> timedelta:
        self._left -= 1
        if self._left >= 0:
            raise ConnectionError("gone")
        self._left = 1
        return timedelta()


@pytest.mark.django_db  # A tick closes old connections, and another test may have left one open.
def test_a_service_that_fails_comes_back_later_each_time_and_soon_once_it_did_not() -> None:
    heard: list[BaseException] = []
    signals.service_failed.connect(hear := lambda error, **kwargs: heard.append(error))
    service = Fails(10)

    naps = [service._try_tick() for _ in range(12)]

    signals.service_failed.disconnect(hear)
    for n, nap in enumerate(naps[:10]):
        backoff = min(timedelta(seconds=0.2) * 2**n, LONGEST_BACKOFF)
        assert backoff / 2 <= nap <= backoff
    assert naps[10] == timedelta()
    assert naps[11] <= timedelta(seconds=0.2)
    assert len(heard) == 11


class Asks(Service):
    """Ticks that use the ORM, as receivers of signals may."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._then = then
        self.was_open: list[bool] = []

    def tick(self) -> timedelta:
        self.was_open.append(connection.connection is not None)
        connection.ensure_connection()
        self._then()
        return timedelta()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("then", [lambda: None, lambda: 1 / 0], ids=["well", "failing"])
def test_what_receivers_open_is_closed_as_conn_max_age_says(
    monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]
) -> None:
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    connection.close()
    service = Asks(then)

    for _ in range(2):
        service._try_tick()

    assert service.was_open == [False, False]


class Writes(Service):
    """Ticks that write to the database, once it is read-only."""

    def __init__(self) -> None:
        super().__init__()
        self._session = Session("default", name="test")
        self._session.connection.execute("SET default_transaction_read_only = on")

    def tick(self) -> timedelta:
        self._session.connection.execute("UPDATE pgqueue_duty SET due_at = due_at")
        return timedelta()


@pytest.mark.django_db
def test_a_service_leaves_a_server_that_has_become_read_only() -> None:
    service = Writes()

    first, second = service._try_tick(), service._try_tick()

    service._session.close()
    assert first > timedelta()
    assert second == timedelta()


class Hears(Fails):
    """Is woken all the time."""

    def rest(self, nap: timedelta) -> None:
        """Nap for no time."""


def test_what_wakes_a_service_ends_no_nap_after_a_failure() -> None:
    service = Hears(1000)
    began = monotonic()

    service.start()
    eventually(lambda: service._failures >= 4)
    took = monotonic() - began
    service.stop()

    assert service.stopped(timedelta(seconds=5))
    assert took >= (0.2 + 0.4 + 0.8) / 2


@pytest.mark.parametrize("end", [Service.stop, Service.try_again])
def test_who_stops_it_or_hurries_it_does(end: Callable[[Service], None]) -> None:
    service = Fails(1000)
    service._failures = 100
    service.start()
    eventually(lambda: service._failures == 101)
    began = monotonic()

    end(service)

    eventually(lambda: service._failures == 102 or not service.is_alive())
    took = monotonic() - began
    service.stop()
    assert service.stopped(timedelta(seconds=5))
    assert took < LONGEST_BACKOFF.total_seconds() / 2
