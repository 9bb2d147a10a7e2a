"""The page of a key: why its messages are late."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pgqueue.engine import settle
from pgqueue.models import Breaker, Gate, Lane, Message, TaskPause
from pgqueue.operating.channels import Channel
from tests.admin.conftest import Connection, Login
from tests.factories import bury, ended, enqueue, failure, insert, limit, register, run

PAGE = "/admin/pgqueue/message/key/?channel=mail&key=tenant"
SOON = timedelta(minutes=5)


def reasons(client: Client) -> list[str]:
    response: Any = client.get(PAGE)
    assert response.status_code == 200
    return [str(reason) for reason in response.context["reasons"]]


def text(client: Client, path: str = PAGE) -> str:
    return client.get(path).content.decode()


@pytest.fixture(autouse=True)
def _served(queue: Connection) -> None:
    register(queue)


def lane(state: str, **columns: Any) -> None:
    now = timezone.now()
    Lane.objects.create(channel="mail", key="tenant", state=state, turn_at=now, tat=now, **columns)


def test_what_nothing_holds_back_waits_for_its_turn(queue: Connection, viewer: Client):
    enqueue(queue, 2, channel="mail", key="tenant")
    enqueue(queue, 5, channel="mail", key="other")

    page: Any = viewer.get(PAGE)

    assert page.context["reasons"] == []
    assert "Nothing but its turn" in page.content.decode()
    assert "2 messages are ready. About 5 of other keys are, too" in page.content.decode()


def test_a_pause_of_the_channel_is_said(queue: Connection, viewer: Client):
    Channel("mail").pause()

    assert "is paused" in reasons(viewer)[0]


def test_that_nobody_serves_it_is_said(queue: Connection, viewer: Client):
    queue.execute("UPDATE pgqueue_worker SET channels = '{other}'")

    assert "No worker is alive that serves this channel" in reasons(viewer)[0]


def test_a_key_that_is_saturated_says_by_what(queue: Connection, viewer: Client):
    limit("mail", "each", max_running=2)
    for _ in range(2):
        insert(queue, channel="mail", key="tenant", state="running")
    lane("saturated")

    (reason,) = reasons(viewer)

    assert reason.startswith("The key is saturated: 2 of its messages run, and 2 may")
    assert "2 at once" in text(viewer)


def test_a_key_without_room_for_a_heavy_message_says_so(queue: Connection, viewer: Client):
    limit("mail", "each", max_running=5)
    insert(queue, channel="mail", key="tenant", state="running", options='{"weight": 3}')
    lane("saturated")

    (reason,) = reasons(viewer)

    assert reason.startswith("The key has no room for the weight of its next message")
    assert "count for 3, and 5 may run" in reason


def test_a_channel_that_heavy_messages_saturate_says_so(queue: Connection, viewer: Client):
    limit("mail", "channel", max_running=4)
    insert(queue, channel="mail", key="other", state="running", options='{"weight": 4}')

    (reason,) = reasons(viewer)

    assert reason.startswith(
        "The channel as a whole is saturated: its running messages count for 4"
    )


def test_a_key_that_is_throttled_says_until_when(queue: Connection, viewer: Client):
    limit("mail", "each", rate=1, per=timedelta(hours=1))
    until = timezone.now() + SOON
    lane("throttled", wake_at=until)

    (reason,) = reasons(viewer)

    assert f"{until:%H:%M:%S}" in reason


def test_a_channel_that_is_saturated_as_a_whole_says_so(queue: Connection, viewer: Client):
    limit("mail", "channel", max_running=1)
    insert(queue, channel="mail", key="other", state="running")

    (reason,) = reasons(viewer)

    assert reason.startswith("The channel as a whole is saturated: 1 of its messages")


def test_a_key_that_is_paused_says_until_when(queue: Connection, viewer: Client):
    until = timezone.now() + SOON
    lane("throttled", wake_at=until, paused_until=until)

    (reason,) = reasons(viewer)

    assert "The key is paused: a task was told to wait until" in reason
    assert f"{until:%H:%M:%S}" in reason


def test_a_breaker_that_is_open_says_until_when(queue: Connection, viewer: Client):
    hour = timedelta(hours=1)
    until = timezone.now() + SOON
    limit("mail", "each", breaker_failures=5, breaker_within=hour, breaker_pause=hour)
    limit("mail", "channel", breaker_failures=5, breaker_within=hour, breaker_pause=hour)
    lane("throttled", wake_at=until)
    for key, end in (("tenant", until), ("other", until), ("", None)):
        Breaker.objects.create(
            channel="mail", key=key, failed_at=[timezone.now()] * 3, open_until=end
        )

    (reason,) = reasons(viewer)

    assert reason.startswith("The circuit breaker of the key “tenant”: open until <time>")
    assert f"{until:%H:%M:%S}" in reason
    assert "3 of 5 failures lately" in reason


def test_a_task_that_is_paused_says_until_when(queue: Connection, viewer: Client):
    until = timezone.now() + SOON
    enqueue(queue, channel="mail", key="tenant", task="shop.pay")
    TaskPause.objects.create(task="shop.pay", until=until)
    TaskPause.objects.create(task="shop.other", until=until)

    (reason,) = reasons(viewer)

    assert "The task shop.pay is paused: it was told to wait until" in reason
    assert f"{until:%H:%M:%S}" in reason


def test_a_channel_that_is_throttled_as_a_whole_says_until_when(queue: Connection, viewer: Client):
    until = timezone.now() + SOON
    Gate.objects.create(channel="mail", tat=until, wake_at=until)

    (reason,) = reasons(viewer)

    assert "The rate of the channel as a whole" in reason
    assert f"{until:%H:%M:%S}" in reason


def test_a_dead_letter_that_blocks_its_lane_is_named(queue: Connection, viewer: Client):
    dead = insert(queue, channel="mail", key="tenant", ordered=True, state="dead")
    insert(queue, channel="mail", key="tenant", ordered=True, governed=True)

    found = reasons(viewer)

    assert f"#{dead}" in found[0]
    assert "before them is dead" in found[0]


def test_an_ordered_message_that_runs_is_what_the_others_wait_for(
    queue: Connection, viewer: Client
):
    first = insert(queue, channel="mail", key="tenant", ordered=True, state="running")
    insert(queue, channel="mail", key="tenant", ordered=True, governed=True)

    (reason,) = reasons(viewer)

    assert f"#{first} (Running)" in reason


def test_retries_and_dead_letters_are_counted(queue: Connection, viewer: Client):
    bury(queue, 2, channel="mail", key="tenant")
    (held,) = run(queue, channel="mail", key="tenant")
    settle.retry(queue, [failure(held, delay=timedelta(hours=1))])

    found = reasons(viewer)

    assert found[0].startswith("1 message has failed, and waits for its next attempt")
    assert found[1].startswith("2 messages failed too often")


def test_its_messages_are_listed_by_what_they_do(queue: Connection, viewer: Client):
    ready = enqueue(queue, 2, channel="mail", key="tenant")
    other = enqueue(queue, channel="mail", key="other")
    queue.execute("UPDATE pgqueue_message SET governed = true WHERE id = %s", [ready[1]])
    ended(queue, 1, channel="mail")
    queue.execute("UPDATE pgqueue_history SET key = 'tenant'")

    page: Any = viewer.get(PAGE)

    found = {str(caption): [row.pk for row in rows] for caption, rows in page.context["tables"]}
    assert sorted(found["Ready, the next ones"]) == ready
    assert len(found["Ended lately"]) == 1
    assert f"#{other[0]}<" not in page.content.decode()


def test_what_can_be_done_is_offered_to_those_who_may(
    queue: Connection, viewer: Client, operator: Client, login: Login
):
    assert text(viewer).count("bulk/?") == 0
    offered = text(operator)
    assert "bulk/?action=cancel&amp;channel=mail&amp;key=tenant" in offered
    assert "action=discard" not in offered
    limiting = text(login("view_message", "add_policy"))
    assert "policy/add/?channel=mail&amp;scope=key&amp;key=tenant" in limiting


def test_of_very_many_messages_some_are_counted(
    queue: Connection, viewer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pgqueue.listing.index.REACH", 10)
    enqueue(queue, 3, channel="mail", key="tenant")

    assert "There are more than were counted." in text(viewer)


def test_what_has_no_key_has_a_page_too(queue: Connection, viewer: Client):
    enqueue(queue, 1, channel="mail")

    page = text(viewer, "/admin/pgqueue/message/key/?channel=mail")

    assert "Messages without a key of the channel" in page
    assert "1 message is ready" in page


@pytest.mark.parametrize("query", ["", "channel=a%00", "channel=mail&key=%00"])
def test_what_is_no_key_has_no_page(db: None, viewer: Client, query: str):
    assert viewer.get(f"/admin/pgqueue/message/key/?{query}").status_code == 400


def test_others_of_the_staff_do_not_see_it(db: None, login: Login):
    assert login("view_channel").get(PAGE).status_code == 403
    assert not Message.objects.exists()
