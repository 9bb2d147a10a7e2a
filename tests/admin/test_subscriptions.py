"""Subscriptions as operators meet them: added, edited, paused; those of code only paused."""

from __future__ import annotations

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from pgqueue import publish
from pgqueue.events import subscriptions
from pgqueue.models import Cursor, Event, Subscription
from tests.admin.acting import shown_form, told
from tests.admin.conftest import Connection, Login
from tests.factories import record

SUBSCRIPTIONS = "/admin/pgqueue/subscription/"
COLUMNS = {
    "name": "thanks",
    "topics": "order.*",
    "where": '{"total__gte": 100}',
    "start": "now",
    "task": "tests.jobs.mail",
    "channel": "",
    "key": "",
    "batch": "",
    "split_by": "",
    "priority": "0",
    "weight": "1",
    "max_attempts": "5",
    "expires_after": "",
}
ALL = ("view_subscription", "add_subscription", "change_subscription", "delete_subscription")


@pytest.fixture
def editor(db: None, login: Login) -> Client:
    return login(*ALL)


def add(client: Client, **changed: str) -> Any:
    return client.post(f"{SUBSCRIPTIONS}add/", {**COLUMNS, **changed})


def change(client: Client, name: str = "thanks", **changed: str) -> Any:
    return client.post(f"{SUBSCRIPTIONS}{name}/change/", {**COLUMNS, **changed})


def act(client: Client, action: str, *names: str, **given: str) -> Any:
    chosen = {"action": action, "_selected_action": names, **given}
    return client.post(SUBSCRIPTIONS, chosen, follow=True)


def page(client: Client, path: str = SUBSCRIPTIONS) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return unescape(response.content.decode())


def stored(name: str = "thanks", **columns: Any) -> Subscription:
    row = subscriptions.create(name, "tests.jobs.mail", topics="order.*")
    Subscription.objects.filter(pk=name).update(**columns)
    return row


def declared(name: str = "thanks", **columns: Any) -> Subscription:
    return stored(name, declared=True, **{"seen_at": timezone.now(), **columns})


def states(client: Client, query: str = "") -> dict[str, str]:
    """Return what the list says of each."""
    response: Any = client.get(f"{SUBSCRIPTIONS}{query}")
    shown = response.context["cl"]
    return {row.name: shown.model_admin.state(row) for row in shown.result_list}


def test_one_is_added_changed_and_deleted_and_each_is_logged(editor: Client):
    added = add(editor, topics="order.paid, order.made\norder.paid stock.**", key="{key}")
    row = Subscription.objects.get()
    assert (row.topics, row.where) == (
        ["order.paid", "order.made", "stock.**"],
        {"total__gte": 100},
    )
    assert (row.channel, row.priority, row.max_attempts) == ("mail", 5, 2)
    assert (row.exact, row.key_path, row.declared) == (["order.paid", "order.made"], "key", False)

    changed = change(editor, topics="order.paid", channel="other", batch="10", split_by="{topic}")
    row = Subscription.objects.get()
    assert (row.topics, row.regex, row.channel) == (["order.paid"], "", "other")
    assert (row.batch, row.split_by, row.split_path) == (10, "{topic}", "topic")

    deleted = editor.post(f"{SUBSCRIPTIONS}thanks/delete/", {"post": "yes"})
    assert not Subscription.objects.exists()

    assert [each.status_code for each in (added, changed, deleted)] == [302] * 3
    assert LogEntry.objects.filter(object_repr="thanks").count() == 3


def test_raw_messages_need_no_task(editor: Client):
    add(editor, task="", channel="partners")

    assert Subscription.objects.values_list("task", "channel").get() == ("", "partners")


@pytest.mark.parametrize(
    ("start", "position"), [("now", 3), ("beginning", 0), ("2", 2), ("2020-01-01", 0)]
)
def test_a_new_one_begins_where_it_is_told(
    queue: Connection, editor: Client, start: str, position: int
):
    record(queue, 3)

    add(editor, start=start)

    assert Subscription.objects.get().position == position


@pytest.mark.django_db(transaction=True)
def test_what_was_published_before_a_new_one_is_not_for_it(login: Login):
    publish("order.paid")

    add(login(*ALL))

    assert Subscription.objects.get().position == Event.objects.get().position


@pytest.mark.parametrize(
    ("field", "given", "said"),
    [
        ("name", "n" * 501, "500 bytes"),
        ("topics", "order..paid", "words with dots"),
        ("topics", "order.** order.*.**.x", "'**' at the end"),
        ("where", "[1]", "a dict of conditions"),
        ("where", '{"total__gte": []}', "text, a number"),
        ("where", '{"": 1}', "names with '__'"),
        ("where", "{", "valid JSON"),
        ("task", "tests.jobs.gone", "No task is named"),
        ("channel", "c" * 201, "200 bytes"),
        ("key", "{payload}", "{payload.NAME}"),
        ("key", "k" * 1001, "1000 bytes"),
        ("batch", "0", "from 1 to 10000"),
        ("batch", "10001", "from 1 to 10000"),
        ("split_by", "{topic}", "give the batch a size"),
        ("start", "99", "no position 99"),
        ("start", "soon", "now, beginning, a position"),
        ("expires_after", "-5", "longer than 0"),
    ],
)
def test_what_can_not_be_is_said_at_its_field(editor: Client, field: str, given: str, said: str):
    answer = add(editor, **{field: given})

    errors = answer.context["adminform"].form.errors
    assert list(errors) == [field]
    assert said in " ".join(errors[field])
    assert not Subscription.objects.exists()


def test_raw_messages_without_a_channel_are_refused(editor: Client):
    answer = add(editor, task="")

    assert list(answer.context["adminform"].form.errors) == ["channel"]


@pytest.mark.parametrize(
    ("field", "given"),
    [("priority", "101"), ("weight", "101"), ("weight", "0"), ("max_attempts", "0")],
)
def test_a_message_has_the_bounds_of_others(editor: Client, field: str, given: str):
    stored()

    answer = change(editor, **{field: given})

    assert list(answer.context["adminform"].form.errors) == [field]


def test_one_that_is_there_is_not_added_again(editor: Client):
    stored()

    answer = add(editor, task="tests.jobs.add")

    assert "There is such a subscription already." in answer.content.decode()
    assert Subscription.objects.get().task == "tests.jobs.mail"


class TestEditing:
    def test_writes_only_what_was_changed(self, editor: Client):
        stored(where={"total__gte": 100}, channel="mail", follows=True, position=7, error="a gap")

        change(editor, channel="mail", ordered="on", key="{key}")

        row = Subscription.objects.get()
        assert (row.ordered, row.key, row.key_path) == (True, "{key}", "key")
        assert (row.follows, row.position, row.error) == (True, 7, "a gap")

    def test_of_the_same_topics_changes_nothing(self, editor: Client):
        stored(topics=["order.*", "stock.*"], where={"total__gte": 100}, channel="mail", priority=0)
        Subscription.objects.update(max_attempts=5)

        change(editor, topics="order.*\r\nstock.*", channel="mail")

        assert LogEntry.objects.get().get_change_message() == "No fields changed."

    def test_starts_its_expiry_anew(self, editor: Client):
        stored()

        change(editor, expires_after="1:00:00")

        expires_at = Subscription.objects.get().expires_at
        assert expires_at
        assert expires_at > timezone.now() + timedelta(minutes=59)

    def test_that_resumes_one_forgets_why_it_was_paused(self, editor: Client):
        stored(paused=True, error="DataError: no")

        change(editor, **{"initial-paused": "True"})

        assert Subscription.objects.values_list("paused", "error").get() == (False, "")

    def test_with_an_old_form_resumes_none(self, editor: Client):
        stored()
        old = shown_form(editor, f"{SUBSCRIPTIONS}thanks/change/", topics="stock.*")
        Subscription.objects.pause()

        saved = editor.post(f"{SUBSCRIPTIONS}thanks/change/", old)

        assert saved.status_code == 302
        row = Subscription.objects.get()
        assert (row.paused, row.topics) == (True, ["stock.*"])

    def test_one_of_code_pauses_it_and_nothing_else(self, editor: Client):
        declared()

        change(editor, paused="on", topics="stock.*", task="tests.jobs.add", batch="3")

        row = Subscription.objects.get()
        assert (row.paused, row.topics, row.task, row.batch) == (
            True,
            ["order.*"],
            "tests.jobs.mail",
            None,
        )


class TestDeleting:
    def test_leaves_one_of_code(self, editor: Client):
        declared()

        alone = editor.post(f"{SUBSCRIPTIONS}thanks/delete/", {"post": "yes"})
        act(editor, "delete_selected", "thanks", post="yes")

        assert (alone.status_code, Subscription.objects.count()) == (403, 1)

    def test_takes_one_that_no_code_has_any_more(self, editor: Client):
        declared(seen_at=timezone.now() - timedelta(minutes=6))

        editor.post(f"{SUBSCRIPTIONS}thanks/delete/", {"post": "yes"})

        assert not Subscription.objects.exists()

    def test_takes_many(self, editor: Client):
        stored()
        stored("other")

        act(editor, "delete_selected", "thanks", "other", post="yes")

        assert not Subscription.objects.exists()


class TestTheList:
    def test_says_what_each_wants_and_where_it_is(self, queue: Connection, editor: Client):
        record(queue, 5)
        Cursor.objects.create(group="", partition=0, position=5)
        stored("a", follows=True, where={"country": "DÉ"})
        stored("b", position=2)
        stored("c", paused=True, error="DataError: no")
        stored("d", topics=[])
        declared("e")
        declared("f", seen_at=timezone.now() - timedelta(minutes=6))

        assert states(editor) == {
            "a": "follows",
            "b": "catching up, 3 events behind",
            "c": "paused: DataError: no",
            "d": "follows",
            "e": "follows",
            "f": "in no worker's code",
        }
        shown = page(editor)
        assert '{"country": "DÉ"}' in shown
        assert 'field-shown_topics">**<' in shown

    @pytest.mark.parametrize(
        ("state", "names"),
        [
            ("follows", ["a"]),
            ("behind", ["b"]),
            ("paused", ["c", "d"]),
            ("failed", ["d"]),
            ("gone", ["e", "f"]),
        ],
    )
    def test_is_narrowed_by_the_state(self, editor: Client, state: str, names: list[str]):
        stored("a", follows=True)
        stored("b")
        stored("c", paused=True)
        stored("d", paused=True, error="DataError: no")
        declared("e", seen_at=timezone.now() - timedelta(minutes=6), follows=True)
        declared("f", seen_at=None)

        assert list(states(editor, f"?state={state}")) == names

    def test_finds_one_by_a_part_of_its_name(self, editor: Client):
        stored("thanks")
        stored("other")

        assert list(states(editor, "?q=than")) == ["thanks"]


class TestThePage:
    def test_says_of_one_of_code_what_the_code_says(self, queue: Connection, editor: Client):
        record(queue, 3)
        declared(where={"total__gte": 100}, position=1)

        shown = page(editor, f"{SUBSCRIPTIONS}thanks/change/")

        assert '{"total__gte": 100}' in shown
        assert "catching up, 2 events behind" in shown
        assert 'name="paused"' in shown
        assert 'name="topics"' not in shown

    def test_has_each_topic_in_a_line(self, editor: Client):
        stored(topics=["order.*", "stock.*"])

        assert "order.*\nstock.*</textarea>" in page(editor, f"{SUBSCRIPTIONS}thanks/change/")

    def test_is_read_only_to_those_who_may_look(self, db: None, login: Login):
        stored(topics=["order.*", "stock.*"])

        shown = page(login("view_subscription"), f"{SUBSCRIPTIONS}thanks/change/")

        assert "order.*, stock.*" in shown


class TestActions:
    def test_pause_and_resume(self, editor: Client):
        declared(position=7)
        stored("other", paused=True, error="DataError: no")

        paused = act(editor, "pause", "thanks", "other")
        assert Subscription.objects.filter(paused=True).count() == 2
        resumed = act(editor, "resume", "thanks", "other")

        assert told(paused) == ["1 paused."]
        assert told(resumed) == ["2 resumed."]
        assert set(Subscription.objects.values_list("paused", "error")) == {(False, "")}
        assert Subscription.objects.get(pk="thanks").position == 7
        assert LogEntry.objects.count() == 3

    def test_are_for_those_who_may_change_them(self, db: None, login: Login):
        stored()

        act(login("view_subscription"), "pause", "thanks")

        assert not Subscription.objects.get().paused


@pytest.mark.django_db(databases=["default", "second"])
def test_they_are_those_of_the_queues_database(settings, login: Login):
    settings.PGQUEUE = {"DATABASE": "second"}
    editor = login(*ALL)

    add(editor)
    refused = add(editor)
    change(editor, topics="stock.*")
    act(editor, "pause", "thanks")

    assert b"There is such a subscription already." in refused.content
    row = Subscription.objects.using("second").get()
    assert (row.topics, row.paused) == (["stock.*"], True)
    assert not Subscription.objects.using("default").exists()


def test_a_condition_in_sql_is_written_by_superusers_alone(editor: Client, admin_client: Client):
    bare = '"predicate"'

    assert "name=" + bare in page(admin_client, f"{SUBSCRIPTIONS}add/")
    assert "name=" + bare not in page(editor, f"{SUBSCRIPTIONS}add/")
    add(editor, predicate="e.key = 'a'")
    assert Subscription.objects.get().predicate == ""

    change(admin_client, channel="mail", predicate="e.key = 'b'", params="{}")
    assert Subscription.objects.get().predicate == "e.key = 'b'"
    change(editor, channel="other", predicate="e.key = 'c'", params="{}")
    row = Subscription.objects.get()
    assert (row.predicate, row.channel) == ("e.key = 'b'", "other")
    # It is shown, since it decides what the subscription does.
    assert "e.key = 'b'" in page(editor, f"{SUBSCRIPTIONS}thanks/change/")
    assert "name=" + bare not in page(editor, f"{SUBSCRIPTIONS}thanks/change/")


def test_a_condition_in_sql_that_may_do_anything_is_refused_beside_its_field(admin_client: Client):
    response = add(admin_client, predicate="true); DELETE FROM auth_user; SELECT (true")

    assert "multiple commands" in unescape(response.content.decode())
    assert not Subscription.objects.exists()
