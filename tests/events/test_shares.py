"""How the partitions of a group are shared by its readers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from pgqueue.engine import groups, readers

Connection = psycopg.Connection[Any]


class Reader:
    """One that does what a `GroupReader` does between two batches."""

    def __init__(self, connection: Connection, id: UUID) -> None:
        self.connection = connection
        self.id = id
        self.held: set[int] = set()

    def rebalance(self) -> None:
        readers.beat(self.connection, self.id, group="g")
        excess = groups.excess(self.connection, "g", has=len(self.held))
        given = sorted(self.held)[len(self.held) - excess :]
        groups.release(self.connection, "g", self.id, given)
        self.held -= set(given)
        taken = groups.take(self.connection, "g", self.id, held=self.held)
        self.held |= {each.number for each in taken}


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_each_reader_has_its_share_however_they_come(
    connection: Connection, partitions: int, count: int
) -> None:
    with connection.transaction():
        groups.make_group(connection, "g", partitions=partitions, position=0)
    present: list[Reader] = []

    for _ in range(count):
        present.append(Reader(connection, uuid4()))
        for _ in range(4):
            for each in present:
                each.rebalance()

    sizes = sorted(len(each.held) for each in present)
    assert sum(sizes) == partitions
    assert sizes[-1] - sizes[0] <= 1
    before = [set(each.held) for each in present]
    for each in present:
        each.rebalance()
    assert [each.held for each in present] == before


def test_what_a_reader_had_that_died_is_shared_once_it_was_silent_for_a_lease(
    connection: Connection,
) -> None:
    with connection.transaction():
        groups.make_group(connection, "g", partitions=4, position=0)
    present = [Reader(connection, uuid4()) for _ in range(3)]
    for _ in range(2):
        for each in present:
            each.rebalance()
    dead = present.pop()
    connection.execute(
        "UPDATE pgqueue_reader SET last_seen = last_seen - %s WHERE id = %s",
        [timedelta(seconds=11), dead.id],
    )
    connection.execute(
        "UPDATE pgqueue_cursor SET lease_until = lease_until - %s WHERE reader_id = %s",
        [timedelta(seconds=11), dead.id],
    )

    for each in present:
        each.rebalance()

    assert [len(each.held) for each in present] == [2, 2]


def test_what_a_dead_reader_has_until_far_in_the_future_is_shared_after_a_lease(
    connection: Connection,
) -> None:
    """The server's clock was an hour ahead while that reader lived."""
    with connection.transaction():
        groups.make_group(connection, "g", partitions=4, position=0)
    dead, alive = Reader(connection, uuid4()), Reader(connection, uuid4())
    dead.rebalance()
    assert len(dead.held) == 4
    connection.execute(
        "UPDATE pgqueue_cursor SET lease_until = lease_until + interval '1 hour'; "
        "UPDATE pgqueue_reader SET last_seen = last_seen + interval '1 hour'"
    )

    alive.rebalance()  # which may not take them from one that lives

    assert alive.held == set()
    connection.execute("UPDATE pgqueue_cursor SET lease_until = lease_until - %s", [groups.LEASE])
    alive.rebalance()
    assert len(alive.held) == 4
