"""Tests of the event log: on real connections, and each begins with an empty log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connections

from pgqueue.connections import Contact
from pgqueue.duties.dispatch import Dispatch
from pgqueue.duties.run import run_duty
from pgqueue.engine import duty
from pgqueue.events import growth, subscribing
from tests.engine.conftest import (  # noqa: F401
    broom,
    connect,
    connection,
    other,
    step,
    transactional_db,
)
from tests.factories import LEASE

Connection = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _every_test_commits(transactional_db: None) -> None:  # noqa: F811
    pass


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    """Forget this process's wish to be notified: its row is swept away with the tables."""
    yield
    growth.forget_all()


@pytest.fixture
def django_connection(transactional_db: None) -> Any:  # noqa: F811
    """Django's connection of this thread."""
    return connections["default"]


@contextmanager
def dispatching(connection: Connection) -> Iterator[Callable[[], None]]:  # noqa: F811
    """Begin as a worker does; return what dispatches all events that are there."""
    own = Dispatch(database="default", subscribing=subscribing)

    def dispatch() -> None:
        duty.due(connection, ["dispatch"])
        own.look(connection)
        while run_duty(connection, own, contact=Contact(lease=LEASE), early=True) == timedelta():
            pass

    dispatch()
    try:
        yield dispatch
    finally:
        own.close()


@pytest.fixture
def dispatch(connection: Connection) -> Iterator[Callable[[], None]]:  # noqa: F811
    """A function that dispatches all events that are there."""
    with dispatching(connection) as dispatch:
        yield dispatch
