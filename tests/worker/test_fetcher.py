"""What the fetcher claims ahead of the threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from pgqueue.claiming.presence import Presence
from pgqueue.connections import Session
from pgqueue.engine.workers import Registration
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.fetcher import PAYLOADS, Fetcher
from pgqueue.worker.held import Held, Holding
from tests.factories import store

pytestmark = pytest.mark.django_db(transaction=True)

MEGABYTE = 1024 * 1024


@contextmanager
def deaf_fetcher(buffer: Buffer, holding: Holding) -> Iterator[Fetcher]:
    """A fetcher to which no notification comes."""
    registration = Registration(
        host="here", pid=1, started_at=datetime.now(UTC), channels=None, excluded=[], info={}
    )
    with closing(Session("default", name="fetcher")) as session:
        yield Fetcher(
            session,
            buffer,
            holding,
            Presence(registration, notify_for=timedelta(seconds=20)),
            channels=None,
            excluded=[],
            threads=8,
            lease=timedelta(seconds=30),
            poll_interval=timedelta(seconds=5),
            is_listening=lambda: False,
        )


def claims(buffer: Buffer, holding: Holding) -> Iterator[list[Held]]:
    """Yield what each tick of a fetcher brings, as threads would take it at once."""
    with deaf_fetcher(buffer, holding) as fetcher:
        while not fetcher.is_idle:
            fetcher.tick()
            taken = [held for _ in range(len(buffer)) if (held := buffer.take())]
            for held in taken:
                holding.drop(held)
            if taken:
                yield taken


def test_large_payloads_are_claimed_a_few_at_a_time() -> None:
    text = '"' + "x" * MEGABYTE + '"'
    for _ in range(10):
        store(connection, payloads=[text] * 20)

    sizes = [len(taken) for taken in claims(Buffer(on_low=int), Holding())]

    assert sum(sizes) == 200
    # The threads would have run more, but no more fits.
    assert PAYLOADS // MEGABYTE // 2 < max(sizes) <= PAYLOADS // MEGABYTE


def test_small_ones_are_claimed_by_the_hundred() -> None:
    store(connection, payloads=["{}"] * 5000)

    sizes = [len(taken) for taken in claims(Buffer(on_low=int), Holding())]

    assert sum(sizes) == 5000
    assert max(sizes) == 500


def test_naps_double_while_there_is_nothing_and_begin_anew_behind_a_message() -> None:
    with deaf_fetcher(Buffer(on_low=int), Holding()) as fetcher:
        idle = [fetcher.tick().total_seconds() for _ in range(8)]
        store(connection)
        found, after = fetcher.tick(), fetcher.tick()

    assert idle == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    assert (found, after) == (timedelta(), timedelta(seconds=0.01))
