"""Tests of the event log: on real connections, and each begins with an empty log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.db import connections
from django.db.migrations.state import ProjectState
from pytest_django import DjangoDbBlocker

from pgqueue.database.connections import Contact
from pgqueue.duties.dispatch import Dispatch
from pgqueue.duties.run import run_duty
from pgqueue.engine import duty, sequence
from pgqueue.events import growth, subscribing
from pgqueue.operations import IndexKeys
from tests.engine.conftest import (  # noqa: F401
    broom,
    connect,
    connection,
    other,
    step,
    transactional_db,
)
from tests.factories import LEASE
from tests.feeding import by_wal, feeding, in_environment, slot_made

Connection = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _every_test_commits(transactional_db: None) -> None:  # noqa: F811
    pass


@pytest.fixture(scope="session")
def _slot(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """With `--feed wal`: a slot for this process's tests, and their processes are told of it."""
    if request.config.getoption("feed") == "poll":
        yield
        return
    with (
        django_db_blocker.unblock(),
        by_wal(),
        slot_made(),
        patch.dict(os.environ, in_environment()),
    ):
        yield


@pytest.fixture(autouse=True)
def _feed(
    request: pytest.FixtureRequest,
    _slot: None,
    transactional_db: None,  # noqa: F811
) -> Iterator[None]:
    """With `--feed wal`: the WAL is followed, except in tests of what happens without that."""
    if request.config.getoption("feed") == "poll" or request.node.get_closest_marker("polled"):
        yield
        return
    with by_wal(), feeding():
        yield


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
def indexed_by_keys() -> Iterator[None]:
    """Have the indexes of IndexKeys on the log and its inbox."""
    operation, state = IndexKeys(), ProjectState()
    with connections["default"].schema_editor() as editor:
        operation.database_forwards("shop", editor, state, state)
    try:
        yield
    finally:
        with connections["default"].schema_editor() as editor:
            operation.database_backwards("shop", editor, state, state)


@contextmanager
def dispatching(connection: Connection) -> Iterator[Callable[[], None]]:  # noqa: F811
    """Begin as a worker does; return what dispatches all events that are there."""
    own = Dispatch(database="default", subscribing=subscribing)

    def dispatch() -> None:
        duty.due(connection, ["dispatch"])
        sequence.catch_up(connection)
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
