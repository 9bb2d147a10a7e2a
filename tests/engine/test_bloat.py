"""The table of live messages stays as small as what is in it, however much has gone through."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pgqueue.engine import lease, promote, settle
from pgqueue.engine.values import Claim
from tests.eventually import eventually
from tests.factories import LEASE, Connection, claim, done, enqueue, failure, make_due, one

AT_ONCE = 500
ROUNDS = 50

SNAPSHOTS = """
SELECT string_agg(concat_ws(' ', application_name, state, query), '; ') FROM pg_stat_activity
WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
  AND query NOT LIKE 'autovacuum: VACUUM%%'
"""


OFTEN = ["autovacuum_vacuum_threshold=50", "autovacuum_vacuum_scale_factor=0"]
SETTINGS = {
    "message": [
        "fillfactor=85",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=10000",
        "autovacuum_vacuum_insert_scale_factor=0",
        "autovacuum_vacuum_insert_threshold=100000",
        "autovacuum_analyze_scale_factor=0",
        "autovacuum_analyze_threshold=50000",
        "autovacuum_vacuum_cost_delay=0",
        "vacuum_truncate=off",
    ],
    "long payloads": [
        "vacuum_truncate=off",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
        "autovacuum_vacuum_insert_scale_factor=0",
        "autovacuum_vacuum_insert_threshold=100000",
        "autovacuum_vacuum_cost_delay=0",
    ],
    "lane": [
        "fillfactor=50",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=10000",
        "autovacuum_vacuum_cost_delay=0",
    ],
    "bell": [
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=10000",
        "autovacuum_vacuum_insert_threshold=-1",
        "autovacuum_vacuum_cost_delay=0",
    ],
    "step": [
        "autovacuum_vacuum_cost_delay=0",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=10000",
    ],
    "signal": [
        "autovacuum_vacuum_cost_delay=0",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
    ],
    "event_wait": [
        "autovacuum_vacuum_cost_delay=0",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
    ],
    "append_lock": [
        "fillfactor=70",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=10000",
        "autovacuum_vacuum_cost_delay=0",
    ],
    "run_log": [
        "autovacuum_vacuum_cost_delay=0",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
    ],
    "blocked": [
        "autovacuum_vacuum_cost_delay=0",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
        "fillfactor=70",
    ],
    "tally": [
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
        "autovacuum_vacuum_insert_threshold=-1",
    ],
    "tally_batch": [
        "fillfactor=50",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
    ],
    "total": [
        "fillfactor=50",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
    ],
    "tenant_total": [
        "fillfactor=50",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=1000",
    ],
    "statistic": ["fillfactor=70"],
    "subscription": [
        "fillfactor=70",
        "autovacuum_vacuum_threshold=200",
        "autovacuum_vacuum_scale_factor=0",
    ],
    "waiter": ["autovacuum_vacuum_threshold=1000", "autovacuum_vacuum_scale_factor=0"],
    "event_inbox": [
        "vacuum_truncate=off",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=10000",
        "autovacuum_vacuum_insert_threshold=-1",
        "autovacuum_vacuum_cost_delay=0",
    ],
    "worker": ["fillfactor=50", *OFTEN],
    "reader": ["fillfactor=50", *OFTEN],
    "cursor": ["fillfactor=50", *OFTEN],
    "duty": ["fillfactor=50", *OFTEN],
    "gate": ["fillfactor=50", *OFTEN],
    "purged": ["fillfactor=50", *OFTEN],
}


@pytest.fixture
def vacuumed_by_hand(connect: Callable[..., Connection]) -> Iterator[None]:
    keeper = connect()
    keeper.execute("ALTER TABLE pgqueue_message SET (autovacuum_enabled = off)")
    keeper.execute("TRUNCATE pgqueue_message")
    yield
    keeper.execute("ALTER TABLE pgqueue_message RESET (autovacuum_enabled)")


@pytest.mark.slow
@pytest.mark.usefixtures("vacuumed_by_hand")
def test_its_pages_and_those_of_its_indexes_are_bounded(connection: Connection) -> None:
    # 500 wait at any time, in lanes that come and go; dead rows are vacuumed each 1 000 messages.
    enqueue(connection, AT_ONCE)

    sizes = []
    for number in range(ROUNDS):
        pass_through(connection, number)
        if number % 2:
            vacuum(connection)
        sizes.append(pages(connection))

    half = ROUNDS // 2
    # Some 150 pages. Where a snapshot, such as that of an autoanalyze, keeps dead rows between two
    # vacuums, there are half as many again. Without a bound there would be twenty times as many.
    assert sum(sizes[-1].values()) < 400
    for name, at_most in largest(sizes[:half]).items():
        assert largest(sizes[half:])[name] <= 1.5 * at_most + 2, name


def test_the_tables_are_vacuumed_by_the_count_of_dead_rows(connection: Connection) -> None:
    # A table that a migration rebuilt would have none of these, and grow.
    found = connection.execute(
        "SELECT replace(c.relname, 'pgqueue_', ''), c.reloptions FROM pg_class c "
        "WHERE c.relnamespace = 'public'::regnamespace AND c.relname LIKE 'pgqueue_%' "
        "AND c.reloptions IS NOT NULL AND c.relkind = 'r' "
        "UNION SELECT 'long payloads', t.reloptions FROM pg_class t "
        "JOIN pg_class c ON t.oid = c.reltoastrelid WHERE c.oid = 'pgqueue_message'::regclass"
    ).fetchall()

    assert {name: sorted(options) for name, options in found} == {
        name: sorted(options) for name, options in SETTINGS.items()
    }


def test_what_runs_is_indexed_without_deduplication(connection: Connection) -> None:
    # An index that a migration rebuilt would pack its equal entries again, in each claim.
    found = one(
        connection, "SELECT reloptions FROM pg_class WHERE relname = 'pgqueue_message_running'"
    )

    assert found == (["deduplicate_items=off"],)


def pass_through(connection: Connection, number: int) -> None:
    """Let as many messages come as go: most succeed, some are delayed and retried first."""
    enqueue(connection, AT_ONCE, key=f"customer:{number}", payloads=['{"size": "x"}'] * AT_ONCE)
    claims = claimed(connection, AT_ONCE)
    lease.extend(connection, claims, lease=2 * LEASE)
    late, rest = claims[:50], claims[50:]
    settle.retry(connection, [failure(each, delay=LEASE) for each in late])
    settle.complete(connection, [done(each) for each in rest])
    make_due(connection, [each.id for each in late])
    promote.promote(connection)
    settle.complete(connection, [done(each) for each in claimed(connection, len(late))])


def claimed(connection: Connection, count: int) -> list[Claim]:
    """Claim just so many: one claim takes an equal share of each lane, if that has as many."""
    claims: list[Claim] = []
    while len(claims) < count:
        claims += claim(connection, limit=count - len(claims))
    return claims


def vacuum(connection: Connection) -> None:
    """Free the dead rows, once no snapshot keeps them, such as that of an autoanalyze elsewhere."""

    def is_done() -> bool:
        if one(connection, SNAPSHOTS)[0]:
            return False
        connection.execute("VACUUM (TRUNCATE off) pgqueue_message")
        return not one(connection, SNAPSHOTS)[0]  # nor while it ran

    eventually(is_done, within=60, what="another session always has a snapshot")


def pages(connection: Connection) -> dict[str, int]:
    """Return how many pages the table and each of its indexes have."""
    return dict(
        connection.execute(
            "SELECT relname, pg_relation_size(oid) / current_setting('block_size')::int "
            "FROM pg_class WHERE oid = 'pgqueue_message'::regclass OR oid IN ("
            "SELECT indexrelid FROM pg_index WHERE indrelid = 'pgqueue_message'::regclass)"
        ).fetchall()
    )


def largest(sizes: list[dict[str, int]]) -> dict[str, int]:
    return {name: max(size[name] for size in sizes) for name in sizes[0]}
