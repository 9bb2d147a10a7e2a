"""Lists and figures of waits read a bounded number of rows, however many runs wait."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from pgqueue.database.connections import borrow
from pgqueue.engine import steps
from pgqueue.engine.live_counts import BOUND
from pgqueue.listing import index
from tests.admin import test_plans
from tests.admin.acting import MESSAGES

NUMBER = 60_000
FILL = """
WITH made AS (
    INSERT INTO pgqueue_message (channel, task, payload, state, max_attempts, run_at)
    SELECT 'mail', 'shop.task', '{"args": []}', 'scheduled', 5, now() + '1 day'
    FROM generate_series(1, %s) n RETURNING id)
INSERT INTO pgqueue_step
    (message_id, name, number, kind, state, signals, attempt, tries, started_at, until)
SELECT id, kind, 1, kind, 'waiting', '{go}', 1, 1, now() - id * interval '1 second', now() + '1 day'
FROM (SELECT id, CASE WHEN id %% 3 = 0 THEN 'signal' ELSE 'sleep' END AS kind FROM made) m"""


WAITS = ["sleep", "signal", "signal:go", "signal:rare", "retry", "event:a"]


@pytest.mark.slow
@pytest.mark.parametrize("is_analyzed", [False, True])
def test_lists_and_figures_of_waits_read_no_more_than_their_share(
    transactional_db: None,
    admin_client: Client,
    monkeypatch: pytest.MonkeyPatch,
    is_analyzed: bool,
) -> None:
    monkeypatch.setattr(index, "STRETCH", 500)
    monkeypatch.setattr(index, "REACH", 1000)
    # A step, its message, and the steps of this one are read for each that is looked at.
    monkeypatch.setattr(test_plans, "MOST", 4 * 1001)
    with connection.cursor() as cursor:
        cursor.execute(FILL, [NUMBER])
        if is_analyzed:
            cursor.execute("ANALYZE pgqueue_step")
            cursor.execute("ANALYZE pgqueue_message")

    for wait in WAITS:
        explainer = test_plans.Explainer()
        with connection.execute_wrapper(explainer):
            answer = admin_client.get(f"{MESSAGES}?waits={wait}")

        assert answer.status_code == 200, wait
        assert explainer.explained, wait
        assert not explainer.excesses, wait

    with borrow("default") as own:
        found = {each.reason: each for each in steps.waits(own, bound=BOUND, limit=9)}
        plan = own.execute(
            f"EXPLAIN (ANALYZE, FORMAT json) {steps.SQL['waits']}", {"bound": BOUND, "limit": 9}
        ).fetchone()

    assert {each.number for each in found.values()} == {BOUND}
    assert found["sleep"].seconds > found["signal"].seconds - 10
    assert plan is not None
    assert plan[0][0]["Execution Time"] < 1000
