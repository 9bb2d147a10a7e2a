"""Transactions that are not flushed, and a crash that loses them."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from uuid import uuid4

from pgqueue.engine import claim, route, settle
from tests.chaos.harness.server import Server
from tests.engine.flow_graphs import Graph
from tests.factories import Connection, done


def test_a_crash_that_loses_a_route_restores_its_bells(server: Server) -> None:
    # Nobody else flushes the WAL in the meantime.
    server.settings |= {"wal_writer_delay": "10s", "autovacuum": "off"}
    server.start()
    with closing(server.connect()) as connection:
        child = Graph(connection, {"p": "", "c": "p"}).ids["c"]
        [first] = claim.claim_at_once(
            connection, "default", limit=1, worker_id=uuid4(), lease=timedelta(minutes=1)
        )
        settle.complete(connection, [done(first)])
        assert route.route(connection, after=0)
        assert state(connection, child) == "ready"

        server.stop("immediate")
        server.start()

    with closing(server.connect()) as connection:
        assert state(connection, child) == "held", "the route was flushed"
        assert route.look(connection, after=0).has_rung
        assert route.route(connection, after=0)
        assert state(connection, child) == "ready"


def state(connection: Connection, id: int) -> str:
    row = connection.execute("SELECT state FROM pgqueue_message WHERE id = %s", [id]).fetchone()
    return str(row and row[0])
