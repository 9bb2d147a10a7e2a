"""Clerk and Hatchet: an analyze at a bad moment, or none, turned a claim into a scan of all rows.

Here every statement is planned with the worst statistics of each column: that its values are all
equal, all different, or nearly all NULL. Partitioned tables have none at all, as autovacuum never
analyzes them. Each plan has to read the large tables by the same indexes as with good statistics.

The plans do not depend on statistics for three reasons. A session of pgqueue plans without
sequential scans (`database.connections.SETTINGS`). Each table that grows has the one index that a
statement needs, and the statement names its columns, or its order with a limit. Where two indexes
are near, a condition such as `state || ''` keeps the planner from the wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.engine.test_statements import generic_plan, planned
from tests.factories import Connection

ROWS = 100_000
DAYS = 90
LARGE = "pgqueue_(?:message|history|event|event_inbox|lane|dedupe)"
LIES = {
    "all values are equal": "stadistinct = 1, stanullfrac = 0",
    "all values differ": "stadistinct = -1, stanullfrac = 0",
    "nearly all are NULL": "stadistinct = 1, stanullfrac = 0.999999",
    "some are NULL, and all others differ": "stadistinct = -1, stanullfrac = 0.5",
}
NO_SAMPLES = """
    stakind1 = 0, stakind2 = 0, stakind3 = 0, stakind4 = 0, stakind5 = 0,
    stanumbers1 = NULL, stanumbers2 = NULL, stanumbers3 = NULL,
    stanumbers4 = NULL, stanumbers5 = NULL,
    stavalues1 = NULL, stavalues2 = NULL, stavalues3 = NULL, stavalues4 = NULL, stavalues5 = NULL
"""
"""The most common values and histograms, which would contradict the lie."""
OURS = "starelid IN (SELECT oid FROM pg_class WHERE relname LIKE 'pgqueue%')"
"""Tables, partitions and indexes on expressions."""


EITHER = {
    "claim_governed.mark_urgent": "pgqueue_message_(ordered|running)",
    "route.mark_urgent": "pgqueue_message_(ordered|running)",
    "flows.stale": "pgqueue_message_(flow|dead)",
    "workers.unfinished": "pgqueue_message_(waiting|due)",
    "reencrypt.write_history": "pgqueue_history_(id|finished_at)_idx",
}
"""Statements for which one of two indexes is as good as the other one.

The first two ask whether an ordered message of a lane runs, and both indexes have the lane. `stale`
is a duty that reads the dead letters of flows, and `unfinished` asks for a retry that is delayed.
`write_history` has the id and the end of each row: only the messages of one settle end at one time.
"""
BY_ID = "pgqueue_history_(id|txid_id)_idx"
"""Rows of history by their ids. PostgreSQL 18 skips over the transactions of the second index where
statistics say that there are few: then it is nearly as good, and an analyze corrects them.
"""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {each.id: each.values[0] for each in planned()}


@pytest.fixture
def filled(connection: Connection, connect: Callable[..., Connection]) -> Iterator[Connection]:
    """A queue with ninety days of history, a backlog, lanes and events; its statistics are good."""
    keeper = connect()
    made = fill(keeper)
    keeper.execute("ANALYZE")
    yield connection
    for name in made:
        keeper.execute(f"DROP TABLE {name}")
    keeper.execute("TRUNCATE pgqueue_message; DELETE FROM pgqueue_event; DELETE FROM pgqueue_lane")
    keeper.execute("ANALYZE")
    keeper.execute("ALTER TABLE pgqueue_message RESET (autovacuum_enabled)")


def fill(keeper: Connection) -> list[str]:
    """Fill the tables that grow; return the partitions that were made for it."""
    a_day = ROWS // 100
    keeper.execute("ALTER TABLE pgqueue_message SET (autovacuum_enabled = off)")
    keeper.execute("TRUNCATE pgqueue_message")
    keeper.execute(
        "INSERT INTO pgqueue_message (channel, key, task, state, max_attempts, governed, run_at) "  # noqa: S608
        "SELECT 'c' || n % 3, (n % 1000)::text, 't', "
        "  CASE WHEN n % 50 = 0 THEN 'scheduled' WHEN n % 50 = 1 THEN 'dead' ELSE 'ready' END, 5, "
        "  n % 2 = 0, clock_timestamp() "
        f"FROM generate_series(1, {ROWS}) n"
    )
    keeper.execute(
        "INSERT INTO pgqueue_lane (channel, key, state, turn_at, tat) "  # noqa: S608
        "SELECT 'c' || n % 3, n::text, 'idle', clock_timestamp(), 'epoch' "
        f"FROM generate_series(1, {ROWS // 10}) n"
    )
    keeper.execute(
        "INSERT INTO pgqueue_event (position, topic, key, metadata, created_at) "  # noqa: S608
        "SELECT n, 'a', (n % 100)::text, '{}', clock_timestamp() "
        f"FROM generate_series(1, {ROWS}) n"
    )
    made = []
    for ago in range(2, DAYS + 2):  # yesterday's partition may be there
        day = datetime.now(UTC).date() - timedelta(days=ago)
        name = f"pgqueue_history_{day:%Y%m%d}"
        keeper.execute(
            f"CREATE TABLE {name} PARTITION OF pgqueue_history "
            f"FOR VALUES FROM ('{day} 00:00Z') TO ('{day + timedelta(days=1)} 00:00Z')"
        )
        keeper.execute(
            "INSERT INTO pgqueue_history (id, channel, key, task, metadata, priority, run_at, "  # noqa: S608
            "attempt, failures, lost, max_attempts, ordered, errors, created_at, outcome, "
            "finished_at, txid) "
            "SELECT nextval('pgqueue_message_id_seq'), 'c' || n % 3, '', 't', '{}', 0, at, 1, 0, "
            "0, 5, false, '[]', at, 'succeeded', at, 1000 + n "
            f"FROM (SELECT '{day} 12:00Z'::timestamptz AS at) d, generate_series(1, {a_day}) n"
        )
        made.append(name)
    return made


def scans(plan: str) -> set[str]:
    """Return how a plan reads the large tables: the indexes, and "Seq Scan" of a table."""
    # The indexes of partitions have names of their own; a day more or less is no other plan.
    plain = re.sub(r"_\d{8}|_\d+\b", "", plan)
    whole = {f"Seq Scan on {table}" for table in re.findall(rf"Seq Scan on ({LARGE})\b", plain)}
    indexes = re.findall(rf"(?:using|Index Scan on) ({LARGE}_\w+)", plain)
    return {re.sub(BY_ID, "pgqueue_history_id_idx", name) for name in indexes} | whole


def plans(session: Connection, texts: dict[str, str]) -> dict[str, set[str]]:
    """Return how each statement reads the large tables."""
    found = {}
    for name, text in texts.items():
        either = EITHER.get(name, "$^")
        read = scans(generic_plan(session, text))
        found[name] = {re.sub(either, "either", each) for each in read}
    return found


def lie(keeper: Connection, how: str) -> None:
    keeper.execute(f"UPDATE pg_statistic SET {LIES[how]}, {NO_SAMPLES} WHERE {OURS}")  # noqa: S608
    # Autovacuum analyzes no partitioned table; PostgreSQL prefers its statistics, if it has some.
    keeper.execute(
        "DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relkind = 'p')"
    )


@pytest.mark.slow
def test_every_statement_is_planned_as_with_good_statistics(
    filled: Connection, connect: Callable[..., Connection], texts: dict[str, str]
) -> None:
    good = plans(filled, texts)
    others = [
        f"{name}: {each}"
        for name, read in good.items()
        for each in read
        # Duties, `--drain` and the admin look at all lanes.
        if each.startswith("Seq Scan") and each != "Seq Scan on pgqueue_lane"
    ]
    for how in LIES:
        lie(connect(), how)
        for name, read in plans(connect(), texts).items():
            if read != good[name]:
                others.append(f"{name}, where {how}: {sorted(good[name])} became {sorted(read)}")

    assert not others, "\n".join(others)
