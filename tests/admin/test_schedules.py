"""Schedules as operators meet them: added, edited, paused, run now; those of code only paused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.core.management import CommandError, call_command
from django.db.models import F
from django.test import Client, override_settings

from pgqueue import task
from pgqueue.engine import settle
from pgqueue.models import History, Message, Schedule
from pgqueue.redaction import MASK
from pgqueue.tasks import registry
from tests.admin.acting import shown_form, told
from tests.admin.conftest import Connection, Login
from tests.cards import CARD, SECRETS, TOKEN, leave_schedules
from tests.factories import done, enqueue, run

SCHEDULES = "/admin/pgqueue/schedule/"
COLUMNS = {
    "name": "nightly",
    "task": "tests.jobs.add",
    "args": "[1]",
    "kwargs": "{}",
    "cron": "0 3 * * *",
    "every": "",
    "timezone": "Europe/Berlin",
    "channel": "",
    "priority": "",
    "missed": "once",
    "overlap": "allow",
}


@task(redact=["card"])
def charge(card: date) -> None: ...


NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def editor(db: None, login: Login) -> Client:
    return login("view_schedule", "add_schedule", "change_schedule", "delete_schedule")


def add(client: Client, **changed: str) -> Any:
    return client.post(f"{SCHEDULES}add/", {**COLUMNS, **changed})


def change(client: Client, name: str = "nightly", **changed: str) -> Any:
    return client.post(f"{SCHEDULES}{name}/change/", {**COLUMNS, **changed})


def act(client: Client, action: str, *names: str) -> Any:
    return client.post(SCHEDULES, {"action": action, "_selected_action": names}, follow=True)


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def stored(**columns: Any) -> Schedule:
    given = {"name": "nightly", "task": "tests.jobs.add", "args": [1], "cron": "@daily", **columns}
    return Schedule.objects.create(**given)


def fail_import(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    """Have the import of a task's module raise an error."""
    real = registry.find

    def find(asked: str) -> Any:
        if asked == name:
            raise error
        return real(asked)

    monkeypatch.setattr(registry, "find", find)


def test_one_is_added_changed_and_deleted_and_each_is_logged(editor: Client):
    added = add(editor, kwargs='{"b": 2}')
    row = Schedule.objects.get()
    assert (row.cron, row.timezone, row.kwargs) == ("0 3 * * *", "Europe/Berlin", {"b": 2})
    assert (row.declared, row.next_at) == (False, None)

    changed = change(editor, cron="", every="00:05:00", priority="5")
    assert Schedule.objects.values_list("cron", "every", "priority").get() == (
        "",
        timedelta(minutes=5),
        5,
    )

    deleted = editor.post(f"{SCHEDULES}nightly/delete/", {"post": "yes"})
    assert not Schedule.objects.exists()

    assert [each.status_code for each in (added, changed, deleted)] == [302] * 3
    assert LogEntry.objects.filter(object_repr="nightly").count() == 3


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"cron": "0 3 * *"}, "no cron line"),
        ({"cron": "* * * * * *"}, "no cron line"),
        ({"timezone": "Mars"}, "no time zone"),
        ({"cron": ""}, "Give a cron line, or an interval."),
        ({"every": "5"}, "Give a cron line, or an interval."),
        ({"cron": "", "every": "0.1"}, "a second or more"),
        ({"task": "tests.jobs.gone"}, "No task is named"),
        ({"args": "[1, 2, 3]"}, "tests.jobs.add"),
        ({"args": "{}"}, "args must be a list"),
        ({"args": "[12345678901234567.89]"}, "would be rounded: write it as a text"),
        ({"kwargs": "[]", "args": "[1]"}, "kwargs a dict"),
        ({"priority": "1000"}, "from -100 to 100"),
        ({"channel": "c" * 201}, "200 bytes"),
    ],
)
def test_what_can_not_be_is_said_on_the_page(editor: Client, columns: dict[str, str], said: str):
    answer = add(editor, **columns)

    assert said in answer.content.decode()
    assert not Schedule.objects.exists()


def test_one_that_is_there_is_not_added_again(editor: Client):
    stored()

    answer = add(editor)

    assert "There is such a schedule already." in answer.content.decode()
    assert Schedule.objects.get().cron == "@daily"


@override_settings(TIME_ZONE="Europe/Berlin")
def test_a_new_one_is_in_the_projects_time_zone(editor: Client):
    assert 'name="timezone" value="Europe/Berlin"' in page(editor, f"{SCHEDULES}add/")


class TestEditing:
    def test_writes_only_what_was_changed(self, editor: Client, monkeypatch: pytest.MonkeyPatch):
        # A worker does a tick while the form is checked.
        stored(cron="0 3 * * *", timezone="Europe/Berlin", next_at=NOON)
        check = "pgqueue.tasks.scheduling.check_schedule"
        tick = {"next_at": NOON + timedelta(days=1), "ticked_at": NOON}
        monkeypatch.setattr(check, lambda row: Schedule.objects.update(**tick))

        change(editor, args="[5]")

        row = Schedule.objects.get()
        assert (row.args, row.next_at, row.ticked_at) == ([5], *tick.values())

    @pytest.mark.parametrize("changed", [{"cron": "0 4 * * *"}, {"timezone": "UTC"}])
    def test_the_time_begins_with_the_next_tick(self, editor: Client, changed: dict[str, str]):
        stored(cron="0 3 * * *", timezone="Europe/Berlin", next_at=NOON, ticked_at=NOON)

        change(editor, **changed)

        row = Schedule.objects.get()
        assert (row.next_at, row.ticked_at) == (None, NOON)

    def test_one_of_code_pauses_it_and_nothing_else(self, editor: Client):
        stored(declared=True)

        change(editor, paused="on", task="tests.jobs.double", cron="@hourly")

        row = Schedule.objects.get()
        assert (row.paused, row.task, row.cron) == (True, "tests.jobs.add", "@daily")
        deleted = editor.post(f"{SCHEDULES}nightly/delete/", {"post": "yes"})
        assert (deleted.status_code, Schedule.objects.count()) == (403, 1)


class TestThePage:
    def test_says_in_words_when_it_is_and_which_ticks_come(self, editor: Client):
        stored(cron="30 9 * * 1-5", timezone="Europe/Berlin", declared=True)

        shown = page(editor, f"{SCHEDULES}nightly/change/")

        assert "At 09:30 on Monday through Friday (Europe/Berlin)" in shown
        assert shown.count("09:30:00 CE") == 10
        assert "At 09:30 on Monday" in page(editor, SCHEDULES)

    def test_says_why_the_next_tick_is_unknown(self, editor: Client):
        stored(cron="at noon", error="InvalidSchedule: …")

        shown = page(editor, f"{SCHEDULES}nightly/change/")

        assert "no cron line" in shown
        assert "no cron line" in page(editor, SCHEDULES)

    def test_shows_its_last_runs_with_how_they_ended(self, queue: Connection, editor: Client):
        (held,), (waiting,) = run(queue, channel="runs"), enqueue(queue)
        settle.complete(queue, [done(held)])
        History.objects.update(started_at=F("finished_at") - timedelta(seconds=2.5))
        stored(recent=[waiting, held.id, 10**9])

        shown = page(editor, f"{SCHEDULES}nightly/change/")

        assert f'<a href="/admin/pgqueue/message/{waiting}/change/">#{waiting}</a>' in shown
        assert f'<a href="/admin/pgqueue/history/{held.id}/change/">#{held.id}</a>' in shown
        assert "2.500 s" in shown
        assert "1000000000" not in shown

    def test_that_is_old_ends_no_pause(self, editor: Client):
        stored()
        old = shown_form(editor, f"{SCHEDULES}nightly/change/", cron="@hourly")
        Schedule.objects.pause()

        saved = editor.post(f"{SCHEDULES}nightly/change/", old)

        assert saved.status_code == 302
        assert Schedule.objects.values_list("paused", "cron").get() == (True, "@hourly")

    def test_runs_it_now_and_pauses_it(self, editor: Client):
        stored()

        shown = page(editor, f"{SCHEDULES}nightly/change/")

        action = f'value="{{}}" formaction="{SCHEDULES}"'
        assert action.format("run_now") in shown
        assert action.format("pause") in shown
        assert action.format("resume") not in shown

    def test_links_to_the_last_message(self, editor: Client):
        stored()
        act(editor, "run_now", "nightly")
        message = Message.objects.get()
        Schedule.objects.update(message_id=message.pk)

        shown = page(editor, f"{SCHEDULES}nightly/change/")

        assert f'href="/admin/pgqueue/message/{message.pk}/change/"' in shown


class TestActions:
    def test_pause_and_resume(self, editor: Client):
        stored(next_at=NOON)
        stored(name="other", paused=True)

        paused = act(editor, "pause", "nightly", "other")
        assert Schedule.objects.filter(paused=True).count() == 2
        resumed = act(editor, "resume", "nightly", "other")

        assert told(paused) == ["1 paused."]
        assert told(resumed) == ["2 resumed."]
        assert set(Schedule.objects.values_list("paused", "next_at")) == {(False, None)}
        assert LogEntry.objects.count() == 3

    def test_run_now_says_what_came_of_it(self, editor: Client):
        stored(overlap="skip", declared=True)
        stored(name="misfit", args=[1, 2, 3])

        first = act(editor, "run_now", "nightly")
        second = act(editor, "run_now", "nightly", "misfit")

        message = Message.objects.get()
        assert message.metadata == {"schedule": "nightly"}
        assert told(first) == ["1 enqueued."]
        misfit, existing, none = told(second)
        assert "misfit: " in misfit
        assert existing == f"nightly: message {message.pk} waits or runs already."
        assert none == "0 enqueued."

    @pytest.mark.parametrize("error", [SyntaxError("an odd quote"), ImportError("no module shop")])
    def test_run_the_others_where_the_module_of_one_fails(
        self, editor: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
    ):
        fail_import(monkeypatch, "tests.broken.add", error)
        stored(name="broken", task="tests.broken.add")
        stored()

        ran = act(editor, "run_now", "broken", "nightly")
        changed = change(editor, task="tests.broken.add")
        with pytest.raises(CommandError, match=str(error)):
            call_command("pgqueue_schedule", "run", "broken")

        failed, enqueued = told(ran)
        assert failed.startswith("broken: ")
        assert str(error) in failed
        assert enqueued == "1 enqueued."
        assert Message.objects.get().metadata == {"schedule": "nightly"}
        assert str(error) in changed.content.decode()

    def test_show_no_redacted_argument_in_an_error(self, editor: Client):
        stored(task=f"{__name__}.charge", args=[CARD])

        ran = act(editor, "run_now", "nightly")
        saved = change(editor, task=f"{__name__}.charge", args=f'["{MASK}"]')
        with pytest.raises(CommandError) as raised:
            call_command("pgqueue_schedule", "run", "nightly")

        assert saved.status_code == 200
        shown = [*told(ran), saved.content.decode(), str(raised.value)]
        assert [CARD in text for text in shown] == [False] * len(shown)
        assert "argument 'card'" in told(ran)[0]
        assert "argument 'card'" in str(raised.value)

    def test_are_for_those_who_may_change_them(self, db: None, login: Login):
        stored()

        act(login("view_schedule"), "run_now", "nightly")

        assert not Message.objects.exists()


@pytest.mark.django_db(databases=["default", "second"])
def test_they_are_those_of_the_queues_database(settings, login: Login):
    settings.PGQUEUE = {"DATABASE": "second"}
    editor = login("view_schedule", "add_schedule", "change_schedule", "delete_schedule")

    add(editor)
    refused = add(editor)
    change(editor, cron="0 4 * * *")
    act(editor, "run_now", "nightly")

    assert b"There is such a schedule already." in refused.content
    assert Schedule.objects.using("second").get().cron == "0 4 * * *"
    assert Message.objects.using("second").count() == 1
    assert not Schedule.objects.using("default").exists()


class TestArgumentsThatAreRedacted:
    """Of messages they are shown to nobody: nor of schedules."""

    URL = "/admin/pgqueue/schedule/{}/change/"

    @pytest.fixture(autouse=True)
    def _schedules(self, db: None) -> None:
        leave_schedules()

    @pytest.mark.parametrize("name", ["plain", "in code", "of nobody"])
    def test_are_shown_to_no_viewer_and_to_nobody_who_may_change_it(
        self, login: Login, admin_client: Client, name: str
    ) -> None:
        for client in (login("view_schedule"), admin_client):
            page = client.get(self.URL.format(quote(name)))

            assert page.status_code == 200
            assert not [each for each in SECRETS if each in page.content.decode()]
            assert MASK in page.content.decode()

    def form(self, client: Client, name: str, **changed: str) -> dict[str, Any]:
        page: Any = client.get(self.URL.format(quote(name)))
        form = page.context["adminform"].form
        shown = {each: form[each].value() for each in form.fields}
        given = {each: "" if value is None else value for each, value in shown.items()}
        return {**given, "paused": "", **changed}

    def test_stay_as_they_are_where_the_form_is_saved_as_it_was_shown(
        self, admin_client: Client
    ) -> None:
        data = self.form(admin_client, "plain", cron="0 4 * * *")

        answer = admin_client.post(self.URL.format("plain"), data)

        row = Schedule.objects.get(pk="plain")
        assert answer.status_code == 302, answer.context["errors"]
        assert (row.cron, row.args) == ("0 4 * * *", [7, CARD, {"email": TOKEN}])

    def test_are_stored_anew_where_they_are_written_again(self, admin_client: Client) -> None:
        data = self.form(admin_client, "plain", args='[7, "5500-0000-0000-0004"]')

        answer = admin_client.post(self.URL.format("plain"), data)

        assert answer.status_code == 302, answer.context["errors"]
        assert Schedule.objects.get(pk="plain").args == [7, "5500-0000-0000-0004"]

    @pytest.mark.parametrize("changed", [{"args": f'[8, "{MASK}"]'}, {"task": "tests.jobs.note"}])
    def test_are_neither_replaced_by_the_mask_nor_handed_to_another_task(
        self, admin_client: Client, changed: dict[str, str]
    ) -> None:
        data = self.form(admin_client, "plain", **changed)

        answer = admin_client.post(self.URL.format("plain"), data)

        assert "args" in answer.context["adminform"].form.errors
        assert Schedule.objects.get(pk="plain").args == [7, CARD, {"email": TOKEN}]
