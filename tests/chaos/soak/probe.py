"""How much the workers can do in a second: a burst, and how long it takes them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

from pgqueue.database.sql_files import load
from tests.chaos.harness.stage import Stage
from tests.chaos.soak.fleet import Fleet
from tests.chaos.soak.verdict import Probe
from tests.eventually import eventually

SQL = load(__name__)
# Who can't get rid of what piled up in a fault within this time has not kept up.
PATIENCE = 60


def configure(connection: psycopg.Connection[Any]) -> None:
    """Make the channels that bursts are on."""
    connection.execute(SQL["configure"])
    connection.execute(SQL["limit"])


def measure(stage: Stage, fleet: Fleet, *, clock: Callable[[], float]) -> Probe:
    """Let the load stand still and all that is ready end; then have a burst done.

    Args:
        clock: tells the seconds from the start of the run.

    Raises:
        AssertionError: they don't get done with one or the other.
    """
    with stage.quiet(), closing(stage.server.connect()) as connection:
        eventually(
            lambda: fleet.serves() and _count(connection, "busy") == 0,
            within=PATIENCE,
            what=stage.what_is_left(),
        )
        at = clock()
        first, count, committed_at = _burst(connection)
        eventually(
            lambda: _count(connection, "left", first=first) == 0,
            within=PATIENCE,
            what=stage.what_is_left(),
        )
        took = dict(
            connection.execute(
                SQL["took"], {"first": first, "committed_at": committed_at}
            ).fetchall()
        )
    each = {channel: round(seconds, 3) for channel, seconds in took.items()}
    return Probe(at, count, max(each.values()), each)


def _burst(connection: psycopg.Connection[Any]) -> tuple[int, int, Any]:
    """Commit it; return its first id, how many there are, and when that was."""
    [(first, count)] = connection.execute(SQL["burst"]).fetchall()
    [(committed_at,)] = connection.execute("SELECT clock_timestamp()").fetchall()
    return first, count, committed_at


def _count(connection: psycopg.Connection[Any], name: str, **values: int) -> int:
    [(count,)] = connection.execute(SQL[name], values).fetchall()
    return int(count)
