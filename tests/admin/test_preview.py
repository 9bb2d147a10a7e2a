"""What the editor of policies says before anything is saved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from pgqueue.models import Policy
from pgqueue.operating.channels import Channel
from tests.admin.conftest import Connection, Login
from tests.admin.test_policies import COLUMNS, POLICIES, save
from tests.factories import enqueue, insert, limit


@pytest.fixture
def editor(db: None, login: Login) -> Client:
    return login("view_policy", "add_policy", "change_policy", "view_channel")


def effect(client: Client, **changed: str) -> str:
    page: Any = client.post(f"{POLICIES}add/", {**COLUMNS, **changed})
    assert page.status_code == 200, "it was saved"
    return " ".join(map(str, page.context["preview"]))


def running(queue: Connection, count: int, key: str = "") -> None:
    for _ in range(count):
        insert(queue, channel="mail", key=key, state="running")


def test_nothing_is_saved_before_its_effect_was_shown(db: None, editor: Client):
    page: Any = editor.post(f"{POLICIES}add/", {**COLUMNS, "max_running": "3"})

    assert "What this would change now" in page.content.decode()
    assert "Please correct" not in page.content.decode()
    assert not Policy.objects.exists()


def test_what_was_changed_since_is_shown_again(db: None, editor: Client):
    page: Any = editor.post(f"{POLICIES}add/", {**COLUMNS, "max_running": "3"})
    previewed = page.context["previewed"]

    changed = {**COLUMNS, "max_running": "4", "_previewed": previewed}
    again: Any = editor.post(f"{POLICIES}add/", changed)

    assert again.context["previewed"] != previewed
    assert not Policy.objects.exists()


def test_it_is_shown_again_when_that_is_asked_for(db: None, editor: Client):
    page: Any = editor.post(f"{POLICIES}add/", {**COLUMNS, "max_running": "3"})
    again = {**COLUMNS, "max_running": "3", "_previewed": page.context["previewed"], "_again": "1"}

    assert "What this would change now" in editor.post(f"{POLICIES}add/", again).content.decode()
    assert not Policy.objects.exists()


def test_what_was_shown_is_saved_and_leads_back_to_the_channel(db: None, editor: Client):
    answer = save(editor, f"{POLICIES}add/", max_running="3")

    assert answer.headers["Location"] == "/admin/pgqueue/channel/page/?name=mail"
    assert Policy.objects.get().max_running == 3


def test_a_limit_says_how_many_run_and_how_many_are_held_back(queue: Connection, editor: Client):
    running(queue, 2)
    enqueue(queue, 10, channel="mail")

    assert (
        "2 messages run now, and 5 may. 3 more are started at once; 7 ready ones are held back."
        in (effect(editor, max_running="5"))
    )
    assert "None is started until 1 more has ended." in effect(editor, max_running="1")
    assert "No message is held back" in effect(editor, max_running="50")


def test_a_rate_says_how_long_the_backlog_takes(queue: Connection, editor: Client):
    enqueue(queue, 600, channel="mail")

    said = effect(editor, rate="5", per="1")

    assert "The backlog of 600 ready messages takes 2\xa0minutes at this rate." in said
    assert "the backlog would grow" in said


@pytest.mark.parametrize(
    ("on_full", "word"), [("refuse", "refused (ChannelFull)"), ("drop", "dropped")]
)
def test_a_size_says_what_would_be_refused(
    queue: Connection, editor: Client, on_full: str, word: str
):
    Channel("mail").configure(on_full=on_full)
    enqueue(queue, 10, channel="mail")

    assert word in effect(editor, max_size="10")
    assert "None is refused until 5 more have been enqueued." in effect(editor, max_size="15")


def test_a_limit_of_each_key_names_the_keys_that_are_held_back(queue: Connection, editor: Client):
    running(queue, 3, key="a")
    running(queue, 1, key="b")
    enqueue(queue, 2, channel="mail", key="b")
    enqueue(queue, 9, channel="mail")

    said = effect(editor, scope="each", max_running="2")

    assert "2 keys have a message now." in said
    assert "More than 2 run now of: “a” (3 running, 0 ready)." in said
    assert "1 key would be held back: “b” (1 running, 2 ready)." in said


def test_keys_with_a_policy_of_their_own_are_not_counted(queue: Connection, editor: Client):
    limit("mail", key="a", max_running=9)
    enqueue(queue, 5, channel="mail", key="a")

    said = effect(editor, scope="each", max_running="1")

    assert "1 key has a policy of its own" in said
    assert "No key would be held back." in said


def test_a_rate_that_needs_ages_says_so(queue: Connection, editor: Client):
    enqueue(queue, 100, channel="mail")

    said = effect(editor, rate="0.01", per="365 00:00:00")

    assert "takes more than 100\xa0years at this rate." in said


def test_a_rate_of_one_key_is_about_its_backlog(queue: Connection, editor: Client):
    enqueue(queue, 120, channel="mail", key="a")
    enqueue(queue, 900, channel="mail", key="b")

    said = effect(editor, scope="key", key="a", rate="1")

    assert "120 ready messages of the key a, takes 2\xa0minutes" in said
    assert "keys have" not in said


def test_a_size_of_each_key_names_those_that_are_full(queue: Connection, editor: Client):
    enqueue(queue, 5, channel="mail", key="a")
    enqueue(queue, 4, channel="mail", key="b")

    assert "refused (ChannelFull): “a” (0 running, 5 ready)." in effect(
        editor, scope="each", max_size="5"
    )
    assert "No key is full" in effect(editor, scope="each", max_size="6")


def test_a_policy_that_is_there_is_previewed_when_it_changes(queue: Connection, editor: Client):
    policy = limit("mail", "channel", rate=1, per=timedelta(seconds=1))
    enqueue(queue, 30, channel="mail")

    page: Any = editor.post(f"{POLICIES}{policy.pk}/change/", {**COLUMNS, "rate": "10"})

    assert "takes 3 seconds" in " ".join(page.context["preview"])
    assert Policy.objects.get().rate == 1
