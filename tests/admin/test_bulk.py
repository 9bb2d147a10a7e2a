"""Operations on everything that a filter finds, as operators ask for them and follow them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils.http import urlencode

from pgqueue.models import History, Message
from pgqueue.operating import bulk
from pgqueue.testing import run_all
from tests.admin.acting import BULK, HISTORY, MESSAGES
from tests.admin.conftest import Connection, Login
from tests.factories import bury, enqueue, insert, limit, register, schedule


def ask(client: Client, action: str, **query: str) -> Any:
    """Ask for an operation, as the links of the list do."""
    return client.get(f"{BULK}?{urlencode({'action': action, **query})}")


def begin(client: Client, page: Any) -> Any:
    """Say yes on the page that asks."""
    request = page.wsgi_request
    newest = {"newest": page.context["newest"]}
    return client.post(request.get_full_path(), newest, follow=True)


def told(client: Client, page: Any) -> dict[str, Any]:
    """Return what the page of an operation is told while it goes on."""
    answer: dict[str, Any] = client.get(page.redirect_chain[-1][0], {"json": 1}).json()
    return answer


def links(client: Client, query: str = "") -> dict[str, str]:
    response: Any = client.get(f"{MESSAGES}{query}")
    return {operation.name: url for operation, url in response.context["bulk_links"]}


def test_the_list_offers_what_its_filters_allow(
    queue: Connection, operator: Client, purger: Client, viewer: Client
):
    assert links(operator).keys() == {"run_now", "cancel", "release", "replay"}
    assert links(operator, "?state=dead").keys() == {"replay"}
    assert links(purger, "?state=dead").keys() == {"discard"}
    assert links(viewer) == {}
    url = links(operator, "?state=dead&channel=a%26b&q=tenant&p=1")["replay"]
    assert url == f"{BULK}?action=replay&state=dead&channel=a%26b&q=tenant"


def test_the_list_offers_nothing_for_one_message_that_its_search_finds(
    queue: Connection, operator: Client
):
    (message,) = enqueue(queue, dedupe_keys=["once"])

    assert links(operator, f"?q={message}") == links(operator, "?q=once") == {}
    assert links(operator, "?q=a-key").keys() == {"run_now", "cancel", "release", "replay"}


def test_it_is_asked_about_with_a_count(queue: Connection, operator: Client):
    bury(queue, 3, task="shop.tasks.send", channel="mail")
    bury(queue, 2, task="shop.tasks.bill", channel="mail")
    bury(queue, 4, channel="other")

    page = ask(operator, "replay", channel="mail")

    counted = page.context["counted"]
    assert (counted.number, counted.is_all) == (5, True)
    assert [(group["task"], group["number"]) for group in counted.groups] == [
        ("shop.tasks.send", 3),
        ("shop.tasks.bill", 2),
    ]
    assert "This is done to 5 messages." in page.content.decode()
    assert not Message.objects.filter(task=bulk.operate.name).exists()


def test_very_many_are_counted_up_to_a_bound(
    queue: Connection, operator: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pgqueue.listing.index.STRETCH", 5)
    bury(queue, 8)

    page = ask(operator, "replay", state="dead")

    assert "more than 5 messages" in page.content.decode()


@pytest.mark.parametrize(
    ("query", "number", "is_all"),
    [
        ({"action": "cancel", "key": "a", "channel": "default"}, 1, True),
        ({"action": "replay", "key": "a", "channel": "default"}, 2, True),
        ({"action": "replay", "key": "a"}, 2, True),
        ({"action": "cancel", "key": "a", "state": "scheduled"}, 1, True),
        ({"action": "cancel", "state": "ready"}, 0, True),
        ({"action": "cancel", "state": "dead"}, 0, True),
        ({"action": "replay", "error": "Oops"}, 2, True),
        ({"action": "replay", "error": "ops"}, 0, True),
        ({"action": "cancel"}, 2, True),
        ({"action": "replay"}, 2, True),
    ],
)
def test_the_count_is_of_what_is_meant(
    queue: Connection, operator: Client, query: dict[str, str], number: int, is_all: bool
):
    bury(queue, key="a")
    bury(queue, key="a")
    schedule(queue, key="a")
    schedule(queue, channel="other")

    counted = ask(operator, **query).context["counted"]

    assert (counted.number, counted.is_all) == (number, is_all)


def test_ready_messages_are_counted_in_free_governed_and_ordered_lanes(
    queue: Connection, operator: Client, monkeypatch: pytest.MonkeyPatch
):
    # The operation runs before them.
    low = {"priority": -1}
    ids = enqueue(queue, 2, **low)
    ids.append(insert(queue, governed=True, **low))
    ids.append(insert(queue, governed=True, ordered=True, **low))
    enqueue(queue, channel="other", **low)
    schedule(queue)

    page = ask(operator, "cancel", state="ready", channel="default")
    with monkeypatch.context() as bounded:
        bounded.setattr("pgqueue.listing.index.STRETCH", 3)
        first = ask(operator, "cancel", state="ready", channel="default").context["counted"]
    begin(operator, page)
    run_all()

    counted = page.context["counted"]
    assert (counted.number, counted.is_all) == (4, True)
    assert (first.number, first.is_all) == (3, False)
    cancelled = History.objects.filter(outcome="cancelled").values_list("pk", flat=True)
    assert sorted(cancelled) == ids


def test_a_worker_does_it_and_its_page_tells_how_far_it_is(queue: Connection, operator: Client):
    ids = bury(queue, 5, channel="mail")
    others = bury(queue, 2, channel="other")

    page = begin(operator, ask(operator, "replay", channel="mail", state="dead"))
    before = told(operator, page)
    run_all()
    after = told(operator, page)

    assert (before["is_over"], before["percent"], before["done"]) == (False, 0, 0)
    assert before["said"] == "It waits for a worker."
    assert (after["is_over"], after["percent"], after["done"]) == (True, 100, 5)
    assert after["counts"] == "5 replayed"
    states = dict(Message.objects.values_list("pk", "state"))
    assert {states[id] for id in ids} <= {"ready", "scheduled"}
    assert {states[id] for id in others} == {"dead"}


def test_it_is_not_begun_if_the_channel_of_operations_is_full(queue: Connection, operator: Client):
    limit(bulk.CHANNEL, "channel", max_size=1)
    begin(operator, ask(operator, "replay", channel="mail", state="dead"))

    page = begin(operator, ask(operator, "replay", channel="mail", state="dead"))

    assert "The channel &#x27;operations&#x27;" in page.content.decode()
    assert page.redirect_chain == [(f"{MESSAGES}?state=dead&channel=mail", 302)]
    assert Message.objects.count() == 1


def test_only_what_was_there_when_it_was_asked_about_is_operated_on(
    queue: Connection, purger: Client
):
    ids = bury(queue, 2)
    page = ask(purger, "discard", state="dead")
    later = bury(queue, 2)

    begin(purger, page)
    run_all()

    assert set(Message.objects.dead().values_list("pk", flat=True)) == set(later)
    assert History.objects.filter(pk__in=ids).count() == 2


def test_it_is_logged_when_it_is_asked_for_and_when_it_has_ended(queue: Connection, purger: Client):
    _, newest = bury(queue, 2)

    begin(purger, ask(purger, "discard", state="dead"))
    run_all()

    entries = LogEntry.objects.order_by("pk")
    assert [entry.get_change_message() for entry in entries] == [
        f"discard: asked for, of all messages up to #{newest} with state=dead.",
        "Discard: ended, 2 done.",
    ]
    assert len({entry.object_id for entry in entries}) == 1


def test_it_is_stopped_from_its_page(queue: Connection, operator: Client):
    bury(queue, 2)
    page = begin(operator, ask(operator, "replay", state="dead"))

    page = operator.post(page.redirect_chain[-1][0], follow=True)
    run_all()

    assert page.context["told"]["said"] == "It was stopped."
    assert page.context["told"]["is_over"]
    assert Message.objects.dead().count() == 2


def test_who_may_not_do_it_may_neither_ask_nor_begin_nor_stop(
    queue: Connection, viewer: Client, operator: Client, purger: Client
):
    bury(queue, 2)
    page = begin(purger, ask(purger, "discard", state="dead"))
    (progress, _) = page.redirect_chain[-1]
    url = f"{BULK}?action=discard&state=dead"

    answers = [
        *(client.get(url).status_code for client in (viewer, operator)),
        *(client.post(url, {"newest": "9"}).status_code for client in (viewer, operator)),
        *(client.post(progress).status_code for client in (viewer, operator)),
        viewer.get(f"{BULK}?action=replay").status_code,
    ]

    assert answers == [403] * 7
    assert viewer.get(progress).status_code == 200
    assert Message.objects.filter(task=bulk.operate.name).count() == 1
    assert b"Stop" not in viewer.get(progress).content


def test_others_of_the_staff_see_no_operation(queue: Connection, login: Login, purger: Client):
    page = begin(purger, ask(purger, "discard", state="dead"))

    answer = login("view_channel").get(page.redirect_chain[-1][0])

    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("action=delete", 404),
        ("", 404),
        ("action=replay&state=lost", 400),
        ("action=replay&channel=%00", 400),
        ("action=replay&key=%00x", 400),
        ("action=replay&q=%00x", 400),
    ],
)
def test_what_can_not_be_asked_for_is_refused(
    queue: Connection, operator: Client, query: str, status: int
):
    enqueue(queue)

    assert operator.get(f"{BULK}?{query}").status_code == status


@pytest.mark.parametrize("newest", ["", "x", "-1", "9" * 30])
def test_an_id_that_is_none_is_refused(queue: Connection, operator: Client, newest: str):
    assert operator.post(f"{BULK}?action=replay", {"newest": newest}).status_code == 400


def test_an_id_in_the_search_is_no_filter(queue: Connection, operator: Client):
    (message,) = bury(queue)

    assert ask(operator, "replay", q=str(message)).status_code == 400


def test_a_message_of_another_task_has_no_such_page(queue: Connection, operator: Client):
    (message,) = enqueue(queue)

    assert operator.get(f"{BULK}{message}/").status_code == 404
    assert operator.get(f"{BULK}999999999/").status_code == 404


def test_it_is_said_that_no_worker_would_do_it(queue: Connection, operator: Client):
    def is_served() -> bool:
        return bool(ask(operator, "replay").context["is_served"])

    register(queue, channels=["mail"])
    register(queue, excluded=["operations"])
    assert not is_served()

    register(queue)
    assert is_served()


def test_the_list_is_narrowed_by_the_class_of_the_last_error(queue: Connection, viewer: Client):
    one, other = bury(queue, 2)
    Message.objects.filter(pk=one).update(errors=[{"class": "a.Early"}, {"class": "shop.Stuck"}])

    def listed(error: str) -> list[int]:
        response: Any = viewer.get(f"{MESSAGES}?state=dead&error={error}")
        return [row.pk for row in response.context["cl"].result_list]

    assert listed("Stuck") == listed("shop.Stuck") == [one]
    assert listed("Early") == []
    assert listed("Oops") == [other]


@pytest.mark.parametrize("path", [MESSAGES, f"{BULK}?action=replay&channel=mail&", HISTORY])
def test_an_error_is_sought_beside_a_key_too(
    queue: Connection, operator: Client, path: str
) -> None:
    bury(queue, channel="mail", key="k")

    page = operator.get(f"{path}{'' if '?' in path else '?'}q=k&error=Oops")

    assert page.status_code == 200
    assert path == HISTORY or page.text.count("tests.task")


@pytest.mark.parametrize(
    ("condition", "number"),
    [({"match": "meta.tenant=a"}, 1), ({"waits": "sleep"}, 0), ({"waits": "signal:yes"}, 0)],
)
def test_contents_and_waits_are_sought_beside_a_key_of_a_channel(
    queue: Connection, operator: Client, condition: dict[str, str], number: int
):
    enqueue(queue, channel="mail", key="k", metadata='{"tenant": "a"}')
    enqueue(queue, channel="mail", key="k", metadata='{"tenant": "b"}')

    page = ask(operator, "cancel", channel="mail", key="k", **condition)

    assert page.status_code == 200
    assert page.context["counted"].number == number
