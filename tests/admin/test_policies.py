"""Policies and lanes as operators meet them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils.html import strip_tags

from pgqueue.models import Bell, Channel, Lane, Policy
from pgqueue.models.fields import StatementTimestamp
from tests.admin.conftest import Connection, Login
from tests.factories import insert

POLICIES = "/admin/pgqueue/policy/"
COLUMNS = {
    "channel": "mail",
    "scope": "channel",
    "key": "",
    "max_running": "",
    "rate": "",
    "per": "1",
    "burst": "",
    "max_size": "",
    "weight": "",
    "breaker_failures": "",
    "breaker_within": "",
    "breaker_pause": "",
}


@pytest.fixture
def editor(db: None, login: Login) -> Client:
    return login("view_policy", "add_policy", "change_policy", "delete_policy")


def save(client: Client, path: str, **changed: str) -> Any:
    """Have the effect shown, and save that; or return the page that says why not."""
    shown = client.post(path, {**COLUMNS, **changed})
    previewed = shown.context.get("previewed") if shown.context else None
    if previewed is None:
        return shown
    return client.post(path, {**COLUMNS, **changed, "_previewed": previewed})


def add(client: Client, **changed: str) -> Any:
    return save(client, f"{POLICIES}add/", **changed)


def test_a_policy_is_added_changed_and_deleted_and_each_is_logged(editor: Client):
    added = add(editor, max_running="3", rate="5", per="00:01:00")
    policy = Policy.objects.get()
    assert (policy.max_running, policy.rate, policy.per) == (3, 5.0, timedelta(minutes=1))

    changed = save(editor, f"{POLICIES}{policy.pk}/change/", max_running="4")
    assert Policy.objects.values_list("max_running", "rate").get() == (4, None)

    deleted = editor.post(f"{POLICIES}{policy.pk}/delete/", {"post": "yes"})
    assert not Policy.objects.exists()

    assert [page.status_code for page in (added, changed, deleted)] == [302] * 3
    assert (
        list(LogEntry.objects.order_by("id").values_list("object_repr", flat=True)) == ["mail"] * 3
    )
    assert Bell.objects.filter(channel="mail", key=None).count() == 3


def test_a_policy_gets_a_breaker_after_its_preview(editor: Client):
    breaker = {"breaker_failures": "5", "breaker_within": "00:01:00", "breaker_pause": "00:05:00"}

    shown = editor.post(f"{POLICIES}add/", {**COLUMNS, **breaker}).content.decode()
    add(editor, **breaker)

    assert "The circuit breaker opens by 5 failures in 1" in shown
    policy = Policy.objects.get()
    assert (policy.breaker_failures, policy.breaker_pause) == (5, timedelta(minutes=5))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"max_running": "0"}, "max_running must be 1 or more."),
        ({"rate": "0"}, "rate must be a millionth or more"),
        ({"rate": "5", "per": "0"}, "per must be longer than 0"),
        ({"rate": "1000000", "per": "0.001"}, "a start must take a microsecond or more"),
        ({"rate": "5", "burst": "0"}, "burst must be 1 or more."),
        ({"max_size": "0"}, "max_size must be 1 or more."),
        ({"weight": "2"}, "weight must be 1 to 100, and is for keys."),
        ({"scope": "each", "weight": "101"}, "weight must be 1 to 100"),
        ({"breaker_failures": "5"}, "A breaker needs 1 to 1000 failures, and two times"),
        (
            {"breaker_failures": "0", "breaker_within": "60", "breaker_pause": "30"},
            "A breaker needs 1 to 1000 failures",
        ),
        ({"scope": "key", "max_size": "1"}, "A policy for one key names it"),
        ({"scope": "each", "key": "a", "max_size": "1"}, "the others don&#x27;t"),
    ],
)
def test_what_can_not_be_is_said_on_the_page(editor: Client, columns: dict[str, str], said: str):
    page = add(editor, **columns)

    assert said in page.content.decode()
    assert not Policy.objects.exists()


def test_a_policy_that_is_there_is_not_added_again(editor: Client):
    Policy.objects.create(channel="mail", scope="each", max_running=1)

    page = add(editor, scope="each", max_running="2")

    assert "There is such a policy already." in page.content.decode()
    assert Policy.objects.get().max_running == 1


def test_policies_are_listed_by_channel(editor: Client):
    for channel in ("mail", "other"):
        Policy.objects.create(channel=channel, scope="key", key="k:1", max_running=1)

    page = editor.get(f"{POLICIES}?q=mail")

    assert [each.channel for each in page.context["cl"].result_list] == ["mail"]  # type: ignore[attr-defined]


@pytest.mark.django_db(databases=["default", "second"])
def test_policies_are_those_of_the_queues_database(settings, login: Login):
    settings.PGQUEUE = {"DATABASE": "second"}
    editor = login("view_policy", "add_policy", "change_policy", "delete_policy")
    Policy.objects.using("second").create(channel="mail", scope="channel", max_running=1)

    refused = add(editor, max_running="2")
    added = add(editor, channel="other", max_running="2")
    policy = Policy.objects.using("second").get(channel="other")
    deleted = editor.post(f"{POLICIES}{policy.pk}/delete/", {"post": "yes"})

    assert b"There is such a policy already." in refused.content
    assert (added.status_code, deleted.status_code) == (302, 302)
    assert Policy.objects.using("second").get().channel == "mail"
    assert not Policy.objects.using("default").exists()


class TestThePageOfAChannel:
    @pytest.fixture
    def page(self, db: None, login: Login) -> Any:
        """A function that returns the page of the channel "mail"."""
        Channel.objects.create(name="mail")
        client = login("view_channel", "change_channel")
        return lambda: client.get("/admin/pgqueue/channel/mail/change/").content.decode()

    def test_shows_its_lanes_and_what_is_in_them(self, queue: Connection, page: Any):
        now = StatementTimestamp()
        for key, state in (("<b>", "saturated"), ("c:2", "throttled")):
            Lane.objects.create(
                channel="mail", key=key, state=state, turn_at=now, tat=now, wake_at=now
            )
        Lane.objects.create(channel="other", key="c:3", state="idle", turn_at=now, tat=now)
        for _ in range(101):
            insert(queue, channel="mail", key="<b>", governed=True)
        insert(queue, channel="mail", key="<b>", state="running")

        shown = page()

        rows = ["|".join(strip_tags(row).split()) for row in shown.split("<tr>")]
        assert any(row.startswith("&lt;b&gt;|Saturated|1|100+|") for row in rows)
        assert any(row.startswith("c:2|Throttled|0|0|") for row in rows)
        assert "c:3" not in shown

    def test_shows_no_more_than_a_hundred(self, queue: Connection, page: Any):
        queue.execute(
            "INSERT INTO pgqueue_lane SELECT 'mail', 'k' || n, 'idle', statement_timestamp(), "
            "statement_timestamp() FROM generate_series(1, 150) n"
        )

        shown = page()

        assert shown.count("is-idle") == 100
        assert "The first 100 by key." in shown

    def test_has_none_where_none_is_governed(self, page: Any):
        assert "<th>Last turn</th>" not in page()
        assert 'href="/admin/pgqueue/policy/?channel=mail"' in page()
