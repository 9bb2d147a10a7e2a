"""What the pages show."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import pgqueue
from pgqueue.admin import display
from pgqueue.admin.channel import ChannelForm
from pgqueue.engine import settle
from pgqueue.engine.errors import describe
from pgqueue.events.subscriptions import create
from pgqueue.models import Channel, Message, Worker
from tests.admin.acting import HISTORY, MESSAGES, act, fields_of, shown_form, told
from tests.admin.conftest import Connection, Login
from tests.factories import bury, claim, done, enqueue, failure, insert, register, run

WORKERS = "/admin/pgqueue/worker/"
CHANNELS = "/admin/pgqueue/channel/"
SUBSCRIPTIONS = "/admin/pgqueue/subscription/"


def text(client: Client, path: str) -> str:
    """Return a page as it is read."""
    response: Any = client.get(path)
    assert response.status_code == 200, response.status_code
    return unescape(response.content.decode())


def die(queue: Connection, *errors: BaseException) -> int:
    """Make a dead letter of a message that failed with each of these errors."""
    (message,) = enqueue(queue, payloads=['{"args": [1], "kwargs": {"name": "<b>Zoë</b>"}}'])
    for attempt, error in enumerate(errors, start=1):
        (held,) = claim(queue)
        entry = describe(error, attempt=attempt, worker=str(held.worker_id))
        bury_it = attempt == len(errors)
        settle_it = settle.bury if bury_it else settle.retry
        settle_it(queue, [failure(held, entry)])
    return message


def raised(error: BaseException) -> BaseException:
    """Return an error with the traceback of having been raised here."""
    try:
        raise error
    except BaseException as caught:
        return caught


def test_a_dead_letter_shows_each_attempts_error_with_its_traceback(
    queue: Connection, viewer: Client
):
    message = die(queue, raised(ValueError("the first")), raised(KeyError("<i>the last</i>")))

    page = viewer.get(f"{MESSAGES}{message}/change/").content.decode()

    assert "Attempt 1" in page
    assert "builtins.ValueError" in page
    assert "the first" in page
    assert "Attempt 2" in page
    assert page.count("in raised") == 2
    story = page[page.index("pgqueue-timeline") :]
    assert story.index("ValueError") < story.index("KeyError")
    # As text, whatever it says.
    assert "<i>the last</i>" not in page
    assert "&lt;i&gt;the last&lt;/i&gt;" in page


def test_the_list_shows_the_last_error(queue: Connection, viewer: Client):
    die(queue, raised(ValueError("the first")), raised(KeyError("last")))

    page = text(viewer, f"{MESSAGES}?state=dead")

    assert "KeyError: 'last'" in page
    assert "the first" not in page


@pytest.mark.parametrize(
    "error", ['{"class": "Oops"}', "{}", '"only text"', "null", '{"attempt": [], "message": 7}']
)
def test_errors_that_others_wrote_are_shown_as_far_as_they_go(
    queue: Connection, viewer: Client, error
):
    message = insert(queue, state="dead", errors=f"[{error}]")

    listed, shown = viewer.get(MESSAGES), viewer.get(f"{MESSAGES}{message}/change/")

    assert (listed.status_code, shown.status_code) == (200, 200)


def test_a_message_shows_its_payload_metadata_progress_and_options(
    queue: Connection, viewer: Client
):
    (message,) = enqueue(
        queue,
        payloads=['{"args": [1.10, "é"], "kwargs": {"name": "<b>"}}'],
        metadata='{"trace": "00-1"}',
        options='{"timeout": 3, "weight": 47}',
    )
    Message.objects.update(progress={"done": "seven"}, body=b"\x00" * 2048)

    page = text(viewer, f"{MESSAGES}{message}/change/")

    assert '"args": [\n        1.10,\n        "é"\n    ]' in page
    assert '"trace": "00-1"' in page
    assert '"timeout": 3' in page
    assert re.search(r"Weight:</label>\s*<div class=\"readonly\">47<", page)
    assert '"done": "seven"' in page
    assert "2.0\xa0KB" in page


def test_of_a_payload_of_megabytes_the_beginning_is_shown(queue: Connection, viewer: Client):
    (message,) = enqueue(queue, payloads=[json.dumps({"args": ["x" * 5_000_000]})])

    page = text(viewer, f"{MESSAGES}{message}/change/")

    assert len(page) < display.EXCERPT + 50_000
    assert "… (the first 64.0\xa0KB)" in page


def test_a_list_does_not_read_what_may_be_large(queue: Connection, viewer: Client):
    enqueue(queue)

    with CaptureQueriesContext(connection) as captured:
        viewer.get(MESSAGES)

    rows = [query["sql"] for query in captured.captured_queries if '"task"' in query["sql"]]
    assert rows
    assert not [sql for sql in rows if '"payload"' in sql or '"body"' in sql]


def test_an_ended_message_shows_its_result(queue: Connection, viewer: Client):
    (held,) = run(queue, task="shop.tasks.add")
    settle.complete(queue, [done(held, '{"sum": 42}', started=1, finished=2)])

    page = text(viewer, f"{HISTORY}{held.id}/change/")

    assert '"sum": 42' in page
    assert "Succeeded" in page
    assert "shop.tasks.add" in text(viewer, HISTORY)


def test_a_link_to_a_message_leads_to_its_history_once_it_ended(queue: Connection, viewer: Client):
    (message,) = enqueue(queue)
    Message.objects.all().cancel()

    answer = viewer.get(f"{MESSAGES}{message}/change/")

    assert answer.status_code == 302
    assert answer.headers["Location"] == f"{HISTORY}{message}/change/"


@pytest.mark.parametrize("id", ["1", "9" * 30, "x", "²"])
def test_a_message_that_never_was_is_said_not_to_exist(db, viewer: Client, id):
    for path in (MESSAGES, HISTORY):
        answer: Any = viewer.get(f"{path}{id}/change/", follow=True)

        assert "doesn’t exist" in told(answer)[0]


def test_a_message_leads_to_its_parent_and_its_worker(queue: Connection, viewer: Client):
    worker = register(queue)
    (held,) = run(queue, worker_id=worker)
    Message.objects.update(parent_id=77)

    page = text(viewer, f"{MESSAGES}{held.id}/change/")

    assert f'href="{WORKERS}{worker}/change/"' in page
    assert f'href="{MESSAGES}77/change/"' in page


def test_a_worker_is_alive_until_it_was_silent_for_a_whole_lease(queue: Connection, viewer: Client):
    alive, silent = register(queue), register(queue, channels=["mail", "sms"], excluded=["x"])
    Worker.objects.filter(pk=silent).update(last_seen=timezone.now() - timedelta(seconds=31))
    Worker.objects.update(info={"threads": 8})

    def shown(query: str) -> dict[Any, bool]:
        response: Any = viewer.get(f"{WORKERS}{query}")
        return {each.pk: each.is_alive for each in response.context["cl"].result_list}

    assert shown("") == {alive: True, silent: False}
    assert shown("?alive=1") == {alive: True}
    assert shown("?alive=0") == {silent: False}
    page = text(viewer, WORKERS)
    assert "every channel" in page
    assert "mail, sms except x" in page
    assert "threads 8" in page


def test_a_worker_shows_the_messages_it_holds(queue: Connection, viewer: Client):
    worker = register(queue)
    (held,) = run(queue, worker_id=worker, task="shop.tasks.send")
    run(queue, worker_id=uuid4(), channel="other", task="shop.tasks.receive")

    page = text(viewer, f"{WORKERS}{worker}/change/")

    assert f"shop.tasks.send #{held.id}" in page
    assert "shop.tasks.receive" not in page


def test_a_worker_shows_its_heartbeat_and_what_ended_on_it_lately(
    queue: Connection, viewer: Client
):
    worker = register(queue)
    (held,) = run(queue, worker_id=worker)
    (other,) = run(queue, channel="other")
    settle.complete(queue, [done(held), done(other)])
    Worker.objects.update(last_seen=timezone.now() - timedelta(seconds=75), info={"version": "9.1"})

    page = text(viewer, f"{WORKERS}{worker}/change/")

    assert "75 s ago; after 30 s without one" in page
    assert "version 9.1" in page
    assert f'href="{HISTORY}{held.id}/change/"' in page
    assert f'href="{HISTORY}{other.id}/change/"' not in page


def test_a_channel_is_paused_and_resumed(db, login: Login):
    editor = login("view_channel", "change_channel")
    Channel.objects.create(name="mail")
    Channel.objects.create(name="other", paused=True)

    def choose(action: str) -> Any:
        chosen = {"action": action, "index": "0", "_selected_action": ["mail", "other"]}
        return editor.post(CHANNELS, chosen, follow=True)

    assert told(choose("pause")) == ["1 paused."]
    assert set(Channel.objects.values_list("paused", flat=True)) == {True}
    assert told(choose("resume")) == ["2 resumed."]
    assert set(Channel.objects.values_list("paused", flat=True)) == {False}
    assert sorted(
        (entry.object_id, entry.get_change_message()) for entry in LogEntry.objects.all()
    ) == [("mail", "Paused."), ("mail", "Resumed."), ("other", "Resumed.")]


def test_a_pause_that_gets_no_end_is_told(db, login: Login):
    editor = login("view_channel", "change_channel")
    pgqueue.Channel("mail").pause(until=timedelta(days=1))

    chosen = {"action": "pause", "index": "0", "_selected_action": ["mail"]}
    paused = [told(editor.post(CHANNELS, chosen, follow=True)) for _ in range(2)]

    assert paused == [["1 paused."], ["0 paused."]]
    assert Channel.objects.get().paused_until is None
    assert LogEntry.objects.count() == 1


def test_a_user_who_may_not_change_a_channel_can_not_pause_it(db, viewer: Client):
    Channel.objects.create(name="mail")

    viewer.post(CHANNELS, {"action": "pause", "index": "0", "_selected_action": ["mail"]})

    assert not Channel.objects.get().paused


def test_a_channel_is_configured_but_never_renamed(db, login: Login):
    editor = login("view_channel", "add_channel", "change_channel")
    columns = {"retention": "", "on_dead": "skip", "on_full": "refuse"}

    added = editor.post(f"{CHANNELS}add/", {"name": "mail", "paused": "on", **columns})
    changed = editor.post(
        f"{CHANNELS}mail/change/", {"name": "other", "initial-paused": "True", **columns}
    )

    assert (added.status_code, changed.status_code) == (302, 302)
    assert Channel.objects.values_list("name", "paused", "on_dead").get() == ("mail", False, "skip")


def test_only_a_paused_channel_has_an_end_of_its_pause(db, login: Login):
    editor = login("view_channel", "add_channel", "change_channel")
    columns = {"on_dead": "skip", "on_full": "refuse"}
    end = {"paused_until_0": "2999-01-31", "paused_until_1": "08:30"}

    refused = editor.post(f"{CHANNELS}add/", {"name": "mail", **columns, **end})
    saved = editor.post(f"{CHANNELS}add/", {"name": "mail", "paused": "on", **columns, **end})

    assert "Only a paused channel has an end of its pause." in refused.content.decode()
    assert saved.status_code == 302
    assert Channel.objects.get().paused_until == datetime(2999, 1, 31, 8, 30, tzinfo=UTC)


def test_an_old_form_of_a_channel_ends_no_pause(db, login: Login):
    editor = login("view_channel", "change_channel")
    Channel.objects.create(name="mail")
    old = shown_form(editor, f"{CHANNELS}mail/change/", on_dead="skip")
    pgqueue.Channel("mail").pause(until=timedelta(days=1))
    until = Channel.objects.get().paused_until

    saved = editor.post(f"{CHANNELS}mail/change/", old)

    mail = Channel.objects.get()
    assert saved.status_code == 302
    assert (mail.paused, mail.paused_until, mail.on_dead) == (True, until, "skip")


def test_an_end_of_a_pause_is_saved_after_an_error_of_its_form(db, login: Login):
    editor = login("view_channel", "change_channel")
    Channel.objects.create(name="mail")
    path = f"{CHANNELS}mail/change/"
    end = {"paused_until_0": "2999-01-31", "paused_until_1": "08:30:00"}
    given = {**shown_form(editor, path), **end}

    refused = fields_of(editor.post(path, given))
    saved = editor.post(path, {**refused, "paused": "on"})

    mail = Channel.objects.get()
    assert saved.status_code == 302
    assert (mail.paused, mail.paused_until) == (True, datetime(2999, 1, 31, 8, 30, tzinfo=UTC))


def test_a_moved_end_of_a_pause_is_saved_after_an_error_of_its_form(db, login: Login):
    editor = login("view_channel", "change_channel")
    pgqueue.Channel("mail").pause(until=timedelta(days=1))
    path = f"{CHANNELS}mail/change/"
    end = {"paused_until_0": "2999-01-31", "paused_until_1": "08:30:00"}
    given = {**shown_form(editor, path), **end}

    refused = fields_of(editor.post(path, {**given, "retention": "odd"}))
    saved = editor.post(path, {**refused, "retention": ""})

    assert saved.status_code == 302
    assert Channel.objects.get().paused_until == datetime(2999, 1, 31, 8, 30, tzinfo=UTC)


def test_a_channels_form_ends_the_pause_that_it_shows(db, login: Login):
    editor = login("view_channel", "change_channel")
    pgqueue.Channel("mail").pause(until=timedelta(days=1))
    shown = shown_form(editor, f"{CHANNELS}mail/change/")
    resumed = {name: value for name, value in shown.items() if name != "paused"}

    editor.post(f"{CHANNELS}mail/change/", {**resumed, "paused_until_0": "", "paused_until_1": ""})

    assert not Channel.objects.get().paused


def test_a_channel_says_how_long_its_messages_are_kept(db, login: Login):
    editor = login("view_channel", "add_channel", "change_channel")
    Channel.objects.create(name="mail")
    columns = {"on_dead": "skip", "on_full": "refuse"}

    refused = editor.post(
        f"{CHANNELS}mail/change/", {**columns, "retention_succeeded": "-1 00:00:00"}
    )
    saved = editor.post(
        f"{CHANNELS}mail/change/", {**columns, "retention": "7 12:00:00", "dead_retention": "60"}
    )

    assert "a hundred years at most" in refused.content.decode()
    assert saved.status_code == 302
    mail = Channel.objects.get()
    assert (mail.retention, mail.retention_succeeded) == (timedelta(days=7, hours=12), None)
    assert mail.dead_retention == timedelta(minutes=1)


def test_a_channel_that_is_there_is_not_added_again(db, login: Login):
    editor = login("view_channel", "add_channel")
    Channel.objects.create(name="mail", paused=True)

    answer = editor.post(
        f"{CHANNELS}add/", {"name": "mail", "retention": "", "on_dead": "skip", "on_full": "refuse"}
    )

    assert b"There is such a channel already." in answer.content
    assert Channel.objects.get().paused


@pytest.mark.django_db(databases=["default", "second"])
def test_a_channel_is_looked_for_in_the_queues_database(settings, login: Login):
    settings.PGQUEUE = {"DATABASE": "second"}
    editor = login("view_channel", "add_channel")
    Channel.objects.using("second").create(name="mail", paused=True)
    columns = {"retention": "", "on_dead": "skip", "on_full": "refuse"}

    refused = editor.post(f"{CHANNELS}add/", {"name": "mail", **columns})
    added = editor.post(f"{CHANNELS}add/", {"name": "other", **columns})

    assert b"There is such a channel already." in refused.content
    assert added.status_code == 302
    assert dict(Channel.objects.using("second").values_list("name", "paused")) == {
        "mail": True,
        "other": False,
    }


def test_a_channel_that_was_added_meanwhile_is_not_overwritten(
    db, login: Login, monkeypatch: pytest.MonkeyPatch
):
    editor = login("view_channel", "add_channel")
    Channel.objects.create(name="mail", paused=True)
    monkeypatch.setattr(ChannelForm, "clean_name", lambda form: form.cleaned_data["name"])
    monkeypatch.setattr(ChannelForm, "validate_unique", lambda form: None)

    with pytest.raises(IntegrityError), transaction.atomic():
        editor.post(
            f"{CHANNELS}add/",
            {"name": "mail", "retention": "", "on_dead": "skip", "on_full": "refuse"},
        )

    assert Channel.objects.get().paused


def test_a_log_entry_of_an_operator_is_shown_with_its_message(queue: Connection, operator: Client):
    (message,) = bury(queue)
    act(operator, "replay", [message])

    assert "Replayed." in text(operator, f"{MESSAGES}{message}/history/")
    assert f"#{message}" in text(operator, "/admin/")


def test_subscriptions_are_listed_whatever_their_names(db: None, viewer: Client):
    create("a/b <i>", "tests.jobs.mail", topics="order.*")

    assert "a/b <i>" in text(viewer, SUBSCRIPTIONS)
    assert b"&lt;i&gt;" in viewer.get(SUBSCRIPTIONS).content
    assert "order.*" in text(viewer, f"{SUBSCRIPTIONS}{quote('a/b <i>')}/change/")


def test_duties_are_listed(queue: Connection, viewer: Client):
    queue.execute("INSERT INTO pgqueue_duty VALUES ('sweep', now()) ON CONFLICT DO NOTHING")

    assert "sweep" in text(viewer, "/admin/pgqueue/duty/")
