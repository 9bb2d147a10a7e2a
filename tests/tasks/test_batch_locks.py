"""Who stores many things waits for others in one order, whatever order they were given in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from pgqueue import Flow, batch, flow, send_many
from pgqueue.database.connections import connect as open_connection
from pgqueue.models import Message
from pgqueue.operating.batches import Batch
from pgqueue.tasks import definition, sending
from tests import jobs
from tests.eventually import eventually
from tests.factories import Connection, limit, store
from tests.stepping import is_waited_for

pytestmark = pytest.mark.django_db(transaction=True)

WITHIN = 20.0

Collect = Callable[[Any, str], object]
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


def a_flow() -> Flow:
    return flow("some")


# By their priorities, those of two keys are stored one after the other.
POLICIES = (lambda work, key: work.policy("default", key=key, weight=2), save_policy)
ORDER = (
    lambda work, key: work.enqueue(jobs.add.using(key=key, ordered=True, priority=ord(key)), 1),
    lambda connection, key: store(connection, key, ordered=True),
)
# The lock of "a" comes before that of "b" here, as for the order of the channel "default".
SIZES = (
    lambda work, key: work.enqueue(
        jobs.add.using(channel="limited", key=key, priority=ord(key)), 1
    ),
    lambda connection, key: store(connection, key, channel="limited"),
)


@pytest.mark.parametrize(
    ("collected", "collect", "take"),
    [(batch, *POLICIES), (batch, *ORDER), (batch, *SIZES), (a_flow, *ORDER), (a_flow, *SIZES)],
    ids=["policies", "order", "sizes", "order of a flow", "sizes of a flow"],
)
def test_who_waits_for_the_first_has_none_of_those_behind_it(
    first: Connection,
    third: Connection,
    collected: Callable[[], Batch | Flow],
    collect: Collect,
    take: Take,
) -> None:
    limit("limited", max_size=9)

    def apply() -> None:
        with collected() as work:
            collect(work, "b")
            collect(work, "a")

    with ThreadPoolExecutor() as threads:
        with first.transaction():
            take(first, "a")
            applied = threads.submit(in_thread, apply)
            eventually(lambda: is_waited_for(third, first), within=WITHIN)

            with third.transaction(force_rollback=True):
                take(third, "b")

        applied.result(WITHIN)


def collect(*dedupe_keys: str) -> None:
    with batch() as work:
        for key in dedupe_keys:
            work.enqueue(jobs.add.using(dedupe_key=key, priority=len(key)), 1)


def enqueue_many(*dedupe_keys: str) -> None:
    jobs.add.using(dedupe_key=str).enqueue_many([(key,) for key in dedupe_keys])


def send_all(*dedupe_keys: str) -> None:
    send_many("default", dedupe_keys, dedupe_key=str)


@pytest.mark.parametrize("produce", [collect, enqueue_many, send_all])
def test_dedupe_keys_are_waited_for_in_their_order(
    first: Connection,
    third: Connection,
    produce: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(definition, "BATCH", 1)
    monkeypatch.setattr(sending, "BATCH", 1)
    once = jobs.add.using(connection=first)
    with ThreadPoolExecutor() as threads:
        with first.transaction():
            once.using(dedupe_key="B").enqueue(0)
            produced = threads.submit(in_thread, produce, "zz", "a", "B")
            eventually(lambda: is_waited_for(third, first), within=WITHIN)
            once.using(dedupe_key="zz").enqueue(0)  # a deadlock, had the producer stored it

        produced.result(WITHIN)

    assert Message.objects.count() == 3


def in_thread(verb: Callable[..., None], *arguments: str) -> None:
    try:
        verb(*arguments)
    finally:
        connections.close_all()
