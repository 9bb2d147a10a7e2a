"""The page of a message: its story and its arguments first, without the fields that say nothing."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.module_loading import import_string

from pgqueue.admin import progress
from pgqueue.database.connections import borrow
from pgqueue.engine import run_logs
from pgqueue.engine.run_logs import RunLogRow
from pgqueue.models import History, Message
from tests import jobs
from tests.admin.acting import HISTORY, MESSAGES
from tests.admin.conftest import Connection, Login
from tests.factories import bury, ended, enqueue


def fields(client: Client, path: str) -> list[str]:
    """Return the names of the fields of a page, in their order."""
    page = client.get(path).content.decode()
    return re.findall(r'class="form-row field-(\w+)"', page)


def test_a_plain_message_has_only_the_fields_with_a_value(queue: Connection, viewer: Client):
    (message,) = enqueue(queue)

    assert fields(viewer, f"{MESSAGES}{message}/change/") == [
        *("id", "task", "channel", "shown_state", "payload_text"),
        *("max_attempts", "created_at", "run_at"),
    ]


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"key": "tenant"}, "key"),
        ({"priority": -3}, "priority"),
        ({"dedupe_key": "k"}, "dedupe_key"),
        ({"parent_id": 7}, "parent"),
        ({"lost": 1}, "lost"),
        ({"metadata": {"a": 1}}, "metadata_text"),
        ({"progress": {"percent": 0}}, "progress_text"),
        ({"progress": 0}, "progress_text"),
        ({"body": b""}, "body_size"),
        ({"ordered": True, "governed": True}, "governed"),
    ],
)
def test_a_field_with_a_value_is_shown(queue: Connection, viewer: Client, columns: Any, field: str):
    (message,) = enqueue(queue)
    Message.objects.filter(pk=message).update(**columns)

    assert field in fields(viewer, f"{MESSAGES}{message}/change/")


def test_the_story_the_error_and_the_arguments_come_before_all_else(queue, viewer: Client):
    (message,) = bury(queue)

    page = viewer.get(f"{MESSAGES}{message}/change/").content.decode()

    places = [page.index(each) for each in ("story-heading", "field-last_error", "field-payload_")]
    assert places == sorted(places)
    assert places[-1] < page.index("field-attempt")


def test_an_ended_message_has_its_result_if_there_is_one(queue: Connection, viewer: Client):
    ended(queue, 2)
    first, second = History.objects.order_by("pk")
    History.objects.filter(pk=first.pk).update(result={"value": 1})

    assert "result_text" in fields(viewer, f"{HISTORY}{first.pk}/change/")
    assert "result_text" not in fields(viewer, f"{HISTORY}{second.pk}/change/")
    assert "shown_state" in fields(viewer, f"{HISTORY}{second.pk}/change/")


def test_arguments_and_tracebacks_read_from_left_to_right_in_every_language(queue, viewer: Client):
    (message,) = bury(queue)
    error = {"class": "a.Oops", "message": "no", "traceback": "File", "attempt": 1}
    Message.objects.filter(pk=message).update(errors=[error])

    answer = viewer.get(f"{MESSAGES}{message}/change/", headers={"accept-language": "ar"})

    page = answer.content.decode()
    assert page.count("<pre") == page.count('<pre class="pgqueue-excerpt" dir="ltr"') == 2


def log(message: int, *texts: str) -> None:
    lines = json.dumps([[number, "INFO", "shop", text] for number, text in enumerate(texts)])
    with borrow("default") as own:
        run_logs.store(own, [RunLogRow(message, 0, lines)])


def test_log_lines_are_shown_and_new_ones_while_the_page_is_open(
    queue: Connection, viewer: Client, client: Client
) -> None:
    (message,) = enqueue(queue)
    Message.objects.filter(pk=message).update(metadata={"token": "abracadabra"})
    log(message, "<one>", "it is abracadabra")
    url = f"{MESSAGES}{message}/change/"

    page = viewer.get(url).content.decode()
    log(message, "<one>", "two")
    new = viewer.get(f"{url}?json=1").json()

    assert "&lt;one&gt;" in page
    assert "abracadabra" not in page
    assert "pgqueue-message-data" in page
    assert "two" in new["sections"]["logs"]
    assert new["is_over"] is False
    assert "two" not in client.get(f"{url}?json=1").content.decode()


def test_the_script_of_an_open_page_is_told_of_the_end(queue: Connection, viewer: Client) -> None:
    (message,) = enqueue(queue)
    log(message, "the last")
    Message.objects.filter(pk=message).cancel()

    told = viewer.get(f"{MESSAGES}{message}/change/?json=1").json()
    page = viewer.get(f"{HISTORY}{message}/change/").content.decode()

    assert told == {"sections": {}, "is_over": True}
    assert "pgqueue-message-data" not in page


def test_who_may_not_see_messages_gets_no_lines(queue: Connection, login: Login) -> None:
    (message,) = enqueue(queue)
    log(message, "secret")

    answer = login("view_channel").get(f"{MESSAGES}{message}/change/?json=1")

    assert answer.status_code == 403


def test_a_page_without_lines_asks_for_none(queue: Connection, viewer: Client) -> None:
    (message,) = enqueue(queue)

    page = viewer.get(f"{MESSAGES}{message}/change/").content.decode()

    assert "logs-heading" not in page
    assert "message.js" not in page


@pytest.mark.parametrize(
    ("noted", "words"),
    [
        ({"percent": 40}, "40 %"),
        ({"percent": 33.333}, "33.3 %"),
        ({"done": 0, "total": 4}, "0 %, 0 of 4"),
        ({"current": 3000, "total": 4000}, "75 %, 3,000 of 4,000"),
        ({"done": 5, "total": 4}, None),
        ({"done": 1, "total": 0}, None),
        ({"done": 1, "total": 10**400}, None),
        ({"done": "1", "total": 4}, None),
        ({"percent": True}, None),
        ({"percent": 101}, None),
        ({"turn": 3}, None),
        (7, None),
        (["a"], None),
    ],
)
def test_progress_that_is_a_part_of_a_whole_is_a_bar(noted: Any, words: str | None) -> None:
    share = progress.share_of(json.dumps(noted))

    assert (share and share.in_words()) == words


def test_the_page_of_a_message_has_its_progress_now(queue: Connection, viewer: Client) -> None:
    (message,) = enqueue(queue)
    url = f"{MESSAGES}{message}/change/"
    Message.objects.filter(pk=message).update(progress={"done": 1, "total": 8})

    page = viewer.get(url).content.decode()
    Message.objects.filter(pk=message).update(progress={"done": 2, "total": 8, "at": "<b>"})
    new = viewer.get(f"{url}?json=1").json()["sections"]

    assert 'max="100" value="12.5"' in page
    assert 'max="100" value="25.0"' in new["progress"]
    assert "&quot;at&quot;: &quot;&lt;b&gt;&quot;" in new["progress_text"]


def test_redacted_progress_is_no_bar(queue: Connection, viewer: Client, settings: Any) -> None:
    settings.PGQUEUE = {**settings.PGQUEUE, "REDACT": ["percent"]}
    (message,) = enqueue(queue)
    Message.objects.filter(pk=message).update(progress={"percent": 40})

    page = viewer.get(f"{MESSAGES}{message}/change/").content.decode()

    assert "message-bar" not in page
    assert "40" not in page.partition("field-progress_text")[2][:400]


def test_a_text_that_was_cut_says_so_also_where_it_is_redacted(
    queue: Connection, viewer: Client, settings: Any
):
    settings.PGQUEUE = {**settings.PGQUEUE, "REDACT": ["token"]}
    payload = json.dumps({"args": [], "kwargs": {"a": "x" * 40_000, "token": "y" * 40_000}})
    (message,) = enqueue(queue, payloads=[payload])

    page = viewer.get(f"{MESSAGES}{message}/change/").content.decode()

    assert "yyy" not in page
    assert page.count("… (the first 64.0\xa0KB)") == 1


def test_a_page_of_a_task_that_may_note_progress_asks_for_it(viewer: Client) -> None:
    noting = jobs.attempt_number.enqueue()
    other = jobs.add.enqueue(1)

    pages = [viewer.get(f"{MESSAGES}{each.id}/change/").content for each in (noting, other)]

    assert [b"message.js" in page for page in pages] == [True, False]


@pytest.mark.parametrize("order", [["first", "second"], ["second", "first"]])
def test_of_ended_messages_that_share_an_id_the_newest_is_shown(
    queue: Connection, viewer: Client, order: list[str]
):
    """A sequence that was set back gives an id again."""
    for each in order:
        ended(queue, ago=timedelta(minutes=each == "first"), channel=each)
        History.objects.filter(channel=each).update(id=7, metadata={"its": f"{each} metadata"})

    page = viewer.get(f"{HISTORY}7/change/").content.decode()

    assert [f"{each} metadata" in page for each in ("first", "second")] == [False, True]


def test_the_page_of_an_id_that_is_none_leads_back_to_the_list(viewer: Client):
    assert viewer.get(f"{HISTORY}no-id/change/").status_code == 302


@pytest.mark.parametrize(
    "place",
    [
        "pgqueue.admin.message._has_ended",
        "pgqueue.admin.display.Left",
        "pgqueue.tasks.redacting.rules",
        "pgqueue.admin.display.steps_of",
    ],
)
def test_a_message_that_ends_while_its_page_is_made_is_shown_with_its_end(
    queue: Connection, viewer: Client, monkeypatch: pytest.MonkeyPatch, place: str
):
    real = import_string(place)

    def ends(*args: Any) -> Any:
        answer = real(*args)
        Message.objects.filter(pk=message).cancel()
        return answer

    monkeypatch.setattr(place, ends)
    (message,) = enqueue(queue)
    page: Any = viewer.get(f"{MESSAGES}{message}/change/", follow=True)
    (message,) = enqueue(queue)
    told = viewer.get(f"{MESSAGES}{message}/change/?json=1").json()

    assert page.redirect_chain == [(page.wsgi_request.path, 302)]
    assert page.context["original"].outcome == "cancelled"
    assert not page.context["messages"]
    assert told["is_over"] or place.endswith("steps_of")
