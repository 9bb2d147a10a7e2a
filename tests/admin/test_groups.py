"""Groups of the event log as operators meet them: listed, looked at, made, moved, resumed."""

from __future__ import annotations

from datetime import timedelta
from html import unescape
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.test import Client

from pgqueue import Rebuild, consumer, publish
from pgqueue.engine import groups as engine
from pgqueue.engine import readers
from pgqueue.events import groups
from pgqueue.models import Cursor, Group
from tests.admin.acting import told
from tests.admin.conftest import Connection, Login
from tests.factories import record

GROUPS = "/admin/pgqueue/group/"
ALL = ("view_group", "add_group", "change_group", "delete_group")
RETRY = timedelta(minutes=1)


@pytest.fixture
def editor(db: None, login: Login) -> Client:
    return login(*ALL)


def add(client: Client, **given: str) -> Any:
    return client.post(
        f"{GROUPS}add/", {"name": "billing", "partitions": "1", "start": "now", **given}
    )


def move(client: Client, to: str, name: str = "billing") -> Any:
    return client.post(f"{GROUPS}{name}/change/", {"move_to": to}, follow=True)


def act(client: Client, action: str, *names: str, **given: str) -> Any:
    return client.post(GROUPS, {"action": action, "_selected_action": names, **given}, follow=True)


def page(client: Client, path: str = f"{GROUPS}billing/change/") -> str:
    response = client.get(path)
    assert response.status_code == 200
    return unescape(response.content.decode())


def columns(client: Client) -> dict[str, list[str]]:
    """Return what the list says of each group."""
    response: Any = client.get(GROUPS)
    shown, admin = response.context["cl"], response.context["cl"].model_admin
    return {
        group.name: [str(getattr(admin, each)(group)) for each in shown.list_display[3:7]]
        for group in shown.result_list
    }


def read(queue: Connection, name: str) -> UUID:
    """Have a reader take all partitions of a group."""
    reader = uuid4()
    readers.beat(queue, reader, group=name)
    engine.take(queue, name, reader, held=[])
    return reader


def fail(
    queue: Connection, name: str, reader: UUID, *, retry_after: timedelta | None, upto: int = 1
) -> None:
    engine.fail(
        *(queue, name, 0, reader),
        upto=upto,
        failures=3,
        error="ValueError: <no> such order",
        retry_after=retry_after,
    )


class TestTheList:
    def test_says_how_far_each_is_and_who_reads(self, queue: Connection, editor: Client):
        record(queue, 5)
        for name in ("billing", "mails"):
            groups.make(name, partitions=2, start=3)
        read(queue, "billing")

        shown = columns(editor)

        ((host, pid),) = queue.execute("SELECT host, pid FROM pgqueue_reader").fetchall()
        assert shown == {
            "billing": ["3", "2", f"{host}:{pid}", "reading"],
            "mails": ["3", "2", "-", "idle"],
        }

    @pytest.mark.parametrize(("retry_after", "word"), [(RETRY, "retrying"), (None, "stopped")])
    def test_says_why_one_does_not_go_on(
        self, queue: Connection, editor: Client, retry_after: timedelta | None, word: str
    ):
        record(queue, 5)
        groups.make("billing", start=1)
        fail(queue, "billing", read(queue, "billing"), retry_after=retry_after)

        assert f"{word}: ValueError: <no> such order" in page(editor, GROUPS)
        assert b"&lt;no&gt; such order" in editor.get(GROUPS).content

    def test_names_the_error_that_stopped_it_though_others_are_retried(
        self, queue: Connection, editor: Client
    ):
        groups.make("billing", partitions=2)
        Cursor.objects.filter(partition=0).update(error="Error: it stopped", is_stopped=True)
        Cursor.objects.filter(partition=1).update(error="Other: it is retried")

        assert "stopped: Error: it stopped" in page(editor, GROUPS)

    def test_names_no_more_than_three_readers(self, queue: Connection, editor: Client):
        groups.make("billing", partitions=5)
        reader = read(queue, "billing")
        for number in range(5):
            queue.execute(
                "INSERT INTO pgqueue_reader (id, host, pid, last_seen) "
                "VALUES (gen_random_uuid(), 'h', %s, statement_timestamp())",
                [number],
            )
            queue.execute(
                "UPDATE pgqueue_cursor SET reader_id = (SELECT id FROM pgqueue_reader "
                "WHERE host = 'h' AND pid = %s) WHERE partition = %s AND reader_id = %s",
                [number, number, reader],
            )

        assert "h:0, h:1, h:2 and 2 more" in page(editor, GROUPS)

    def test_finds_a_group_by_a_part_of_its_name(self, db: None, editor: Client):
        groups.make("billing")
        groups.make("mails")

        assert "mails" not in page(editor, f"{GROUPS}?q=bill")


class TestThePage:
    def test_shows_each_partition_and_its_reader(self, queue: Connection, editor: Client):
        record(queue, 5)
        groups.make("billing", partitions=2, start=1)
        reader = read(queue, "billing")
        engine.commit(queue, "billing", 1, reader, upto=4)
        fail(queue, "billing", reader, retry_after=RETRY)

        shown = "".join(page(editor).split())

        (process,) = engine.readers(queue, ["billing"])["billing"]
        assert f"<td>0</td><td>1</td><td>4</td><td>{process}</td>" in shown
        assert f"<td>1</td><td>4</td><td>1</td><td>{process}</td>" in shown
        assert "<td>3</td><td>ValueError:<no>suchorder</td>" in shown

    def test_says_that_a_reader_is_silent_or_that_nobody_reads(
        self, queue: Connection, editor: Client
    ):
        groups.make("billing")
        assert "<td>-</td>" in page(editor)

        read(queue, "billing")
        Cursor.objects.update(lease_until="2026-01-01T00:00Z")

        assert "(silent)" in page(editor)
        assert "idle" in page(editor, GROUPS)

    @pytest.mark.parametrize("path", [GROUPS, f"{GROUPS}billing/change/"])
    def test_tells_times_in_the_projects_time_zone(
        self, settings: Any, db: None, editor: Client, path: str
    ):
        settings.TIME_ZONE = "Asia/Tokyo"
        groups.make("billing")
        Cursor.objects.update(updated_at="2026-06-01T12:00Z")

        assert "June 1, 2026, 9 p.m." in page(editor, path).partition("Each partition")[0]

    def test_leads_to_the_events_that_were_given_up(self, db: None, editor: Client):
        groups.make("billing")

        assert "/admin/pgqueue/message/?channel=group%3Abilling&state=dead" in page(editor)

    def test_of_one_that_never_was_says_so(self, db: None, editor: Client):
        answer: Any = editor.get(f"{GROUPS}nobody/change/", follow=True)

        assert "doesn’t exist" in told(answer)[0]


class TestAdding:
    @pytest.mark.parametrize(("start", "position"), [("now", 5), ("beginning", 0), ("2", 2)])
    def test_makes_one_that_starts_where_it_is_to(
        self, queue: Connection, editor: Client, start: str, position: int
    ):
        record(queue, 5)

        added = add(editor, partitions="3", start=start)

        assert added.status_code == 302
        assert Group.objects.get().partitions == 3
        assert list(Cursor.objects.values_list("partition", "position").order_by("partition")) == [
            (number, position) for number in range(3)
        ]
        assert LogEntry.objects.get().object_repr == "billing"

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"name": "n" * 191}, "190 bytes"),
            ({"name": ""}, "required"),
            ({"name": "a\x00b"}, "Null characters"),
            ({"partitions": "0"}, "1 to 1024 partitions"),
            ({"partitions": "1025"}, "1 to 1024 partitions"),
            ({"start": "6"}, "it has no position 6"),
            ({"start": "tomorrow"}, "it must be now, beginning, a position, or a time"),
            ({"start": "-1"}, "it must be now, beginning"),
            ({"start": "9" * 30}, "it must be now, beginning"),
        ],
    )
    def test_says_on_the_page_what_can_not_be(
        self, queue: Connection, editor: Client, given: dict[str, str], said: str
    ):
        record(queue, 5)

        answer = add(editor, **given)

        assert said in unescape(answer.content.decode())
        assert not Group.objects.exists()
        assert not Cursor.objects.exists()

    def test_one_that_is_there_changes_nothing(self, queue: Connection, editor: Client):
        record(queue, 5)
        groups.make("billing", start=3)

        answer = add(editor, start="beginning")

        assert "There is such a group already." in answer.content.decode()
        assert Cursor.objects.get().position == 3


class TestMoving:
    @pytest.mark.parametrize(
        ("to", "position"),
        [("now", 5), ("beginning", 0), ("4", 4), ("2026-01-01T00:00Z", 0), ("2100-01-01", 5)],
    )
    def test_a_group_goes_on_from_there(
        self, queue: Connection, editor: Client, to: str, position: int
    ):
        record(queue, 5)
        groups.make("billing", partitions=2, start=3)
        fail(queue, "billing", read(queue, "billing"), retry_after=None, upto=3)

        move(editor, to)

        assert set(Cursor.objects.values_list("position", "is_stopped", "reader_id")) == {
            (position, False, None)
        }
        assert LogEntry.objects.get().get_change_message() == f"Moved to position {position}."

    def test_saving_without_a_place_changes_nothing(self, queue: Connection, editor: Client):
        record(queue, 5)
        groups.make("billing", start=3)
        before = Cursor.objects.values().get()

        move(editor, "")

        assert Cursor.objects.values().get() == before

    def test_to_no_place_of_the_log_is_refused(self, queue: Connection, editor: Client):
        record(queue, 5)
        groups.make("billing", start=3)

        answer = move(editor, "6")

        assert "it has no position 6" in answer.content.decode()
        assert Cursor.objects.get().position == 3

    def test_is_nothing_for_who_may_only_look(
        self, queue: Connection, viewer: Client, editor: Client
    ):
        record(queue, 5)
        groups.make("billing", start=3)

        assert move(viewer, "beginning").status_code == 403
        assert 'name="move_to"' not in page(viewer)
        assert 'name="move_to"' in page(editor)
        assert Cursor.objects.get().position == 3


class TestResuming:
    def test_tries_again_what_failed(self, queue: Connection, editor: Client):
        record(queue, 5)
        for name in ("billing", "mails", "idle"):
            groups.make(name, start=1)
        fail(queue, "billing", read(queue, "billing"), retry_after=None)
        fail(queue, "mails", read(queue, "mails"), retry_after=RETRY)

        resumed = act(editor, "resume", "billing", "mails", "idle")

        assert told(resumed) == ["2 partitions resumed."]
        assert set(Cursor.objects.values_list("is_stopped", "retry_at", "failures")) == {
            (False, None, 0)
        }
        assert {each.object_repr for each in LogEntry.objects.all()} == {"billing", "mails"}

    def test_is_for_those_who_may_change_groups(self, queue: Connection, viewer: Client):
        groups.make("billing", start=0)
        fail(queue, "billing", read(queue, "billing"), retry_after=None)

        act(viewer, "resume", "billing")

        assert Cursor.objects.get().is_stopped


class TestRebuilding:
    def test_begins_a_rebuild_or_says_why_not(self, queue: Connection, editor: Client):
        begun: list[str] = []
        hooks = Rebuild(begin=lambda: begun.append("billing"), hand_over=begun.clear)
        consumer("billing", rebuild=hooks)(lambda event: None)
        groups.make("billing")
        groups.make("mails")

        rebuilt = act(editor, "rebuild", "billing", "mails")

        assert told(rebuilt) == [
            "The group 'mails' can't be rebuilt: it is not declared here.",
            "1 rebuild begun.",
        ]
        assert begun == ["billing"]
        assert Cursor.objects.get(group="billing:rebuild").position == 0
        assert [str(each) for each in LogEntry.objects.all()] == [
            "Changed “billing” — A rebuild was begun."
        ]

    def test_says_which_error_of_the_project_has_kept_it(self, queue: Connection, editor: Client):
        hooks = Rebuild(begin=lambda: 1 / 0, hand_over=str)
        consumer("billing", rebuild=hooks)(lambda event: None)
        consumer("mails", rebuild=Rebuild(begin=str, hand_over=str))(lambda event: None)
        groups.make("billing")
        groups.make("mails")

        rebuilt = act(editor, "rebuild", "billing", "mails")

        assert told(rebuilt) == ["billing: ZeroDivisionError: division by zero", "1 rebuild begun."]
        assert not Group.objects.filter(name="billing:rebuild").exists()

    def test_is_for_those_who_may_change_groups(self, db: None, viewer: Client):
        hooks = Rebuild(begin=str, hand_over=str)
        consumer("billing", rebuild=hooks)(lambda event: None)
        groups.make("billing")

        act(viewer, "rebuild", "billing")

        assert list(Group.objects.values_list("name", flat=True)) == ["billing"]


class TestDeleting:
    def test_forgets_where_it_was(self, db: None, editor: Client):
        for name in ("billing", "mails", "other"):
            groups.make(name)

        one = editor.post(f"{GROUPS}billing/delete/", {"post": "yes"})
        another = act(editor, "delete_selected", "mails", post="yes")

        assert (one.status_code, another.status_code) == (302, 200)
        assert list(Group.objects.values_list("name", flat=True)) == ["other"]
        assert list(Cursor.objects.values_list("group", flat=True)) == ["other"]

    def test_of_a_group_and_its_rebuild_deletes_both(self, db: None, editor: Client):
        for name in ("sales", "other"):
            groups.make(name)
        engine.begin_rebuild(connections["default"], "sales:rebuild", partitions=1, position=0)

        answer = act(editor, "delete_selected", "sales", "sales:rebuild", post="yes")

        assert answer.status_code == 200
        assert list(Group.objects.values_list("name", flat=True)) == ["other"]

    def test_is_for_those_who_may_delete_groups(self, db: None, login: Login):
        groups.make("billing")

        answer = login(*ALL[:3]).post(f"{GROUPS}billing/delete/", {"post": "yes"})

        assert answer.status_code == 403
        assert Cursor.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_now_is_behind_what_was_published_before(login: Login):
    editor = login(*ALL)
    publish("order.paid")

    add(editor)
    assert columns(editor)["billing"][:2] == ["1", "0"]

    publish("order.paid")
    move(editor, "now")
    assert columns(editor)["billing"][:2] == ["2", "0"]


@pytest.mark.django_db(databases=["default", "second"])
def test_they_are_those_of_the_queues_database(settings, login: Login):
    settings.PGQUEUE = {"DATABASE": "second"}
    editor = login(*ALL)
    record(connections["second"], 5)

    add(editor)
    refused = add(editor)
    move(editor, "2")

    assert b"There is such a group already." in refused.content
    assert Cursor.objects.using("second").get().position == 2
    assert "billing" in page(editor, GROUPS)
    act(editor, "delete_selected", "billing", post="yes")
    assert not Cursor.objects.using("second").exists()
    assert not Group.objects.using("second").exists()
