"""A message is found wherever it is, also at the moment when it moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection as django_connection
from django.db import transaction

from pgqueue.engine import cancel, dead, lookup, settle
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from tests.factories import Connection, bury, claim, done, enqueue, insert, run, schedule


class TestAMessage:
    @pytest.mark.parametrize("state", State)
    def test_is_found_while_it_lives(self, connection: Connection, state: State) -> None:
        id = insert(connection, state=state)

        found = lookup.find(connection, id)

        assert found
        assert (found.id, found.state) == (id, state)

    def test_is_found_once_it_has_ended(self, connection: Connection) -> None:
        (held,) = run(connection, key="k", payloads=["[1]"], metadata='{"m": 2}', priority=3)
        settle.complete(connection, [done(held, '{"r": 4}', started=0.5, finished=1.5)])

        found = lookup.find(django_connection, held.id)

        ended = History.objects.get()
        assert found
        assert (found.id, found.state, found.result) == (held.id, Outcome.SUCCEEDED, '{"r": 4}')
        assert (found.key, found.payload, found.metadata, found.priority) == (
            "k",
            "[1]",
            '{"m": 2}',
            3,
        )
        assert (found.attempt, found.worker_id) == (1, held.worker_id)
        assert (found.claimed_at, found.started_at, found.finished_at) == (
            ended.claimed_at,
            ended.started_at,
            ended.finished_at,
        )

    def test_is_told_by_every_field_as_its_row_is(self, connection: Connection) -> None:
        (id,) = bury(connection, channel="c", task="t", options='{"o": 1}', max_attempts=9)

        found = lookup.find(django_connection, id)

        row = Message.objects.get()
        assert found
        assert (found.channel, found.task, found.options) == ("c", "t", '{"o": 1}')
        assert (found.failures, found.lost, found.max_attempts) == (1, 0, 9)
        assert (found.run_at, found.created_at) == (row.run_at, row.created_at)
        assert "Oops" in found.errors
        assert found.finished_at is None

    def test_that_never_was_is_not_found(self, connection: Connection) -> None:
        assert lookup.find(connection, 2**62) is None
        assert lookup.find(connection, -1) is None

    def test_that_was_rolled_back_is_not_found(self) -> None:
        with transaction.atomic():
            (id,) = enqueue(django_connection)
            inside = lookup.find(django_connection, id)
            transaction.set_rollback(True)

        assert inside
        assert lookup.find(django_connection, id) is None


def test_a_message_on_the_move_is_always_found_once(
    connect: Callable[..., Connection], connection: Connection
) -> None:
    ids = enqueue(connection, 300) + schedule(connection, 100) + bury(connection, 100, channel="x")
    over = threading.Event()

    def look(mine: Connection) -> int:
        looked = 0
        while not over.is_set() or looked < len(ids):
            id = ids[looked % len(ids)]
            looked += 1
            rows = mine.execute(lookup.SQL["find"], {"ids": [id]}).fetchall()
            assert len(rows) == 1, f"{id} was found {len(rows)} times"
        return looked

    with ThreadPoolExecutor() as threads:
        lookers = [threads.submit(look, connect()) for _ in range(3)]
        try:
            claimed = claim(connection, limit=300)
            for start in range(0, 300, 10):
                batch = claimed[start : start + 10]
                settle.complete(connection, [done(each) for each in batch])
            for start in range(300, 400, 10):
                cancel.cancel(connection, ids[start : start + 10])
            for start in range(400, 500, 10):
                dead.discard(connection, ids[start : start + 10])
        finally:
            over.set()
        looked = sum(looker.result(60) for looker in lookers)

    assert History.objects.count() == len(ids)
    assert looked >= 3 * len(ids)
