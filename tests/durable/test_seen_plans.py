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


@pytest.fixture(params=["never analyzed", "analyzed"])
def full(
    request: pytest.FixtureRequest, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "STRETCH", 500)
    monkeypatch.setattr(index, "REACH", 1000)
    with connection.cursor() as cursor:
        cursor.execute(FILL, [NUMBER])
        if request.param == "analyzed":
            cursor.execute("ANALYZE pgqueue_step")
            cursor.execute("ANALYZE pgqueue_message")


@pytest.mark.slow
@pytest.mark.parametrize(
    "wait", ["sleep", "signal", "signal:go", "signal:rare", "retry", "event:a"]
)
def test_a_list_of_waits_reads_no_more_than_its_share(
    full: None, admin_client: Client, wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A step, its message, and the steps of this one are read for each that is looked at.
    monkeypatch.setattr(test_plans, "MOST", 4 * 1001)
    explainer = test_plans.Explainer()

    with connection.execute_wrapper(explainer):
        answer = admin_client.get(f"{MESSAGES}?waits={wait}")

    assert answer.status_code == 200
    assert explainer.explained
    assert not explainer.excesses


@pytest.mark.slow
def test_figures_of_waits_read_as_many_as_they_count(full: None) -> None:
    with borrow("default") as own:
        found = {each.reason: each for each in steps.waits(own, bound=BOUND, limit=9)}
        plan = own.execute(
            f"EXPLAIN (ANALYZE, FORMAT json) {steps.SQL['waits']}", {"bound": BOUND, "limit": 9}
        ).fetchone()

    assert {each.number for each in found.values()} == {BOUND}
    assert found["sleep"].seconds > found["signal"].seconds - 10
    assert plan is not None
    assert plan[0][0]["Execution Time"] < 1000
