"""A loop that lives on whatever its ticks come to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from pgqueue import signals
from pgqueue.connections import Session
from pgqueue.service import LONGEST_BACKOFF, Service


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
