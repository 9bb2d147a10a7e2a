"""The search box of the lists of messages, and the names that their filters offer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.test import Client
from django.utils.html import escape

from pgqueue.engine import run_statistics
from pgqueue.models import History
from tests import jobs
from tests.admin.acting import BULK, HISTORY, MESSAGES, listed
from tests.admin.conftest import Connection, Login
from tests.factories import bury, ended, enqueue, hold, schedule
from tests.management.test_stats import counted

assert jobs.keyed  # its tasks are known here


def choices(client: Client, path: str, name: str) -> list[tuple[str, bool]]:
    """Return the links of a filter, and whether each is chosen."""
    response: Any = client.get(path)
    shown = response.context["cl"]
    [spec] = [each for each in shown.filter_specs if each.parameter_name == name]
    return [(str(each["display"]), each["selected"]) for each in spec.choices(shown)]


def ran(queue: Connection, task: str, runs: int) -> None:
    counts = counted(succeeded=runs)._replace(task=task)
    run_statistics.add(queue, [counts], source=uuid4(), batch=1)


def led_to(client: Client, path: str) -> str | None:
    response = client.get(path)
    return response["Location"] if response.status_code == 302 else None


class TestDedupeKeys:
    def test_a_dedupe_key_finds_its_live_message(self, queue: Connection, viewer: Client):
        (of_mail,) = enqueue(queue, channel="mail", dedupe_keys=["order-7"])
        (other,) = schedule(
            queue, run_after=timedelta(hours=1), dedupe_keys=["order-7"], channel="reports"
        )
        enqueue(queue, dedupe_keys=["order-8"])

        assert listed(viewer, f"{MESSAGES}?q=order-7") == [of_mail, other]
        assert listed(viewer, f"{MESSAGES}?q=order-7&channel=mail") == [of_mail]
        assert listed(viewer, f"{MESSAGES}?q=order-7&state=dead") == []

    def test_an_id_comes_first(self, queue: Connection, viewer: Client):
        (first,) = enqueue(queue)
        enqueue(queue, dedupe_keys=[str(first)])

        assert listed(viewer, f"{MESSAGES}?q={first}") == [first]

    @pytest.mark.parametrize("listing", ["message", "history", "flow", "event"])
    def test_a_number_that_no_id_can_be_is_searched_as_a_text(
        self, listing: str, viewer: Client
    ) -> None:
        assert viewer.get(f"/admin/pgqueue/{listing}/?q={'9' * 4301}").status_code == 200
        assert led_to(viewer, f"/admin/pgqueue/{listing}/{'9' * 4301}/change/") == "/admin/"

    def test_an_operation_on_everything_takes_it_for_no_key(self, queue, operator: Client):
        enqueue(queue, key="k")
        hold(queue, dedupe_keys=["k"])

        answer = operator.get(f"{BULK}?action=cancel&q=k")

        assert answer.status_code == 400


class TestTasks:
    @pytest.mark.parametrize("path", [MESSAGES, HISTORY])
    @pytest.mark.parametrize("term", ["tests.jobs.keyed", "jobs.keyed", "+jobs.keyed+"])
    def test_a_path_or_its_end_leads_to_the_messages_of_its_task(self, db, viewer, path, term):
        assert led_to(viewer, f"{path}?q={term}&channel=mail") == (
            f"{path}?channel=mail&task=tests.jobs.keyed"
        )

    def test_a_task_of_other_processes_is_found_by_its_runs(self, queue, viewer: Client):
        ran(queue, "shop.tasks.pack_it", 3)

        assert led_to(viewer, f"{MESSAGES}?q=pack_it") == f"{MESSAGES}?task=shop.tasks.pack_it"

    @pytest.mark.parametrize("given", [{"key": "keyed"}, {"dedupe_keys": ["keyed"]}])
    def test_a_key_comes_first(self, queue: Connection, viewer: Client, given: Any):
        (message,) = enqueue(queue, **given)

        assert listed(viewer, f"{MESSAGES}?q=keyed") == [message]

    @pytest.mark.parametrize("term", ["eyed", "no_such_thing", "%00", "nap"])
    def test_no_task_or_several_ones_are_not_taken(self, queue, viewer: Client, term: str):
        ran(queue, "shop.tasks.nap", 1)

        assert led_to(viewer, f"{MESSAGES}?q={term}") is None

    def test_a_key_is_looked_for_where_a_task_is_chosen(self, db, viewer: Client):
        assert led_to(viewer, f"{MESSAGES}?q=keyed&task=tests.jobs.add") is None

    def test_who_may_not_see_messages_is_told_of_no_task(self, db, login: Login):
        assert login("view_worker").get(f"{MESSAGES}?q=keyed").status_code == 403


class TestContents:
    @pytest.mark.parametrize("path", [MESSAGES, HISTORY])
    @pytest.mark.parametrize(
        "term", ["args.order_id=7", "meta.tenant=a b", "tag=import", "error=no such order"]
    )
    def test_a_place_and_a_value_lead_to_a_filter_of_contents(self, db, viewer, path, term):
        led = led_to(viewer, f"{path}?{urlencode({'q': term, 'channel': 'mail'})}")

        assert led == f"{path}?{urlencode({'channel': 'mail', 'match': term})}"

    def test_a_key_comes_first(self, queue: Connection, viewer: Client):
        (message,) = enqueue(queue, key="tag=import")

        assert listed(viewer, f"{MESSAGES}?q=tag%3Dimport") == [message]

    def test_live_and_ended_ones_are_found(self, queue: Connection, viewer: Client):
        (message,) = enqueue(queue, metadata='{"tags": ["import"]}')
        enqueue(queue)
        ended(queue, channel="mail")
        History.objects.update(metadata={"tags": ["import"]})

        assert listed(viewer, f"{MESSAGES}?match=tag%3Dimport") == [message]
        assert listed(viewer, f"{MESSAGES}?match=tag%3Dimport&q=&state=ready") == [message]
        assert listed(viewer, f"{MESSAGES}?match=tag%3Dimport&state=dead") == []
        assert len(listed(viewer, f"{HISTORY}?match=tag%3Dimport")) == 1

    def test_the_page_says_how_far_it_has_looked(
        self, queue: Connection, viewer: Client, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("pgqueue.operating.searching.REACH", 2)
        monkeypatch.setattr("pgqueue.admin.changelist.LOOK_FOR", 0)
        enqueue(queue, 5)

        page = viewer.get(f"{MESSAGES}?match=tag%3Dimport").content.decode()

        assert "0 found among the first 2 of about" in page
        assert "Looked back to " in page
        assert "Looked back to " not in viewer.get(f"{MESSAGES}?task=x").content.decode()

    @pytest.mark.parametrize("term", ["%00", "args=", "args.%22=1", "tag=%00", "x" * 2000, "tag"])
    def test_odd_ones_are_refused_or_find_nothing(self, queue, viewer: Client, term: str):
        enqueue(queue)

        for path in (MESSAGES, HISTORY):
            assert viewer.get(f"{path}?match={term}").status_code in (200, 302)
            assert viewer.get(f"{path}?q={term}").status_code in (200, 302)

    def test_an_operation_on_everything_takes_it(self, queue: Connection, operator: Client):
        enqueue(queue, 2, metadata='{"tags": ["import"]}')
        enqueue(queue)

        page = operator.get(f"{BULK}?action=cancel&match=tag%3Dimport").content.decode()

        assert "tag=import" in page
        assert operator.get(f"{BULK}?action=cancel&match=tug").status_code == 400


class TestPickLists:
    def test_channels_are_links(self, queue: Connection, viewer: Client):
        for name in ("mail", "reports"):
            bury(queue, channel=name)

        assert choices(viewer, f"{MESSAGES}?channel=mail&state=dead", "channel") == [
            ("All", False),
            ("mail", True),
            ("reports", False),
        ]
        page = viewer.get(f"{MESSAGES}?state=dead").content.decode()
        assert f'href="{escape("?channel=reports&state=dead")}"' in page

    def test_the_first_of_many_are_links_and_all_are_suggested(self, queue, viewer: Client):
        names = [f"channel-{number:02}" for number in range(12)]
        for name in names:
            enqueue(queue, channel=name)

        assert [name for name, _ in choices(viewer, MESSAGES, "channel")[1:]] == names[:5]
        page = viewer.get(MESSAGES).content.decode()
        assert all(f'<option value="{name}">' in page for name in names)

    def test_the_chosen_one_is_always_a_link(self, queue: Connection, viewer: Client):
        enqueue(queue, channel="mail")

        shown = choices(viewer, f"{MESSAGES}?channel=gone", "channel")

        assert shown[1:] == [("gone", True), ("mail", False)]

    def test_tasks_with_the_most_runs_come_first(self, queue: Connection, viewer: Client):
        ran(queue, "shop.few", 1)
        ran(queue, "shop.many", 9)

        shown = [name for name, _ in choices(viewer, MESSAGES, "task")]

        assert shown[:3] == ["All", "shop.many", "shop.few"]
        assert '<option value="tests.jobs.keyed">' in viewer.get(MESSAGES).content.decode()

    def test_boxes_for_rare_values_are_closed_until_they_are_used(self, db, viewer: Client):
        def is_open(query: str) -> bool:
            page = viewer.get(MESSAGES + query).content.decode()
            return 'data-filter-title="class of the last error" open' in page

        assert not is_open("")
        assert is_open("?error=Boom")
