"""pg-boss and graphile-worker: a claim walked over the jobs of keys at their limits.

100 000 messages of 1 000 keys at their limits stand before the one that may start. A claim has to
find it without a look at the others, whatever plan PostgreSQL has kept. The benchmark `governed`
has the time that a claim takes (`saturated_claim_ms`); this test counts the pages that it reads.
"""

from __future__ import annotations

import pytest

from pgqueue.models import Lane
from tests.claims import GovernedClaims
from tests.factories import Connection, enqueue, limit, one

pytestmark = pytest.mark.slow

KEYS = 1_000
DEEP = 100
FEW = 400
"""Pages: such a claim reads about 230 of them. The messages in front lie in 3 000."""

FILL = """
INSERT INTO pgqueue_message (channel, key, task, payload, state, max_attempts, governed)
SELECT 'default', 'full ' || n %% %(keys)s, 'tests.task', '{}', 'ready', 5, true
FROM generate_series(1, %(count)s) n ORDER BY n
"""
RING = """
INSERT INTO pgqueue_bell (channel, key) SELECT 'default', 'full ' || n FROM generate_series(0, %s) n
"""
READ = """
SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::bigint
FROM pg_statio_user_tables WHERE relname IN ('pgqueue_message', 'pgqueue_lane', 'pgqueue_policy')
"""


def pages_read(connection: Connection, claims: GovernedClaims, limit: int) -> tuple[int, int]:
    """Return how many messages a claim takes, and how many pages of the tables it reads."""
    before = statistics(connection)
    count = len(claims.claim(limit))
    return count, statistics(connection) - before


def statistics(connection: Connection) -> int:
    # A session reports what it has read at the end of its next transaction.
    connection.execute("SELECT pg_stat_force_next_flush()")
    connection.execute("SELECT pg_stat_clear_snapshot()")
    return int(one(connection, READ)[0])


@pytest.fixture
def crowd(connection: Connection) -> GovernedClaims:
    """Keys of which each runs what it may, with a hundred messages in front of all others."""
    connection.execute("ALTER TABLE pgqueue_message SET (autovacuum_enabled = off)")
    connection.execute("TRUNCATE pgqueue_message")
    limit(max_running=1)
    connection.execute(FILL, {"keys": KEYS, "count": KEYS * DEEP})
    connection.execute(RING, [KEYS - 1])
    claims = GovernedClaims(connection)
    running = 0
    while running < KEYS:
        found = len(claims.claim(KEYS))
        assert found, f"{running} of {KEYS} keys run a message"
        running += found
    connection.execute("VACUUM ANALYZE pgqueue_message, pgqueue_lane")
    assert set(Lane.objects.values_list("state", flat=True)) == {"saturated"}
    return claims


@pytest.fixture(autouse=True)
def _vacuumed_as_before(connection: Connection):  # type: ignore[no-untyped-def]
    yield
    connection.execute("TRUNCATE pgqueue_message")
    connection.execute("ALTER TABLE pgqueue_message RESET (autovacuum_enabled)")


def test_a_claim_behind_a_hundred_thousand_messages_reads_few_pages(
    connection: Connection, crowd: GovernedClaims
) -> None:
    too_many = "it walks over the messages of the keys at their limits"
    for mode, is_analyzed in [
        ("force_generic_plan", True),
        ("force_custom_plan", True),
        ("force_generic_plan", False),
    ]:
        connection.execute(f"SET plan_cache_mode = {mode}")
        if not is_analyzed:
            tables = "('pgqueue_message'::regclass, 'pgqueue_lane'::regclass)"
            connection.execute(f"DELETE FROM pg_statistic WHERE starelid IN {tables}")  # noqa: S608
            connection.execute("DISCARD PLANS")
        for number in range(6):  # PostgreSQL keeps a plan after five plans
            count, pages = pages_read(connection, crowd, 100)
            assert count == 0
            assert number == 0 or pages < FEW, f"{mode}: {too_many}"
        enqueue(connection, key=f"has room {mode} {is_analyzed}")

        count, pages = pages_read(connection, crowd, 100)

        assert count == 1
        assert pages < FEW, f"{mode}: {too_many}"
