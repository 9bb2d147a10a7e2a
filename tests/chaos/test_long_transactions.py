"""Transactions that stay open for long: a producer's, and one that only looks."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest

from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

IN_ALL_WAYS = """
SELECT pgqueue_enqueue('tests.chaos.tasks.plain', '{"args": [1], "kwargs": {}}'),
       pgqueue_enqueue('tests.chaos.tasks.limited', '{"args": [2], "kwargs": {}}',
                       channel => 'limited', key => 'a'),
       pgqueue_enqueue('tests.chaos.tasks.in_order', '{"args": [3], "kwargs": {}}',
                       channel => 'ordered', key => 'its own', ordered => true)
"""

OF_THE_SLOW_ONE = """
SELECT count(*) FROM pgqueue_history WHERE payload -> 'args' -> 0 IN ('1', '2', '3')
"""


@pytest.mark.chaos
def test_a_producers_open_transaction_delays_only_itself(stage: Stage) -> None:
    """A compressed ten minutes: longer than a lease, its rescue, and what a duty waits for."""
    for kind in ("plain", "limited", "in_order"):
        stage.numbers(kind, 1)
    for _ in range(2):
        stage.producer(rate=100)
        stage.worker()
    stage.settles(300)
    before = wait_of_the_latest(stage, share=0.95)

    with closing(stage.server.connect()) as slow:
        with stage.fault(), slow.transaction():
            slow.execute(IN_ALL_WAYS)
            (since,) = stage.ask("SELECT clock_timestamp()")
            until = time.monotonic() + 40
            while time.monotonic() < until:
                # Each of these would end in a fault if anyone waited for the transaction.
                stage.settles(150, within=15)
                for channel, key in (("default", None), ("limited", "a"), ("ordered", None)):
                    stage.serves(channel, within=5, key=key)
            meanwhile = wait_of_the_latest(stage, since=since, share=0.95)
        eventually(lambda: stage.ask(OF_THE_SLOW_ONE) == (3,), within=5, what="it is done, too")

    stage.end()
    assert meanwhile < max(3 * before, 500), f"{before} ms became {meanwhile} ms"


CHURN = """
INSERT INTO pgqueue_message (channel, task, payload, state, max_attempts)
SELECT 'default', 'tests.chaos.tasks.nothing', '{"args": [-1], "kwargs": {}}', 'ready', 5
FROM generate_series(1, 75000)
"""
CHURNS = """
SELECT FROM pgqueue_message WHERE task = 'tests.chaos.tasks.nothing' LIMIT 1
"""
"""Each of them leaves its dead entries at the front of the index that claims use."""
EVER = datetime(2000, 1, 1, tzinfo=UTC)
LATER = """
SELECT count(*) FROM pgqueue_history
WHERE channel = 'default' AND run_at > %s AND claimed_at IS NOT NULL
"""


@pytest.mark.chaos
def test_claims_stay_fast_beside_a_snapshot_that_is_pinned(stage: Stage) -> None:
    """A compressed soak: dead rows pile up that no vacuum may remove."""
    for _ in range(2):
        stage.producer(rate=250)
        stage.worker()
    stage.settles(500)
    before = wait_of_the_latest(stage)

    with closing(stage.server.connect()) as pinned, stage.fault():
        pinned.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pinned.transaction():
            pinned.execute("SELECT count(*) FROM pgqueue_message")
            with closing(stage.server.connect()) as churning:
                for _ in range(4):
                    churning.execute(CHURN)
                    eventually(lambda: stage.ask(CHURNS) is None, within=90)
            # What waited behind the last of it has had its turn by then, and isn't counted.
            (over,) = stage.ask("SELECT clock_timestamp()")
            eventually(lambda: stage.ask(LATER, over) >= (300,), within=90)
            stage.settles(1000)
            after = wait_of_the_latest(stage, since=over)

    stage.end()
    # Milliseconds, of which a machine that has much else to do may take some hundreds.
    assert after < max(10 * before, 500), f"{before} ms became {after} ms"


def wait_of_the_latest(stage: Stage, *, since: datetime = EVER, share: float = 0.5) -> float:
    """Return how long this share of the last 300 unlimited messages waited at most, in ms."""
    (wait,) = stage.ask(
        "SELECT percentile_cont(%s) WITHIN GROUP (ORDER BY extract(epoch FROM waited)) "
        "FROM (SELECT claimed_at - run_at AS waited FROM pgqueue_history "
        "      WHERE channel = 'default' AND task <> 'tests.chaos.tasks.nothing' AND run_at > %s "
        "        AND claimed_at IS NOT NULL "
        "      ORDER BY finished_at DESC LIMIT 300) latest",
        share,
        since,
    )
    return float(wait) * 1000
