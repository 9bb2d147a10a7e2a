"""Webhooks as operators meet them: made, edited, tested, paused; their secrets are shown once."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.utils import timezone

from pgqueue import Channel, webhooks
from pgqueue.models import History, Message, Subscription, Webhook
from pgqueue.options.webhook_options import new_secret
from pgqueue.states import State
from pgqueue.testing import run_all
from tests.admin.acting import shown_form, told
from tests.admin.conftest import Login
from tests.webhooks.conftest import _loopback_is_allowed, receiver, webhook_options  # noqa: F401
from tests.webhooks.receiver import Receiver

WEBHOOKS = "/admin/pgqueue/webhook/"
URL = "https://example.com/in/token-in-url"
COLUMNS = {
    "name": "shop",
    "url": URL,
    "secret": "",
    "enabled": "on",
    "topics": "order.*",
    "where": '{"total__gte": 100}',
    "predicate": "",
    "params": "{}",
    "start": "now",
    "headers": '{"X-Token": "token-in-header"}',
    "gzip": "on",
    "serializer": "",
    "timeout": "",
    "backoff": "null",
    "max_attempts": "",
    "channel": "",
    "batch": "",
    "split_by": "",
    "expires_after": "",
}
EDITS = ("view_webhook", "add_webhook", "change_webhook", "delete_webhook")


@pytest.fixture
def editor(db: None, login: Login) -> Client:
    return login(*EDITS, "operate_message", "view_message", "view_history")


@pytest.fixture
def caller(db: None, login: Login) -> Client:
    """A user who may operate webhooks, and not edit them."""
    return login("view_webhook", "operate_webhook")


def add(client: Client, **changed: str) -> Any:
    return client.post(f"{WEBHOOKS}add/", {**COLUMNS, **changed})


def change(client: Client, **changed: str) -> Any:
    # A form has its switches as they were shown, too.
    columns = {"initial-enabled": str(row().enabled), **COLUMNS, "channel": "webhooks"}
    columns |= {"max_attempts": "16", **changed}
    return client.post(
        f"{WEBHOOKS}shop/change/", {k: v for k, v in columns.items() if v != "(off)"}
    )


def act(client: Client, action: str, *names: str) -> Any:
    chosen = {"action": action, "_selected_action": names or ("shop",)}
    return client.post(WEBHOOKS, chosen, follow=True)


def page(client: Client, path: str = WEBHOOKS) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return unescape(response.content.decode())


def secrets_on(response: Any) -> list[str]:
    return re.findall(r"whsec_[A-Za-z0-9+/=]+", unescape(response.content.decode()))


def row(name: str = "shop") -> Webhook:
    return Webhook.objects.get(pk=name)


def test_one_is_made_and_its_secret_is_shown_once(editor: Client) -> None:
    response = add(editor)

    assert "no-store" in response["Cache-Control"]
    made = row()
    assert secrets_on(response) == [made.secret]
    assert (made.url, made.topics, made.where) == (URL, ["order.*"], {"total__gte": 100})
    assert (made.channel, made.max_attempts, made.gzip) == ("webhooks", 16, True)
    assert made.headers == {"X-Token": "token-in-header"}
    assert LogEntry.objects.count() == 1
    for path in (WEBHOOKS, f"{WEBHOOKS}shop/change/", f"{WEBHOOKS}shop/history/"):
        assert "whsec_" not in page(editor, path)


def test_the_form_of_a_new_one_shows_the_attempts_of_webhooks(editor: Client) -> None:
    form = editor.get(f"{WEBHOOKS}add/").context["adminform"].form

    assert form["max_attempts"].value() == 16


def test_all_options_are_kept(admin_client: Client) -> None:
    secret = new_secret()

    add(
        admin_client,
        secret=secret,
        cloudevents="on",
        timeout="00:00:03",
        backoff="[1, 2]",
        max_attempts="3",
        channel="hooks",
        batch="10",
        split_by="{key}",
        predicate="true",
    )

    made = row()
    assert (made.secret, made.cloudevents, made.backoff) == (secret, True, [1, 2])
    assert made.timeout is not None
    assert (made.timeout.total_seconds(), made.max_attempts) == (3, 3)
    assert (made.channel, made.batch, made.split_by) == ("hooks", 10, "{key}")
    assert made.predicate == "true"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("url", "ftp://example.com", "must begin with https"),
        ("url", "https://127.0.0.1/", "its address is private"),
        ("url", "", "required"),
        ("secret", "hidden", "must begin with 'whsec_'"),
        ("headers", '{"Host": "a"}', "set by pgqueue itself"),
        ("headers", "[1]", "must be a dict"),
        ("serializer", "os.system", "no function named"),
        ("timeout", "01:00:00", "300 seconds at most"),
        ("backoff", '"often"', "no backoff is named"),
        ("backoff", "[-1]", "must be from 0"),
        ("max_attempts", "0", "whole number"),
        ("batch", "0", "whole number"),
        ("split_by", "{key}", "give the batch a size"),
        ("topics", "a..b", "words with dots"),
        ("name", "{key}", "brace"),
    ],
)
def test_what_can_not_be_is_said_beside_its_field(
    editor: Client, settings: Any, field: str, value: str, said: str
) -> None:
    settings.PGQUEUE = {}

    response = add(editor, **{field: value})

    assert said in unescape(response.content.decode())
    assert not Subscription.objects.exists()


def test_a_name_that_is_taken_is_refused(editor: Client) -> None:
    add(editor)

    assert "already" in add(editor).content.decode()


def test_one_is_edited_and_what_workers_write_is_left(editor: Client) -> None:
    add(editor)
    Webhook.objects.update(failures=3, failing_since=timezone.now())
    before = row()

    change(editor, url="https://example.com/other", batch="5", headers="{}", topics="a\nb")

    made = row()
    assert (made.url, made.batch, made.headers) == ("https://example.com/other", 5, {})
    assert (made.topics, made.exact) == (["a", "b"], ["a", "b"])
    assert made.task.endswith("deliver_batch")
    assert (made.secret, made.salt, made.failures) == (before.secret, before.salt, 3)


def test_one_is_disabled_and_enabled_by_its_page(editor: Client) -> None:
    add(editor)

    change(editor, enabled="(off)")
    assert (row().enabled, row().paused) == (False, True)
    assert "disabled" in page(editor)
    change(editor)
    assert (row().enabled, row().paused) == (True, False)


def test_an_old_form_enables_none(editor: Client) -> None:
    add(editor)
    old = shown_form(editor, f"{WEBHOOKS}shop/change/", timeout="00:00:05")
    webhooks.disable("shop")

    saved = editor.post(f"{WEBHOOKS}shop/change/", old)

    assert saved.status_code == 302
    assert (row().enabled, row().timeout) == (False, timedelta(seconds=5))


def test_one_is_deleted_with_its_subscription(editor: Client) -> None:
    add(editor)

    editor.post(f"{WEBHOOKS}shop/delete/", {"post": "yes"})

    assert not Subscription.objects.exists()


def test_the_secret_is_rotated_and_the_new_one_shown_once(editor: Client) -> None:
    add(editor)
    old = row().secret

    response = act(editor, "rotate")

    assert secrets_on(response) == [row().secret] != [old]
    assert row().signing_secrets(timezone.now()) == [row().secret, old]
    assert "Rotated its secret." in page(editor, f"{WEBHOOKS}shop/history/")


def test_new_secrets_are_shown_also_if_one_webhook_is_invalid(editor: Client) -> None:
    add(editor)
    webhooks.create("wrong", URL)
    Webhook.objects.filter(pk="wrong").update(url="http://10.0.0.1/")
    old = row().secret

    response = act(editor, "rotate", "shop", "wrong")

    assert secrets_on(response) == [row().secret] != [old]
    assert any(said.startswith("wrong: ") for said in told(response))


def test_new_secrets_are_shown_also_if_the_database_refuses_one(
    editor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "locked", "shop"):
        webhooks.create(name, URL)
    real = webhooks.rotate

    def rotate(name: str, **options: Any) -> str:
        if name == "locked":
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")
        return real(name, **options)

    monkeypatch.setattr(webhooks, "rotate", rotate)

    response = act(editor, "rotate", "first", "locked", "shop")

    assert secrets_on(response) == [row("first").secret, row("shop").secret]
    assert told(response) == ["locked: The database has failed. The server's log has the error."]


@pytest.mark.parametrize("on_full", ["refuse", "drop"])
def test_a_test_event_that_finds_no_room_keeps_no_other(editor: Client, on_full: Any) -> None:
    add(editor)
    webhooks.create("full", URL, channel="full")
    Channel("full").policy(max_size=1)
    Channel("full").configure(on_full=on_full)
    webhooks.send_test("full")

    response = act(editor, "send_test", "full", "shop")

    failed, sent = told(response)
    assert failed.startswith("full: The channel 'full' ")
    assert sent.startswith("shop: the test event is the message ")


def test_a_test_event_is_sent_and_its_answer_is_a_click_away(
    editor: Client,
    receiver: Receiver,  # noqa: F811
) -> None:
    webhooks.create("shop", receiver.url)
    receiver.answer(200, b"received with thanks")

    response = act(editor, "send_test")
    run_all()

    (path,) = re.findall(r'href="(/admin/pgqueue/message/\d+/change/)"', response.content.decode())
    shown = unescape(editor.get(path, follow=True).content.decode())
    assert "received with thanks" in shown
    assert len(receiver.posts) == 1


def test_dead_letters_are_found_and_replayed(
    editor: Client,
    receiver: Receiver,  # noqa: F811
) -> None:
    webhooks.create("shop", receiver.url)
    receiver.answer(500, b"what a day")
    webhooks.send_test("shop")
    run_all()
    links = re.findall(r'href="([^"]*q=shop[^"]*)"', page(editor, f"{WEBHOOKS}shop/change/"))

    listed = [page(editor, link) for link in links]
    said = told(act(editor, "replay"))
    run_all()

    assert len(links) == 3
    assert ["what a day" in each for each in listed] == [True, True, False]
    assert "1 dead letter replayed" in str(said)
    assert History.objects.get().result["status"] == 200


def test_one_is_paused_and_resumed_by_who_may_operate(
    caller: Client,
    receiver: Receiver,  # noqa: F811
) -> None:
    webhooks.create("shop", receiver.url)

    act(caller, "pause")
    assert row().paused
    assert "paused" in page(caller)
    act(caller, "resume")
    assert not row().paused
    act(caller, "send_test")
    assert Message.objects.get().state == State.READY


def test_one_that_is_disabled_is_not_resumed(caller: Client) -> None:
    webhooks.create("shop", URL)
    webhooks.disable("shop")

    assert "enable it instead" in str(told(act(caller, "resume")))


def test_who_may_only_look_sees_nothing_that_lets_one_in_and_operates_nothing(
    db: None, login: Login, caller: Client
) -> None:
    viewer = login("view_webhook")
    webhooks.create("shop", URL, headers={"X-Token": "token-in-header"})
    old = row().secret

    for client in (viewer, caller):
        for path in (WEBHOOKS, f"{WEBHOOKS}shop/change/"):
            shown = page(client, path)
            assert "https://example.com/" in shown
            assert "token-in" not in shown
            assert "whsec_" not in shown
        for action in ("rotate", "replay"):
            act(client, action)
        client.post(f"{WEBHOOKS}shop/delete/", {"post": "yes"})
        change(client, url="https://example.com/mine")
    for action in ("pause", "send_test"):
        act(viewer, action)

    assert (row().secret, row().url, row().paused) == (old, URL, False)
    assert not Message.objects.exists()


def test_subscriptions_are_listed_without_them(db: None, login: Login) -> None:
    webhooks.create("shop", URL)

    assert "shop" not in page(login("view_subscription"), "/admin/pgqueue/subscription/")


def test_a_condition_in_sql_is_written_by_superusers_alone(
    editor: Client, admin_client: Client
) -> None:
    add(editor, predicate="e.key = 'a'")
    assert row().predicate == ""

    change(admin_client, predicate="e.key = 'b'")
    change(editor, predicate="e.key = 'c'", batch="7")

    assert (row().predicate, row().batch) == ("e.key = 'b'", 7)
    assert "e.key = 'b'" in page(editor, f"{WEBHOOKS}shop/change/")
    for path in (f"{WEBHOOKS}shop/change/", f"{WEBHOOKS}add/"):
        assert 'name="predicate"' not in page(editor, path)
