"""The page of a channel, and purges and trims that are counted first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags
from django.utils.http import urlencode

from pgqueue.models import Breaker, Channel, History, Message
from pgqueue.operating import bulk
from pgqueue.operating.channels import Channel as Operated
from pgqueue.testing import run_all
from tests.admin.conftest import Connection, Login
from tests.factories import bury, enqueue, insert, limit, register, run, schedule

PAGE = "/admin/pgqueue/channel/page/?name=mail"
PURGE, TRIM = PAGE.replace("page", "purge"), PAGE.replace("page", "trim")
HOUR = timedelta(hours=1)
STATES = ["held", "scheduled", "ready", "dead"]


def text(client: Client, path: str = PAGE) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def facts(client: Client) -> dict[str, str]:
    response: Any = client.get(PAGE)
    return dict(response.context["facts"])


@pytest.fixture
def editor(db: None, login: Login) -> Client:
    return login("view_channel", "change_channel", "view_policy", "add_policy", "change_policy")


@pytest.fixture
def purging(db: None, login: Login) -> Client:
    return login("view_channel", "view_message", "purge_message")


def test_it_shows_what_a_channel_has_that_nobody_has_configured(queue: Connection, viewer: Client):
    enqueue(queue, 3, channel="mail")
    schedule(queue, 2, channel="mail")
    bury(queue, 1, channel="other")

    shown = facts(viewer)

    assert (shown["Ready"], shown["Scheduled"], shown["Dead"]) == ("3", "2", "0")
    assert shown["Drained"].startswith("no")


def test_it_says_who_serves_it_and_if_nobody_does(queue: Connection, viewer: Client):
    register(queue, channels=["other"])
    assert "No worker is alive that serves it." in text(viewer)

    worker = register(queue)
    assert f'href="/admin/pgqueue/worker/{worker}/change/"' in text(viewer)


def test_it_shows_its_dead_letters_the_last_ones_first(queue: Connection, viewer: Client):
    first, second = (bury(queue, channel="mail", task=task)[0] for task in ("a.one", "a.two"))
    Message.objects.filter(pk=first).update(claimed_at=timezone.now() - timedelta(hours=1))

    page = text(viewer)

    assert page.index(f"a.two #{second}") < page.index(f"a.one #{first}")
    assert "Oops" in page


def test_it_shows_its_policies_and_leads_to_their_editor(db: None, editor: Client):
    policy = limit("mail", "channel", max_running=3, rate=100, per=timedelta(minutes=1))

    page = text(editor)

    assert f'<a href="/admin/pgqueue/policy/{policy.pk}/change/">3 at once, 100 in ' in page
    assert "policy/add/?channel=mail&amp;scope=each" in page
    assert "scope=channel" not in page


def test_it_is_paused_and_resumed_and_that_is_logged(db: None, editor: Client):
    editor.post(PAGE, {"switch": "pause"})
    assert Channel.objects.get(pk="mail").paused
    assert "It is paused" in text(editor)

    editor.post(PAGE, {"switch": "resume"})
    assert not Channel.objects.get(pk="mail").paused
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == [
        "Paused.",
        "Resumed.",
    ]


def test_it_is_paused_until_a_time_and_says_so(db: None, editor: Client):
    editor.post(PAGE, {"switch": "pause", "until": "2999-01-31T08:30"})

    assert Operated("mail").stats().paused_until == datetime(2999, 1, 31, 8, 30, tzinfo=UTC)
    assert "It is paused until 2999-01-31 08:30:00:" in text(editor)


def test_another_end_of_its_pause_is_told_and_logged(db: None, editor: Client):
    for until in ("2999-01-31T08:30", "2999-02-28T08:30", "2999-02-28T08:30", ""):
        editor.post(PAGE, {"switch": "pause", "until": until})

    assert Operated("mail").stats().paused_until is None
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == [
        "Paused.",
        "Changed the end of the pause.",
        "Changed the end of the pause.",
    ]


def test_its_breakers_are_shown_and_closed_by_a_resume(queue: Connection, editor: Client):
    limit("mail", "channel", breaker_failures=5, breaker_within=HOUR, breaker_pause=HOUR)
    limit("mail", "each", breaker_failures=5, breaker_within=HOUR, breaker_pause=HOUR)
    now = timezone.now()
    until = now + timedelta(minutes=5)
    probe = insert(queue, channel="mail", key="a", state="running")
    failed = {"channel": "mail", "failed_at": [now - timedelta(minutes=1)]}
    Breaker.objects.create(key="", open_until=until, **failed)
    Breaker.objects.create(
        key="a", open_until=now - HOUR, probe_id=probe, probe_attempt=1, **failed
    )
    Breaker.objects.create(key="b", open_until=now - HOUR, **failed)
    Breaker.objects.create(key="c", open_until=None, **failed)
    Message.objects.filter(pk=probe).update(attempt=1)

    page: Any = editor.get(PAGE)
    shown = {scope: strip_tags(state) for scope, state in page.context["breakers"]}
    editor.post(PAGE, {"switch": "resume"})

    end = f"{until:%Y-%m-%d %H:%M:%S %Z}"
    assert shown == {
        "the channel as a whole": f"open until {end}; 1 of 5 failures lately",
        "the key “a”": f"it waits for the end of #{probe}; 1 of 5 failures lately",
        "the key “b”": "one message is tried next; 1 of 5 failures lately",
        "the key “c”": "closed; 1 of 5 failures lately",
    }
    assert [each.key for each in Breaker.objects.all()] == ["c"]


@pytest.mark.parametrize("until", ["2001-01-31T08:30", "tomorrow"])
def test_its_pause_must_end_later_than_now(db: None, editor: Client, until: str):
    page = editor.post(PAGE, {"switch": "pause", "until": until}, follow=True)

    assert "The end of a pause must be later than now." in page.content.decode()
    assert not Channel.objects.exists()


def test_who_may_only_look_pauses_nothing(db: None, viewer: Client, login: Login):
    assert viewer.post(PAGE, {"switch": "pause"}).status_code == 403
    assert login("view_message").get(PAGE).status_code == 403
    assert not Channel.objects.exists()
    assert "Pause" not in text(viewer)


@pytest.mark.parametrize("name", ["", "a%00b", "n" * 300])
def test_what_is_no_channel_has_no_page(db: None, viewer: Client, name: str):
    assert viewer.get(f"/admin/pgqueue/channel/page/?name={name}").status_code == 400


def test_a_name_that_needs_escaping_has_one(queue: Connection, viewer: Client, login: Login):
    name = 'a&b="<i>'
    enqueue(queue, channel=name)
    Operated(name).pause()

    page = text(login("view_channel"), f"/admin/pgqueue/channel/page/?{urlencode({'name': name})}")

    assert "<i>" not in page
    assert "It is paused" in page


class TestAPurge:
    def test_is_counted_before_it_begins(self, queue: Connection, purging: Client):
        enqueue(queue, 3, channel="mail")
        run(queue, 1, channel="runs")

        page: Any = purging.post(PURGE, {"states": STATES})

        assert page.context["counted"] == (3, True)
        assert "3 messages would end as discarded." in page.content.decode()
        assert Message.objects.count() == 4

    def test_is_done_by_a_worker_and_logged(self, queue: Connection, purging: Client):
        dead, waiting = bury(queue, 2, channel="mail"), schedule(queue, 3, channel="mail")
        page: Any = purging.post(PURGE, {"states": ["scheduled"]})
        later = schedule(queue, channel="mail")

        done: Any = purging.post(
            PURGE,
            {"states": ["scheduled"], "confirmed": "1", "newest": page.context["newest"]},
            follow=True,
        )
        run_all()

        assert done.status_code == 200
        assert {*dead, *later} == set(Message.objects.values_list("pk", flat=True))
        assert History.objects.filter(pk__in=waiting, outcome="discarded").count() == 3
        assert "100" in purging.get(done.redirect_chain[-1][0]).content.decode()
        assert LogEntry.objects.filter(object_id="mail").get().change_message.startswith("Purge")

    def test_is_not_begun_if_the_channel_of_operations_is_full(
        self, queue: Connection, purging: Client
    ):
        limit(bulk.CHANNEL, "channel", max_size=1)
        schedule(queue, channel="mail")
        confirmed = {"states": ["scheduled"], "confirmed": "1", "newest": bulk.newest()}
        purging.post(PURGE, confirmed)

        page: Any = purging.post(PURGE, confirmed, follow=True)

        assert "The channel &#x27;operations&#x27;" in page.content.decode()
        assert page.redirect_chain == [(PAGE, 302)]

    def test_is_followed_by_its_user_without_the_permission_to_view_messages(
        self, queue: Connection, login: Login
    ):
        client = login("view_channel", "purge_message")
        schedule(queue, channel="mail")

        page: Any = client.post(
            PURGE, {"states": ["scheduled"], "confirmed": "1", "newest": bulk.newest()}, follow=True
        )

        assert page.status_code == 200
        assert page.context["told"]["said"] == "It waits for a worker."

    def test_is_for_those_who_may_purge(self, db: None, viewer: Client, operator: Client):
        assert [client.get(PURGE).status_code for client in (viewer, operator)] == [403, 403]
        assert [client.post(TRIM).status_code for client in (viewer, operator)] == [403, 403]

    def test_of_no_state_is_asked_about_again(self, db: None, purging: Client):
        page: Any = purging.post(PURGE, {"confirmed": "1", "newest": "9"})

        assert page.context["form"].errors
        assert not Message.objects.exists()


class TestATrim:
    @pytest.mark.parametrize(
        ("given", "count"),
        [
            ({"keep": "2"}, 4),
            ({"older_than": "1:00:00"}, 3),
            ({"keep": "5", "older_than": "60"}, 3),
        ],
    )
    def test_is_counted_before_it_begins(
        self, queue: Connection, purging: Client, given: dict[str, str], count: int
    ):
        old = schedule(queue, 3, channel="mail")
        Message.objects.filter(pk__in=old).update(created_at=timezone.now() - timedelta(hours=2))
        schedule(queue, 3, channel="mail")

        page: Any = purging.post(TRIM, given)

        assert page.context["counted"] == (count, True)
        assert Message.objects.count() == 6

    def test_leaves_the_newest(self, queue: Connection, purging: Client):
        ids = schedule(queue, 5, channel="mail")

        purging.post(TRIM, {"keep": "2", "confirmed": "1", "newest": str(ids[-1])})
        run_all()

        assert sorted(Message.objects.values_list("pk", flat=True)) == ids[3:]

    def test_of_nothing_is_asked_about_again(self, db: None, purging: Client):
        page: Any = purging.post(TRIM, {"confirmed": "1", "newest": "9"})

        assert "Give an age" in page.content.decode()
