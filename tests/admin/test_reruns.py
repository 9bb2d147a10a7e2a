"""Ended messages that are chosen in history, and enqueued once more."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError
from django.test import Client

from pgqueue import Channel, flow
from pgqueue.admin import reruns
from pgqueue.models import History, Message
from pgqueue.testing import run_all
from tests import jobs
from tests.admin.acting import HISTORY, told

pytestmark = pytest.mark.django_db


def ended(*numbers: int, **options: Any) -> list[int]:
    """Run messages of a task to their end; return their ids."""
    results = [jobs.add.using(**options).enqueue(number, b=1) for number in numbers]
    run_all(raise_errors=True)
    return [int(each.id) for each in results]


def arguments() -> list[int]:
    """Return the first argument of each live message."""
    return [
        each["args"][0] for each in Message.objects.order_by("pk").values_list("payload", flat=True)
    ]


def choose(client: Client, ids: list[int], *, across: bool = False, query: str = "") -> Any:
    data = {"action": "rerun", "index": "0", "select_across": str(int(across))}
    return client.post(f"{HISTORY}{query}", {**data, "_selected_action": ids}, follow=True)


def confirm(client: Client, page: Any) -> Any:
    context = page.context
    data = {"action": "rerun", "ids": context["ids"], "_selected_action": context["any_id"]}
    return client.post(page.wsgi_request.get_full_path(), data, follow=True)


def test_chosen_messages_are_enqueued_once_more_when_that_is_confirmed(operator: Client) -> None:
    first, _, third = ended(1, 2, 3)

    page = choose(operator, [third, first])
    assert "its task runs again" in page.content.decode()
    assert list(page.context["groups"]) == [
        {"task": "tests.jobs.add", "channel": "default", "state": "succeeded", "number": 2}
    ]
    assert arguments() == []
    page = confirm(operator, page)

    assert told(page) == ["2 enqueued once more."]
    assert arguments() == [1, 3]
    assert set(Message.objects.values_list("metadata__rerun_of", flat=True)) == {first, third}
    logged = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(History))
    assert [(each.object_id, each.change_message) for each in logged.order_by("object_id")] == [
        (str(first), "Enqueued once more."), (str(third), "Enqueued once more."),
    ]  # fmt: skip


def test_all_that_the_filters_find_are_asked_about_up_to_a_thousand(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ended(1, 2, channel="mail")
    ended(3)

    page = choose(operator, found[:1], across=True, query="?channel=mail")
    assert page.context["number"] == 2
    confirm(operator, page)
    assert arguments() == [1, 2]

    monkeypatch.setattr(reruns, "BATCH", 1)
    page = choose(operator, found[:1], across=True, query="?channel=mail")
    assert told(page) == [
        "Nothing was enqueued: these are more than 1 messages. Choose fewer, or use the command "
        "pgqueue_rerun with filters."
    ]
    assert arguments() == [1, 2]


def test_all_that_the_filters_find_are_taken_beyond_the_page(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.listing.index.REACH", 2)
    monkeypatch.setattr("pgqueue.admin.changelist.LOOK_FOR", 0)
    found = ended(1, 2, channel="mail")
    ended(3, 4)
    found += ended(5, channel="mail")

    page = choose(operator, found[2:], across=True, query="?channel=mail")
    monkeypatch.setattr(reruns, "LOOK_FOR", 0)
    refused = choose(operator, found[2:], across=True, query="?channel=mail")

    assert page.context["ids"] == ",".join(map(str, found))
    assert told(refused) == [
        "Nothing was enqueued: there are too many messages to look through them here. Choose "
        "fewer, or use the command pgqueue_rerun with filters."
    ]


def test_messages_of_unknown_tasks_and_of_full_channels_are_counted(operator: Client) -> None:
    [unknown, full, good] = [*ended(1), *ended(2, channel="mail"), *ended(3)]
    History.objects.filter(pk=unknown).update(task="no.such.task")
    Channel("mail").policy(max_size=1)
    jobs.add.using(channel="mail").enqueue(9)

    page = confirm(operator, choose(operator, [unknown, full, good]))

    assert told(page) == [
        "1 enqueued once more, 2 of a task that is not known here, of a channel that is full, or "
        "of a flow whose results are gone."
    ]
    assert arguments() == [9, 3]


def test_messages_whose_parents_results_are_gone_are_counted(operator: Client) -> None:
    with flow("sums") as f:
        gone, good = (
            f.enqueue(jobs.add, f.enqueue(jobs.add, number, b=1), b=2) for number in (10, 20)
        )
    run_all()
    History.objects.filter(pk=min(History.objects.values_list("pk", flat=True))).delete()

    page = confirm(operator, choose(operator, [int(gone.id), int(good.id)]))

    [said] = told(page)
    assert said.startswith("1 enqueued once more, 1 of a task that is not known here, ")
    assert arguments() == [21]


@pytest.mark.django_db(transaction=True)
def test_an_error_undoes_all_of_them(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ended(1, 2)
    real = reruns.rerun_each

    def fails_at_the_second(chosen: list[int], **options: Any) -> Any:
        if chosen == ids[1:]:
            raise DatabaseError("no")
        return real(chosen, **options)

    monkeypatch.setattr(reruns, "rerun_each", fails_at_the_second)

    page = confirm(operator, choose(operator, ids))

    assert told(page) == ["0 enqueued once more, 2 not tried, since the database failed."]
    assert arguments() == []


def test_who_may_not_operate_enqueues_nothing(viewer: Client) -> None:
    ids = ended(1)

    viewer.post(HISTORY, {"action": "rerun", "ids": str(ids[0]), "_selected_action": ids})

    assert arguments() == []
    assert b'name="action"' not in viewer.get(HISTORY).content
