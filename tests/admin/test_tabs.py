"""The tabs above the lists of messages, with the numbers of their messages."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from pgqueue.admin.tabs import ListTab
from pgqueue.engine import channels, live_counts
from pgqueue.models import Message
from tests.admin.acting import HISTORY, MESSAGES, listed
from tests.admin.conftest import Connection, Login
from tests.factories import bury, ended, enqueue, hold, insert, run, schedule


def tabs(client: Client, path: str) -> dict[str, ListTab]:
    response: Any = client.get(path)
    return {tab.label: tab for tab in response.context["cl"].tabs()}


def counts(client: Client, path: str = MESSAGES) -> dict[str, str]:
    return {label: tab.count for label, tab in tabs(client, path).items() if tab.count}


@pytest.fixture
def some(queue: Connection) -> None:
    """Messages in every state, in two channels."""
    bury(queue, 2, channel="mail")
    run(queue, channel="mail")
    schedule(queue, 3, channel="mail")
    hold(queue)
    enqueue(queue, 4)
    insert(queue, state="ready", governed=True)


class TestCounts:
    def test_each_state_has_its_number(self, some: None, viewer: Client):
        assert counts(viewer) == {
            "Held": "1",
            "Scheduled": "3",
            "Ready": "4",
            "Ready, under a limit or in order": "1",
            "Running": "1",
            "Dead": "2",
        }

    def test_each_number_is_that_of_its_list(self, some: None, viewer: Client):
        for label, tab in tabs(viewer, MESSAGES).items():
            if tab.count:
                assert len(listed(viewer, MESSAGES + tab.url)) == int(tab.count), label

    def test_a_channel_has_its_own_numbers(self, some: None, viewer: Client):
        found = counts(viewer, f"{MESSAGES}?channel=mail&state=dead")

        assert found == {
            "Held": "0", "Scheduled": "3", "Ready": "0", "Running": "1", "Dead": "2",
        }  # fmt: skip

    @pytest.mark.parametrize("query", ["task=tests.task", "error=Boom", "q=k", "flow=1"])
    def test_what_no_index_counts_has_no_number(self, some: None, viewer: Client, query: str):
        assert counts(viewer, f"{MESSAGES}?{query}") == {}
        assert "Dead" in tabs(viewer, f"{MESSAGES}?{query}")

    def test_a_count_stops_at_its_bound_and_says_so(
        self, queue: Connection, viewer: Client, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(live_counts, "BOUND", 20)
        enqueue(queue, 30)
        schedule(queue, 20)

        found = counts(viewer)

        assert found["Ready"] == "21+"
        assert found["Scheduled"] == "20"

    def test_many_channels_share_the_bound(
        self, queue: Connection, viewer: Client, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(live_counts, "BOUND", 40)
        for name in "abcd":
            enqueue(queue, 15, channel=name)

        assert counts(viewer)["Ready"] == "44+"

    def test_channels_that_are_not_looked_up_are_said(
        self, queue: Connection, viewer: Client, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(channels, "LIMIT", 1)
        enqueue(queue, 2)

        assert counts(viewer)["Ready"] == "2+"

    def test_the_number_of_statements_does_not_grow(
        self, queue: Connection, viewer: Client, django_assert_num_queries: Any
    ):
        enqueue(queue, 2)
        with CaptureQueriesContext(connection) as few:
            viewer.get(MESSAGES)
        for name in "abc":
            enqueue(queue, 20, channel=name)
        bury(queue, 20, channel="dead")

        with django_assert_num_queries(len(few)):
            viewer.get(MESSAGES)


class TestTabs:
    def test_the_chosen_one_is_marked(self, some: None, viewer: Client):
        shown = tabs(viewer, f"{MESSAGES}?state=dead")

        assert [label for label, tab in shown.items() if tab.is_selected] == ["Dead"]
        page = viewer.get(f"{MESSAGES}?state=dead").content.decode()
        assert page.count('aria-current="page" class="is-dead"') == 1

    def test_a_tab_keeps_the_other_filters(self, some: None, viewer: Client):
        shown = tabs(viewer, f"{MESSAGES}?channel=mail&state=dead&q=k&p=1")

        assert shown["Running"].url == "?channel=mail&q=k&state=running"
        assert shown["All"].url == "?channel=mail&q=k"

    def test_a_governed_tab_is_shown_where_it_has_a_message(self, queue, viewer: Client):
        enqueue(queue)

        assert "Ready, under a limit or in order" not in tabs(viewer, MESSAGES)
        assert "Ready, under a limit or in order" in tabs(viewer, f"{MESSAGES}?state=governed")

    def test_live_and_ended_messages_lead_to_each_other(self, queue, viewer: Client):
        ended(queue)

        there = tabs(viewer, f"{MESSAGES}?channel=mail&state=dead")["Ended ones"].url
        back = tabs(viewer, f"{HISTORY}?channel=mail&outcome=cancelled")["Live ones"].url

        assert (there, back) == (f"{HISTORY}?channel=mail", f"{MESSAGES}?channel=mail")

    def test_the_other_list_has_each_filter_that_it_knows(self, queue, viewer: Client):
        both = "q=k&channel=mail&task=tests.task&error=Boom&flow=1&match=meta.tenant%3Da"

        there = tabs(viewer, f"{MESSAGES}?{both}&waits=sleep")["Ended ones"].url
        back = tabs(viewer, f"{HISTORY}?{both}&day=2026-01-01")["Live ones"].url

        assert parse_qs(urlsplit(there).query) == parse_qs(urlsplit(back).query) == parse_qs(both)

    def test_only_who_may_see_the_other_list_is_led_there(self, queue, login: Login):
        client = login("view_message")

        assert "Ended ones" not in tabs(client, MESSAGES)

    def test_history_has_a_tab_for_each_outcome(self, queue: Connection, viewer: Client):
        shown = tabs(viewer, f"{HISTORY}?outcome=expired")

        assert [*shown][2:] == ["Succeeded", "Cancelled", "Discarded", "Expired"]
        assert shown["Expired"].is_selected

    def test_lists_of_other_things_have_none(self, queue: Connection, viewer: Client):
        assert tabs(viewer, "/admin/pgqueue/event/") == {}


def test_a_state_is_a_badge_with_its_word(some: None, viewer: Client):
    page = viewer.get(MESSAGES).content.decode()

    assert page.count('<span class="pgqueue-state is-dead">Dead</span>') == 2
    assert page.count('class="pgqueue-state') == Message.objects.count()
