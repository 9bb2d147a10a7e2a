"""Tests of the event log: on real connections, and each begins with an empty log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connections

from pgqueue.connections import connect as open_connection
from pgqueue.events import growth
from tests.engine.conftest import broom, step, transactional_db  # noqa: F401

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
def connect(transactional_db: None) -> Iterator[Callable[..., Connection]]:  # noqa: F811
    """A function that opens a connection such as a worker's."""
    opened: list[Connection] = []

    def connect(alias: str = "default") -> Connection:
        connection = open_connection(alias, name="test")
        connection.execute("SET lock_timeout = '20s'")
        opened.append(connection)
        return connection

    yield connect
    for each in opened:
        each.close()


@pytest.fixture
def connection(connect: Callable[..., Connection]) -> Connection:
    """A connection such as a worker's."""
    return connect()


@pytest.fixture
def other(connect: Callable[..., Connection]) -> Connection:
    """A second one."""
    return connect()


@pytest.fixture
def django_connection(transactional_db: None) -> Any:  # noqa: F811
    """Django's connection of this thread."""
    return connections["default"]
