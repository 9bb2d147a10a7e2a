"""The event log as operators look at it."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from pgqueue.admin import display
from pgqueue.listing import index as listing
from tests.admin.acting import listed, told
from tests.admin.conftest import Connection, Login
from tests.factories import record

EVENTS = "/admin/pgqueue/event/"


def text(client: Client, path: str) -> str:
    """Return a page as it is read."""
    response: Any = client.get(path)
    assert response.status_code == 200, response.status_code
    return unescape(response.content.decode())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page have 3 rows, a stretch 7, and look no further than 20."""
    monkeypatch.setattr(listing, "STRETCH", 7)
    monkeypatch.setattr(listing, "REACH", 20)
    monkeypatch.setattr("pgqueue.admin.changelist.LOOK_FOR", 0)
    monkeypatch.setattr("pgqueue.admin.event.EventAdmin.list_per_page", 3)


def walked(client: Client, query: str = "") -> list[int]:
    """Follow every page of every stretch; return all positions."""
    found: list[int] = []
    where = f"?{query}"
    for _ in range(100):
        response: Any = client.get(EVENTS + where)
        shown = response.context["cl"]
        for number in shown.paginator.page_range:
            found += listed(client, f"{EVENTS}{where}&p={number}")
        if not shown.stretch.next:
            return found
        where = shown.next_query_string()
    raise AssertionError("it never ends")


class TestTheList:
    def test_has_the_newest_first(self, queue: Connection, viewer: Client):
        positions = record(queue, 3)

        assert listed(viewer, EVENTS) == positions[::-1]

    def test_shows_the_beginning_of_each_payload(self, queue: Connection, viewer: Client):
        record(queue, payload=json.dumps({"name": "<b>Zoë</b>"}), key="customer:7")
        record(queue, payload=json.dumps("x" * 200))
        record(queue, payload=None)

        page = text(viewer, EVENTS)

        assert '{"name": "<b>Zoë</b>"}' in page
        assert "<b>Zoë".encode() not in viewer.get(EVENTS).content
        assert "customer:7" in page
        assert "x" * 99 + "…" in page
        assert "x" * 101 not in page

    def test_reads_no_payload_that_is_large(self, queue: Connection, viewer: Client):
        record(queue, payload=json.dumps({str(n): str(n) for n in range(100_000)}))

        with CaptureQueriesContext(connection) as captured:
            page = text(viewer, EVENTS)

        assert '"1": "1"' not in page
        rows = [query["sql"] for query in captured.captured_queries if '"topic"' in query["sql"]]
        assert rows
        assert not [sql for sql in rows if '"pgqueue_event"."payload",' in sql]

    @pytest.mark.slow
    def test_is_walked_through_without_leaving_one_out(
        self, short: None, queue: Connection, viewer: Client
    ):
        paid = record(queue, 11)
        sent = record(queue, 11, topic="order.line.sent")
        rare = record(queue, 1, topic="shop.opened")
        more = record(queue, 11)

        everything = [*paid, *sent, *rare, *more][::-1]
        assert walked(viewer) == everything
        assert walked(viewer, "topic=shop.opened") == rare
        assert walked(viewer, "topic=order.line.*") == sent[::-1]
        assert walked(viewer, "topic=order.**") == [*paid, *sent, *more][::-1]
        assert walked(viewer, "topic=*") == []
        assert walked(viewer, f"topic=order.paid&after={paid[-2]}&upto={more[0]}") == [
            more[0],
            paid[-1],
        ]

    def test_says_how_many_there_are_about_and_counts_none(
        self, short: None, queue: Connection, viewer: Client
    ):
        record(queue, 300)
        queue.execute("ANALYZE pgqueue_event")

        page = text(viewer, EVENTS)

        assert "The newest first. The first 7 of about 300." in page

    def test_has_nothing_to_choose_or_to_add(self, queue: Connection, admin_client: Client):
        (position,) = record(queue)

        assert b'name="action"' not in admin_client.get(EVENTS).content
        for path in ("add/", f"{position}/delete/"):
            assert admin_client.get(EVENTS + path).status_code == 403
        changed = admin_client.post(f"{EVENTS}{position}/change/", {"topic": "another"})
        assert changed.status_code == 403


class TestSearch:
    def test_finds_a_position(self, queue: Connection, viewer: Client):
        first, second = record(queue, 2)

        assert listed(viewer, f"{EVENTS}?q={first}") == [first]
        assert listed(viewer, f"{EVENTS}?q={first}&upto={second}") == [first]
        assert listed(viewer, f"{EVENTS}?q={first}&after={first}") == []

    def test_finds_a_key(self, queue: Connection, viewer: Client):
        (first,) = record(queue, key="customer:7")
        record(queue, key="customer:8")

        assert listed(viewer, f"{EVENTS}?q=customer:7") == [first]

    @pytest.mark.parametrize("term", ["9" * 40, "²", "'", "%25", "x" * 5000])
    def test_for_nonsense_finds_nothing(self, queue: Connection, viewer: Client, term: str):
        record(queue)

        assert listed(viewer, f"{EVENTS}?q={term}") == []
        assert viewer.get(f"{EVENTS}?q=%00").status_code == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("topic=a..b", 302),
        ("topic=**.b", 302),
        ("topic=%00", 200),
        ("topic=(", 200),
        (f"topic={'x' * 201}", 302),
        ("after=x", 302),
        ("after=-1", 302),
        ("upto=²", 302),
        (f"upto={'9' * 30}", 302),
        ("start=[1]", 200),
        ("start=x", 302),
        ("payload__icontains=x", 400),
        ("position__gt=1", 400),
    ],
)
def test_a_made_up_address_neither_fails_nor_asks_for_more(
    queue: Connection, viewer: Client, query: str, status: int
):
    record(queue, 2)

    assert viewer.get(f"{EVENTS}?{query}").status_code == status


class TestThePage:
    def test_shows_the_payload_and_the_metadata(self, queue: Connection, viewer: Client):
        (position,) = record(queue, payload='{"total": 9.50, "name": "<b>"}')
        queue.execute("""UPDATE pgqueue_event SET metadata = '{"user": "ada"}'""")

        page = text(viewer, f"{EVENTS}{position}/change/")

        assert '"total": 9.50' in page
        assert '"user": "ada"' in page
        assert "order.paid" in page

    def test_shows_the_beginning_of_megabytes(self, queue: Connection, viewer: Client):
        (position,) = record(queue, payload=json.dumps(["x" * 5_000_000]))

        page = text(viewer, f"{EVENTS}{position}/change/")

        assert len(page) < display.EXCERPT + 50_000
        assert "… (the first 64.0\xa0KB)" in page

    def test_of_a_position_that_is_not_there_says_so(self, db: None, viewer: Client):
        answer: Any = viewer.get(f"{EVENTS}7/change/", follow=True)

        assert "doesn’t exist" in told(answer)[0]


@pytest.mark.django_db(databases=["default", "second"])
def test_they_are_those_of_the_queues_database(settings, login: Login):
    settings.PGQUEUE = {"DATABASE": "second"}
    viewer = login("view_event")
    (position,) = record(connections["second"])

    assert listed(viewer, EVENTS) == [position]
    assert "order.paid" in text(viewer, f"{EVENTS}{position}/change/")
