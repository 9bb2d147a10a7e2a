"""Lists that are read a stretch at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.utils.html import escape

from pgqueue.admin.filters import GOVERNED
from pgqueue.listing import index as listing
from pgqueue.listing.index import estimated_count
from pgqueue.models import History, Message
from tests.admin.acting import HISTORY, MESSAGES, listed
from tests.admin.conftest import Connection
from tests.admin.measure_pages import RARE, fill
from tests.factories import bury, enqueue, insert, run, schedule

pytestmark = pytest.mark.slow


def notice(client: Client, path: str) -> str:
    response: Any = client.get(path)
    return str(response.context["cl"].notice())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page have 3 rows, a stretch 7, and look no further than 20."""
    monkeypatch.setattr(listing, "STRETCH", 7)
    monkeypatch.setattr(listing, "REACH", 20)
    for admin in ("message.MessageAdmin", "history.HistoryAdmin"):
        monkeypatch.setattr(f"pgqueue.admin.{admin}.list_per_page", 3)


def walked(client: Client, path: str, **query: str) -> list[int]:
    """Follow every page of every stretch, as its links lead; return all ids."""
    found: list[int] = []
    where = f"?{urlencode(query)}"
    for _ in range(1000):
        response: Any = client.get(path + where)
        assert response.status_code == 200, where
        shown = response.context["cl"]
        found += [row.pk for row in shown.result_list]
        for number in shown.paginator.page_range[1:]:
            found += listed(client, f"{path}{where}&p={number}")
        if not shown.stretch.next:
            return found
        where = shown.next_query_string()
        assert f'href="{escape(where)}"' in response.content.decode()
    raise AssertionError("it never ends")


def without_none(**wanted: Any) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if value is not None}


@pytest.mark.parametrize("look_for", [0, 60])
class TestNothingIsHidden:
    """Whatever is asked for, following the links finds each row, and each once."""

    @pytest.fixture(autouse=True)
    def _full(
        self, short: None, queue: Connection, monkeypatch: pytest.MonkeyPatch, look_for: float
    ) -> None:
        monkeypatch.setattr("pgqueue.admin.changelist.LOOK_FOR", look_for)
        fill(60, 40)
        insert(queue, state="ready", governed=True)
        insert(queue, state="ready", governed=True, channel="rare", task=RARE)

    @pytest.mark.parametrize(
        ("state", "columns"),
        [
            (None, {}),
            ("held", {"state": "held"}),
            ("scheduled", {"state": "scheduled"}),
            ("ready", {"state": "ready", "governed": False}),
            (GOVERNED, {"state": "ready", "governed": True}),
            ("running", {"state": "running"}),
            ("dead", {"state": "dead"}),
        ],
    )
    def test_among_messages(self, viewer: Client, state, columns):
        for channel, task in product([None, "mail", "rare"], [None, RARE]):
            wanted = without_none(channel=channel, task=task)
            rows = Message.objects.filter(**wanted, **columns)

            found = walked(viewer, MESSAGES, **wanted, **without_none(state=state))

            assert sorted(found) == sorted(rows.values_list("pk", flat=True)), wanted

    def test_of_a_key_and_a_state(self, viewer: Client):
        every_third = Message.objects.values_list("pk", flat=True)[::3]
        Message.objects.filter(pk__in=every_third).update(key="few", governed=False)

        for state in ("held", "scheduled", "ready", "running", "dead"):
            found = walked(viewer, MESSAGES, state=state, q="few")

            rows = Message.objects.filter(key="few", state=state)
            assert sorted(found) == sorted(rows.values_list("pk", flat=True)), state

    def test_in_history(self, viewer: Client):
        outcomes = [None, "succeeded", "expired"]
        for outcome, channel, task in product(outcomes, [None, "mail"], [None, RARE]):
            wanted = without_none(outcome=outcome, channel=channel, task=task)

            found = walked(viewer, HISTORY, **wanted)

            rows = History.objects.filter(**wanted)
            assert sorted(found) == sorted(rows.values_list("pk", flat=True)), wanted

    def test_of_a_day(self, viewer: Client):
        day = (datetime.now(UTC) - timedelta(days=5)).date()

        found = walked(viewer, HISTORY, day=str(day))

        ended = History.objects.values_list("pk", "finished_at")
        assert found
        assert sorted(found) == sorted(pk for pk, at in ended if at.astimezone(UTC).date() == day)


class TestOrder:
    def test_the_newest_message_is_first(self, queue: Connection, viewer: Client):
        ids = enqueue(queue, 3)

        assert listed(viewer, MESSAGES) == ids[::-1]

    def test_the_next_to_be_due_is_first(self, queue: Connection, viewer: Client):
        late, soon = (schedule(queue, run_after=timedelta(hours=hours))[0] for hours in (2, 1))

        assert listed(viewer, f"{MESSAGES}?state=scheduled") == [soon, late]

    def test_the_next_to_be_run_is_first_in_its_lane(self, queue: Connection, viewer: Client):
        (later,) = enqueue(queue, key="b")
        (low,) = enqueue(queue, key="a", priority=-1)
        (high,) = enqueue(queue, key="a", priority=1)

        assert listed(viewer, f"{MESSAGES}?state=ready") == [high, low, later]

    def test_no_column_can_be_sorted_by(self, queue: Connection, viewer: Client):
        ids = enqueue(queue, 3)

        assert listed(viewer, f"{MESSAGES}?o=1") == ids[::-1]
        assert b"sortable" not in viewer.get(MESSAGES).content


class TestSearch:
    def test_an_id_finds_its_message(self, queue: Connection, viewer: Client):
        first, _ = enqueue(queue, 2)

        assert listed(viewer, f"{MESSAGES}?q={first}") == [first]
        assert listed(viewer, f"{MESSAGES}?q=+{first}+") == [first]

    def test_an_id_is_found_only_where_the_filters_leave_it(self, queue, viewer: Client):
        (first,) = enqueue(queue)

        assert listed(viewer, f"{MESSAGES}?q={first}&state=dead") == []

    def test_a_key_finds_what_is_ready_running_and_dead_in_every_channel(
        self, queue: Connection, viewer: Client
    ):
        (dead,) = bury(queue, channel="b", key="few")
        (running,) = [each.id for each in run(queue, channel="c", key="few")]
        (ready,) = enqueue(queue, channel="a", key="few")
        enqueue(queue, channel="a", key="others")
        (scheduled,) = schedule(queue, key="few")

        assert listed(viewer, f"{MESSAGES}?q=few") == [ready, running, dead]
        assert "choose their state" in notice(viewer, f"{MESSAGES}?q=few")
        assert listed(viewer, f"{MESSAGES}?q=few&state=scheduled") == [scheduled]
        assert listed(viewer, f"{MESSAGES}?q=few&channel=b") == [dead]

    def test_a_key_may_be_a_number(self, queue: Connection, viewer: Client):
        (message,) = enqueue(queue, key="77000000")

        assert listed(viewer, f"{MESSAGES}?q=77000000") == [message]

    def test_more_of_a_key_than_a_stretch_are_cut_and_it_is_said(
        self, short, queue: Connection, viewer: Client
    ):
        enqueue(queue, 20, key="many")

        assert "The first 7 of about" in notice(viewer, f"{MESSAGES}?q=many")

    @pytest.mark.parametrize("term", ["9" * 40, "%00", "²", "'", "%25", "x" * 5000])
    def test_nonsense_finds_nothing(self, queue: Connection, viewer: Client, term):
        enqueue(queue)

        for path in (MESSAGES, HISTORY):
            assert listed(viewer, f"{path}?task={term}") == [] or term == "%00"
            assert viewer.get(f"{path}?q={term}").status_code == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("payload__icontains=x", 400),
        ("id__gt=1", 400),
        ("start=x", 302),
        ("start=[]", 302),
        ("start=[1,2]", 302),
        ('start=["x"]', 302),
        ('start={"a":1}', 302),
        ("start=1", 302),
        ("start=[-1e30]", 302),
        (f"start=[-{10**30}]", 302),
        ('state=ready&start=["a","b","x","2030-01-01T00:00Z",1]', 302),
        ('state=ready&start=["a","b",1,"yesterday",1]', 302),
        ('state=ready&start=["a",null,1,"2030-01-01T00:00Z",1]', 302),
        ('state=ready&start=["a","\\u0000",1,"2030-01-01T00:00Z",1]', 200),
        ('state=ready&start=["a","b",1,"2030-01-01T00:00Z",1]', 200),
        ("state=nonsense", 200),
        ("p=0", 200),
        ("p=x", 200),
        ("p=99999", 200),
        ("all=", 200),
        ("e=1", 200),
        ("_facets=True", 200),
    ],
)
def test_a_made_up_address_neither_fails_nor_asks_for_more(
    queue: Connection, viewer: Client, query, status
):
    enqueue(queue, 2)

    assert viewer.get(f"{MESSAGES}?{query}").status_code == status


@pytest.mark.parametrize("day", ["x", "2026-02-30", "9999-12-31", "0001-01-01"])
def test_a_day_that_is_none_is_ignored_or_empty(db, viewer: Client, day):
    assert viewer.get(f"{HISTORY}?day={day}").status_code in (200, 302)


def test_a_page_that_is_no_more_shows_the_last_one(short, queue: Connection, viewer: Client):
    ids = enqueue(queue, 4)

    assert listed(viewer, f"{MESSAGES}?p=9") == ids[:1]


def test_a_row_that_ended_meanwhile_is_left_out(queue: Connection, viewer: Client, monkeypatch):
    first, last = enqueue(queue, 2)
    read = listing.Listing.stretch

    def and_then_it_ends(self: Any, start: Any = None) -> Any:
        stretch = read(self, start)
        Message.objects.filter(pk=first).cancel()
        return stretch

    monkeypatch.setattr(listing.Listing, "stretch", and_then_it_ends)

    assert listed(viewer, MESSAGES) == [last]


def test_another_filter_begins_at_the_front(short, queue: Connection, viewer: Client):
    bury(queue, 20)
    response: Any = viewer.get(f"{MESSAGES}?state=dead")
    further: Any = viewer.get(MESSAGES + response.context["cl"].next_query_string())

    page = further.content.decode()

    assert "start=" in further.context["cl"].get_query_string({"p": 2})
    assert 'href="?state=ready"' in page
    assert 'name="start"' not in page
    assert "Back to the front" in page


def test_the_inputs_keep_the_other_filters(queue: Connection, viewer: Client):
    enqueue(queue, channel="mail")

    page = viewer.get(f"{MESSAGES}?state=ready&channel=mail&task=x").content.decode()

    assert '<input type="hidden" name="state" value="ready">' in page
    assert page.count('name="channel"') == page.count('name="task"') == 1
    assert 'name="channel" value="mail" form="changelist-search"' in page
    assert '<option value="mail">' in page


class TestWhatIsSaidOfTheRest:
    def test_a_list_that_is_complete_says_only_its_order(self, queue, viewer: Client):
        enqueue(queue, 3)

        assert notice(viewer, MESSAGES) == "The newest first."

    def test_a_list_that_is_cut_says_how_many_there_are_about(
        self, short, queue: Connection, viewer: Client
    ):
        enqueue(queue, 300)
        queue.execute("ANALYZE pgqueue_message")

        assert notice(viewer, MESSAGES) == "The newest first. The first 7 of about 300."

    def test_a_filter_without_an_index_says_how_many_it_looked_at(
        self, short, queue: Connection, viewer: Client, monkeypatch
    ):
        monkeypatch.setattr("pgqueue.admin.changelist.LOOK_FOR", 0)
        (first,) = enqueue(queue, task="shop.tasks.first")
        enqueue(queue, 299)
        queue.execute("ANALYZE pgqueue_message")
        path = f"{MESSAGES}?task=shop.tasks.first"

        said = notice(viewer, path)
        assert said.startswith("The newest first. 0 found among the first 20 of about 300.")
        assert "Looked back to " in said
        assert walked(viewer, MESSAGES, task="shop.tasks.first") == [first]

    def test_time_that_is_left_is_used_to_look_further(
        self, short, queue: Connection, viewer: Client, monkeypatch
    ):
        monkeypatch.setattr("pgqueue.admin.changelist.LOOK_FOR", 60)
        (first,) = enqueue(queue, task="shop.tasks.first")
        enqueue(queue, 299)

        assert listed(viewer, f"{MESSAGES}?task=shop.tasks.first") == [first]


def test_a_list_leaves_the_planner_as_it_was(queue: Connection, viewer: Client):
    enqueue(queue, 3)

    viewer.get(MESSAGES)
    viewer.get(f"{MESSAGES}?q=nobody")

    for method in ("seqscan", "bitmapscan", "sort"):
        assert queue.execute(f"SHOW enable_{method}").fetchone() == ("on",)


def test_an_estimate_reads_no_rows(queue: Connection, django_assert_num_queries):
    enqueue(queue, 500)
    queue.execute("ANALYZE pgqueue_message")

    with django_assert_num_queries(1) as captured:
        count = estimated_count(Message.objects.all())

    assert count == 500
    assert captured.captured_queries[0]["sql"].startswith("EXPLAIN (FORMAT json) SELECT")
    assert estimated_count(Message.objects.filter(pk__lt=0)) < 10


def test_the_estimate_of_history_adds_up_its_days(queue: Connection):
    fill(1000, 3000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE pgqueue_history")

    assert estimated_count(History.objects.all()) == pytest.approx(3000, rel=0.1)


@pytest.mark.parametrize("path", [MESSAGES, HISTORY])
def test_a_list_is_narrowed_by_an_error_and_a_key_or_an_id(
    queue: Connection, viewer: Client, path: str
):
    ids = [
        insert(queue, state="dead", key="a", errors=f'[{{"class": "builtins.{name}"}}]')
        for name in ("ValueError", "KeyError")
    ]
    if path == HISTORY:
        Message.objects.all().discard()

    for error, found in {"ValueError": ids[:1], "KeyError": ids[1:], "OSError": []}.items():
        assert listed(viewer, f"{path}?q=a&error={error}") == found
        assert listed(viewer, f"{path}?q={ids[0]}&error={error}") == [
            id for id in found if id == ids[0]
        ]
