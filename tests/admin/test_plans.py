"""What PostgreSQL does for a page, on tables that are large for what a page may read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from psycopg.sql import Composable

from pgqueue.engine import flow_graph
from pgqueue.listing import index as listing
from pgqueue.listing import messages
from tests.admin.conftest import Connection
from tests.admin.measure_pages import (
    analyze,
    fill,
    fill_flows,
    fill_log,
    fill_subscriptions,
    pages,
)
from tests.factories import register

pytestmark = pytest.mark.slow

ROWS = 30_000
STRETCH, REACH = 500, 1000
FLOW, FLOW_SIZE = 300, 3000
# What a statement may read: each row it looks at, the next one, and one of each partition.
MOST = REACH + 1 + 50


# What autovacuum leaves where a queue was empty for once, and then filled up.
EMPTIED = """
UPDATE pg_class SET reltuples = 0, relpages = 1500
WHERE oid IN ('pgqueue_message'::regclass, 'pgqueue_history'::regclass)
"""


@pytest.fixture(
    params=[
        pytest.param("analyzed", marks=pytest.mark.nightly),
        "never analyzed",
        pytest.param("vacuumed when empty", marks=pytest.mark.nightly),
    ]
)
def full(
    request: pytest.FixtureRequest, queue: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fill the tables, and let pages read a small part of them."""
    monkeypatch.setattr(listing, "STRETCH", STRETCH)
    monkeypatch.setattr(listing, "REACH", REACH)
    # As if the first look had used up the time.
    monkeypatch.setattr("pgqueue.admin.changelist.LOOK_FOR", 0)
    # Without what other tests have left for the planner to know.
    for name in ("MEMBERS", "WAITS", "COUNTED", "RELATIVES"):
        monkeypatch.setattr(flow_graph, name, FLOW)
    monkeypatch.setattr(messages, "FLOW_REACH", FLOW)
    monkeypatch.setattr("pgqueue.admin.flow.COUNTED", 20)
    monkeypatch.setattr("pgqueue.admin.flow.BATCH", FLOW)
    queue.execute("TRUNCATE pgqueue_message, pgqueue_history, pgqueue_event, pgqueue_flow")
    fill(ROWS, ROWS)
    fill_log(ROWS)
    # All of them are counted, as all are read at each step of the dispatch.
    fill_subscriptions(400)
    fill_flows(FLOW_SIZE)
    register(queue)
    if request.param != "never analyzed":
        analyze()
    if request.param == "vacuumed when empty":
        queue.execute(EMPTIED)


class Explainer:
    """Has each statement on the queue's tables explained as it is run."""

    def __init__(self) -> None:
        self.excesses: list[str] = []
        self.explained = 0

    def __call__(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        text = sql.as_string(connection.connection) if isinstance(sql, Composable) else sql
        if "pgqueue_" in text and text.startswith(("SELECT", "WITH")):
            self._explain(text, params)
        return execute(sql, params, many, context)

    def _explain(self, sql: str, params: Any) -> None:
        self.explained += 1
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json, TIMING off) {sql}", params)
            (plan,) = cursor.fetchone()
        (top,) = json.loads(plan) if isinstance(plan, str) else plan
        read = {"table": 0.0, "bitmap": 0.0}
        for kind, rows in scans(top["Plan"]):
            read[kind] += rows
        self.excesses += [
            f"{rows:.0f} rows of a {kind}: {sql}" for kind, rows in read.items() if rows > MOST
        ]


def scans(node: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Return how many rows were read, each time that any were."""
    if "Relation Name" in node or node["Node Type"] == "Bitmap Index Scan":
        removed = (value for name, value in node.items() if name.startswith("Rows Removed"))
        read = (node["Actual Rows"] + sum(removed)) * node["Actual Loops"]
        yield "table" if "Relation Name" in node else "bitmap", read
    for child in node.get("Plans", []):
        yield from scans(child)


def test_no_page_reads_more_than_its_share(full: None, admin_client: Client):
    explainer, excesses = Explainer(), {}

    for name, path in pages().items():
        with connection.execute_wrapper(explainer):
            assert admin_client.get(path).status_code == 200, path
        if explainer.excesses:
            excesses[name] = explainer.excesses
            explainer.excesses = []

    assert explainer.explained > len(pages())
    assert not excesses


def test_what_reads_more_is_noticed(full: None):
    too_much = [
        "SELECT count(*) FROM pgqueue_message",
        "SELECT id FROM pgqueue_message WHERE task = 'nothing' ORDER BY id DESC LIMIT 100",
        "SELECT id FROM pgqueue_message ORDER BY id DESC LIMIT 100 OFFSET 20000",
        "SELECT id FROM pgqueue_history WHERE key = 'nobody' ORDER BY id DESC LIMIT 100",
        "SELECT count(*) FROM pgqueue_event",
        "SELECT position FROM pgqueue_event WHERE topic = 'no' ORDER BY position DESC LIMIT 100",
    ]

    for sql in too_much:
        explainer = Explainer()
        with connection.execute_wrapper(explainer), connection.cursor() as cursor:
            cursor.execute(sql)
        assert explainer.excesses, sql
