"""A batch takes its locks in one order, whatever order its parts were collected in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from pgqueue import batch
from pgqueue.batches import Batch
from pgqueue.connections import connect as open_connection
from tests import jobs
from tests.eventually import eventually
from tests.factories import Connection, limit, one, store

pytestmark = pytest.mark.django_db(transaction=True)

WITHIN = 20.0

Collect = Callable[[Batch, str], object]
Take = Callable[[Connection, str], object]


@pytest.fixture
def first() -> Iterator[Connection]:
    with open_connection("default", name="first") as connection:
        yield connection


@pytest.fixture
def third() -> Iterator[Connection]:
    with open_connection("default", name="third") as connection:
        connection.execute("SET lock_timeout = '2s'")
        yield connection


def save_policy(connection: Connection, key: str) -> None:
    connection.execute(
        "INSERT INTO pgqueue_policy (channel, scope, key, weight) VALUES ('default', 'key', %s, 1)",
        [key],
    )


@pytest.mark.parametrize(
    ("collect", "take"),
    [
        (lambda work, key: work.policy("default", key=key, weight=2), save_policy),
        (
            lambda work, key: work.enqueue(jobs.add.using(key=key, ordered=True), 1),
            lambda connection, key: store(connection, key, ordered=True),
        ),
        (
            lambda work, key: work.enqueue(jobs.add.using(channel="bounded", key=key), 1),
            lambda connection, key: store(connection, key, channel="bounded"),
        ),
    ],
    ids=["policies", "order", "sizes"],
)
def test_who_waits_for_the_first_has_none_of_those_behind_it(
    first: Connection, third: Connection, collect: Collect, take: Take
) -> None:
    limit("bounded", max_size=9)

    def apply() -> None:
        try:
            with batch() as work:
                collect(work, "b")
                collect(work, "a")
        finally:
            connections.close_all()

    with ThreadPoolExecutor() as threads:
        with first.transaction():
            take(first, "a")
            applied = threads.submit(apply)
            eventually(lambda: is_waited_for(third, first), within=WITHIN)

            with third.transaction(force_rollback=True):
                take(third, "b")

        applied.result(WITHIN)


def is_waited_for(observer: Connection, holder: Connection) -> Any:
    (is_blocked,) = one(
        observer,
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid)))",
        holder.info.backend_pid,
    )
    return is_blocked
