"""Who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from pgqueue.models import History, Message
from tests.admin.acting import HISTORY, MESSAGES, act, choose, told
from tests.admin.conftest import Connection, Login
from tests.factories import bury, enqueue, schedule

LISTS = [
    f"/admin/pgqueue/{model}/"
    for model in (
        *("message", "history", "channel", "policy", "worker", "duty", "event", "group"),
        *("subscription", "webhook"),
    )
]


def offered(client: Client) -> set[str]:
    """Return the actions that the list of messages offers."""
    response: Any = client.get(MESSAGES)
    return set(response.context["cl"].model_admin.get_actions(response.wsgi_request))


@pytest.mark.parametrize("path", LISTS)
def test_a_user_who_may_view_sees_the_list(viewer, path):
    assert viewer.get(path).status_code == 200


INTERNAL = [
    *("bell", "cursor", "dedupe", "duty", "eventinbox", "gate", "lane"),
    *("purged", "reader", "waiter"),
]


def test_internal_tables_have_no_permissions(db: None) -> None:
    internal = Permission.objects.filter(
        content_type__app_label="pgqueue", content_type__model__in=INTERNAL
    )

    assert list(internal) == []


@pytest.mark.parametrize("path", LISTS)
def test_others_of_the_staff_do_not(db, login: Login, path):
    assert login("operate_message").get(path).status_code == 403


def test_a_user_who_may_only_view_is_offered_no_action(queue, viewer):
    enqueue(queue)

    assert offered(viewer) == set()
    assert b'name="action"' not in viewer.get(MESSAGES).content


def test_an_operator_may_run_cancel_and_replay_but_not_discard(operator):
    assert offered(operator) == {"run_now", "cancel", "release", "replay"}


def test_a_purger_may_only_discard(purger):
    assert offered(purger) == {"discard"}


@pytest.mark.parametrize(
    "action", ["run_now", "cancel", "release", "replay", "discard", "delete_selected"]
)
def test_an_action_that_is_not_offered_does_nothing(queue: Connection, viewer, action):
    ids = [*bury(queue), *schedule(queue)]
    before = list(Message.objects.order_by("id").values())

    page = choose(viewer, action, ids)

    assert list(Message.objects.order_by("id").values()) == before
    assert "ids" not in page.context


@pytest.mark.parametrize("action", ["discard", "delete_selected"])
def test_an_operator_can_not_discard_by_a_made_up_request(queue: Connection, operator, action):
    ids = bury(queue)

    page = choose(operator, action, ids)
    confirmed = operator.post(
        MESSAGES, {"action": action, "ids": str(ids[0]), "_selected_action": ids[0]}, follow=True
    )

    assert told(page) == told(confirmed) == ["No action selected."]
    assert Message.objects.dead().count() == 1


def test_not_even_a_superuser_adds_changes_or_deletes_a_message(queue: Connection, admin_client):
    (message,) = enqueue(queue)
    row = Message.objects.values().get()

    answers = [
        admin_client.get(f"{MESSAGES}add/"),
        admin_client.post(f"{MESSAGES}{message}/change/", {"task": "another", "state": "dead"}),
        admin_client.post(f"{MESSAGES}{message}/delete/", {"post": "yes"}),
        admin_client.get(f"{HISTORY}add/"),
    ]

    assert [answer.status_code for answer in answers] == [403] * 4
    assert Message.objects.values().get() == row
    assert "delete_selected" not in offered(admin_client)


def test_history_is_read_only_and_offers_only_reruns(queue: Connection, admin_client, purger):
    (message,) = bury(queue)
    act(purger, "discard", [message])

    page = purger.get(HISTORY)
    offered = admin_client.get(HISTORY).context["cl"].model_admin
    changed = admin_client.post(f"{HISTORY}{message}/change/", {"outcome": "succeeded"})

    assert b'name="action"' not in page.content
    assert set(offered.actions) == {"rerun"}
    assert changed.status_code == 403
    assert History.objects.get().outcome == "discarded"


def test_an_operator_ends_no_dead_letter_by_cancelling_it(queue, operator):
    dead, waiting = bury(queue)[0], schedule(queue)[0]

    answer = operator.post(
        MESSAGES,
        {"action": "cancel", "ids": f"{dead},{waiting}", "_selected_action": [dead], "index": "0"},
        follow=True,
    )

    assert told(answer) == ["1 cancelled, 1 had already ended, or are dead."]
    assert list(Message.objects.values_list("pk", "state")) == [(dead, "dead")]
    assert History.objects.get().pk == waiting
