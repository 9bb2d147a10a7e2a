"""The engine meets a real PostgreSQL, in as many sessions as a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from pgqueue.database.connections import connect as open_connection
from tests.stepping import Step, Stepper

Connection = psycopg.Connection[Any]

TABLES = (
    *("message", "history", "worker", "channel", "duty"),
    *("policy", "lane", "gate", "bell", "waiter", "dedupe"),
    *("purged", "schedule", "log_floor", "export", "staged", "write", "backfill"),
    *("event_inbox", "event", "reader", "group", "cursor", "webhook", "subscription"),
    *("tally", "tally_batch", "statistic", "total", "tenant_total"),
    *("flow", "dependency", "blocked", "failed_member", "operation"),
    *("step", "signal", "event_wait", "run_log", "append_lock", "task_pause", "breaker"),
)


@pytest.fixture(scope="session")
def broom(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Connection]:
    """What sweeps the tables."""
    with django_db_blocker.unblock():
        assert "test" in connections["default"].settings_dict["NAME"]
        broom = open_connection("default", name="broom")
    broom.execute("SET lock_timeout = '20s'")
    yield broom
    broom.close()


@pytest.fixture
def transactional_db(broom: Connection, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database where tests commit, as by pytest-django, but tidied up otherwise.

    Django's way, a TRUNCATE of every table in the project, takes 0.3 s: longer than most of
    these tests. Theirs are emptied by DELETE.
    """
    with django_db_blocker.unblock():
        yield
        for each in connections.all(initialized_only=True):
            each.close()
        broom.execute("; ".join(f"DELETE FROM pgqueue_{table}" for table in TABLES))  # noqa: S608


@pytest.fixture(autouse=True)
def _every_test_commits(transactional_db: None) -> None:
    pass


@pytest.fixture
def connect(transactional_db: None) -> Iterator[Callable[..., Connection]]:
    """A function that opens a connection such as a worker's, to `default` or another alias."""
    opened: list[Connection] = []

    def connect(alias: str = "default") -> Connection:
        connection = open_connection(alias, name="test")
        # What waits for another session of its own test would do so for ever.
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
def third(connect: Callable[..., Connection]) -> Connection:
    """A third one."""
    return connect()


@pytest.fixture
def step(connect: Callable[..., Connection]) -> Iterator[Callable[..., Step]]:
    """A function that starts a verb in a thread: `step(verb, connection, …)`."""
    with Stepper(observer=connect()) as stepper:
        yield stepper.start
