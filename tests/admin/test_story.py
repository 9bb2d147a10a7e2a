"""The page of a message tells what happened to it, in order."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db.models import F
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from pgqueue import task
from pgqueue.engine import settle
from pgqueue.models import History, Message
from pgqueue.testing import run_all
from tests import stored_flows as flows
from tests.admin.acting import HISTORY, MESSAGES
from tests.admin.conftest import EVERY_VIEW, Connection, Login
from tests.factories import claim, done, enqueue, failure, hold, register, run, schedule
from tests.jobs import add
from tests.stored_flows import Member


@task
def greet(group: Group, other: Group | None = None, name: str = "") -> None: ...


def steps(client: Client, id: int | str, path: str = MESSAGES) -> list[str]:
    response: Any = client.get(f"{path}{id}/change/", follow=True)
    assert response.status_code == 200
    return [strip_tags(str(step.text)) for step in response.context["story"]]


def page(client: Client, id: int | str) -> str:
    return client.get(f"{MESSAGES}{id}/change/", follow=True).content.decode()


def test_one_that_failed_and_succeeded_tells_each_attempt_in_order(
    queue: Connection, viewer: Client
):
    worker = register(queue)
    (held,) = run(queue, worker_id=worker)
    error = {
        "class": "a.Oops",
        "message": "no",
        "attempt": 1,
        "worker": str(worker),
        "release": "2026.11.3",
    }
    settle.retry(queue, [failure(held, json.dumps(error))])
    (held,) = claim(queue, worker_id=worker)
    settle.complete(queue, [done(held)])
    later = F("finished_at") + timedelta(seconds=2)
    History.objects.update(started_at=F("finished_at"), finished_at=later)

    story = steps(viewer, held.id)

    assert story[0] == "Enqueued"
    assert story[1] == "Attempt 1 failed on somewhere:1, in the release 2026.11.3"
    assert story[2] == "Attempt 2 was taken by somewhere:1"
    assert story[3].startswith("It began, ")
    assert story[4] == "Succeeded after it had run for 2 s"
    assert "a.Oops" in page(viewer, held.id)


def told_at(client: Client, id: int | str) -> list[Any]:
    """Return the times of a story's steps, as far as they have one."""
    response: Any = client.get(f"{MESSAGES}{id}/change/", follow=True)
    return [step.at for step in response.context["story"] if step.at]


def test_an_attempt_that_was_just_taken_has_not_begun_when_the_one_before_did(
    queue: Connection, viewer: Client
):
    (held,) = run(queue)
    error = {"class": "a.Oops", "message": "no", "attempt": 1, "worker": "w"}
    settle.retry(queue, [failure(held, json.dumps(error))])
    Message.objects.update(started_at=F("created_at") - timedelta(seconds=5))
    (held,) = claim(queue)

    story = steps(viewer, held.id)

    assert story[2].startswith("Attempt 2 was taken by ")
    assert not [each for each in story if each.startswith("It began")]
    assert told_at(viewer, held.id) == sorted(told_at(viewer, held.id))


def test_steps_are_in_the_order_of_their_times(queue: Connection, viewer: Client):
    (held,) = run(queue)
    now = timezone.now()
    errors = [
        {"class": "a.Oops", "message": "no", "attempt": number, "worker": "w", "at": at.isoformat()}
        for number, at in ((1, now - timedelta(minutes=8)), (2, now - timedelta(minutes=1)))
    ]
    Message.objects.update(
        errors=errors,
        attempt=2,
        created_at=now - timedelta(minutes=9),
        claimed_at=now - timedelta(minutes=5),
        started_at=now - timedelta(minutes=4),
        cancel_requested_at=now - timedelta(minutes=3),
    )

    said = [each.partition(" on ")[0].partition(",")[0] for each in steps(viewer, held.id)]

    assert said == [
        "Enqueued",
        "Attempt 1 failed",
        "Attempt 2 was taken by " + said[2].rpartition(" ")[2],
        "It began",
        "It was asked to stop.",
        "Attempt 2 failed",
        "It runs now.",
    ]


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"schedule": "nightly", "tick": "2026-01-01T03:00"}, "by the schedule nightly, for the"),
        (
            {"subscription": "welcome", "position": 12},
            "the subscription welcome, for the event 12",
        ),
        ({"acting": {"user": {"id": 1, "name": "ada"}}}, "Enqueued, by ada"),
        ({"acting": {"user": "batch"}}, "Enqueued, by batch"),
        ({"acting": "odd"}, "Enqueued, by odd"),
        ({"replayed_from": 7}, "and replayed since: #7"),
    ],
)
def test_it_tells_who_enqueued_it(
    queue: Connection, viewer: Client, metadata: dict[str, Any], said: str
):
    (message,) = enqueue(queue)
    Message.objects.update(metadata=metadata)

    assert said in steps(viewer, message)[0]


def test_links_are_for_those_who_may_see_where_they_lead(
    queue: Connection, viewer: Client, login: Login
):
    (message,) = enqueue(queue)
    Message.objects.update(metadata={"subscription": "a/b", "position": 12}, parent_id=message)
    href = 'href="/admin/pgqueue/subscription/a_2Fb/change/"'

    assert href in page(viewer, message)
    assert href not in page(login("view_message", "view_history"), message)


def test_what_waits_says_for_what(queue: Connection, viewer: Client):
    (later,), (held,), (ready,) = schedule(queue), hold(queue), enqueue(queue)
    (running,) = run(queue, channel="runs")

    assert steps(viewer, later)[1].startswith("Delayed until")
    assert steps(viewer, later)[-1].startswith("It is due at")
    assert steps(viewer, held)[-1] == "It waits to be committed."
    assert steps(viewer, ready)[-1] == "Now it waits for a worker: what holds its key back"
    assert steps(viewer, running.id)[-1] == "It runs now."


def test_a_retry_that_waits_says_until_when(queue: Connection, viewer: Client):
    (held,) = run(queue)
    settle.retry(queue, [failure(held, delay=timedelta(hours=1))])

    assert steps(viewer, held.id)[-1].startswith("Now it waits for its next attempt, at")


def test_attempts_that_are_not_kept_are_counted(queue: Connection, viewer: Client):
    (message,) = enqueue(queue)
    errors = [{"class": "E", "attempt": attempt} for attempt in (1, 5, 6)]
    Message.objects.update(errors=errors, attempt=6, state="dead", lost=2)

    story = steps(viewer, message)

    assert "3 attempts more, not kept" in story
    assert "2 workers died while they ran it" in story
    assert story[-1] == "Dead: it waits for a replay."


def test_a_request_to_stop_is_told(queue: Connection, viewer: Client):
    (held,) = run(queue)
    Message.objects.all().cancel()

    assert "It was asked to stop." in steps(viewer, held.id)


def test_the_messages_that_it_has_enqueued_are_linked(queue: Connection, viewer: Client):
    (parent,) = enqueue(queue)
    live, ended, other = enqueue(queue, 3)
    Message.objects.filter(pk__in=[live, ended]).update(parent_id=parent)
    Message.objects.filter(pk=ended).cancel()

    shown = page(viewer, parent)

    assert f'href="{MESSAGES}{live}/change/"' in shown
    assert f'href="{MESSAGES}{ended}/change/"' in shown
    assert f'href="{MESSAGES}{other}/change/"' not in shown
    assert f'href="{MESSAGES}{parent}/change/"' in page(viewer, live)


class TestTheModelInstancesInItsArguments:
    def test_are_linked_for_those_who_may_see_them(self, db: None, viewer: Client, login: Login):
        group = Group.objects.create(name="<staff>")
        message = greet.enqueue(group, name="7").id
        href = f'href="/admin/auth/group/{group.pk}/change/"'

        seeing = login(*EVERY_VIEW)
        user = User.objects.get(pk=seeing.session["_auth_user_id"])
        user.user_permissions.add(
            Permission.objects.get(codename="view_group", content_type__app_label="auth")
        )

        assert href in page(seeing, message)
        assert "“&lt;staff&gt;”" in page(seeing, message)
        assert href not in page(viewer, message)
        assert f"group {group.pk}" in page(viewer, message)

    def test_are_said_to_be_gone_if_they_are(self, db: None, viewer: Client):
        group = Group.objects.create(name="staff")
        message = greet.enqueue(group).id
        pk = group.pk
        group.delete()

        assert f"group {pk}: not there" in page(viewer, message)

    def test_are_none_of_a_task_that_is_not_there_or_has_changed(
        self, queue: Connection, viewer: Client
    ):
        (gone,) = enqueue(queue, task="tests.jobs.gone", payloads=['{"args": [1], "kwargs": {}}'])
        (odd,) = enqueue(queue, task=greet.name, payloads=['{"what": 1}'])
        (tagged,) = enqueue(queue, task=greet.name, payloads=['{"args": [{"@": "x", "value": 1}]}'])

        for message in (gone, odd, tagged):
            assert "not there" not in page(viewer, message)

    def test_are_told_of_ended_messages_too(self, db: None, viewer: Client):
        group = Group.objects.create(name="staff")
        message = greet.enqueue(group).id
        run_all()

        assert History.objects.filter(pk=message).exists()
        assert f"group {group.pk}" in page(viewer, message)


def test_what_runs_without_a_model_has_none(db: None, viewer: Client):
    result = add.enqueue(1)

    response: Any = viewer.get(f"{MESSAGES}{result.id}/change/")

    assert response.context["instances"] == []


class TestAMemberOfAFlow:
    def test_tells_what_it_waits_for_and_what_waits_for_it(self, queue: Connection, viewer: Client):
        members = [Member("a", "succeeded"), Member("b", "held", (0,)), Member("c", "held", (1,))]
        stored = flows.store("f", members)
        first, second, third = stored.ids

        shown = page(viewer, second)

        assert f'<dd><a href="{stored.path}">#{stored.id}</a></dd>' in shown
        assert f">a #{first}</a>: Succeeded" in shown
        assert f">c #{third}</a>: Waits for others" in shown
        assert f">b #{second}</a>: Waits for others" in page(viewer, first)

    def test_tells_what_it_still_waits_for(self, queue: Connection, viewer: Client):
        members = [
            Member("a", "succeeded"),
            Member("b", "running"),
            Member("c", "ready"),
            Member("d", "held", (0, 1, 2)),
        ]
        _, running, ready, child = flows.store("f", members).ids

        story = steps(viewer, child)

        assert story[1] == "It waits for other messages of its flow."
        assert story[-1] == f"It still waits for #{running} (running), #{ready} (ready)"

    @pytest.mark.parametrize(
        ("on_failure", "is_said"), [("wait", True), ("run", False), ("cancel", False)]
    )
    def test_says_that_a_dead_one_holds_it_up_if_it_does(
        self, queue: Connection, viewer: Client, on_failure: str, is_said: bool
    ):
        members = [Member("a", "dead"), Member("b", "held", (0,), on_failure=on_failure)]
        dead, child = flows.store("f", members).ids

        last = steps(viewer, child)[-1]

        assert last.startswith(f"It still waits for #{dead} (dead)")
        assert ("has to be replayed" in last) == is_said

    def test_tells_which_end_made_it_ready(self, queue: Connection, viewer: Client):
        members = [
            Member("a", "succeeded", (), 0, 2),
            Member("b", "succeeded", (), 0, 5),
            Member("c", "succeeded", (0, 1), 6, 7),
            Member("d", "ready", (2,)),
        ]
        _, second, third, ready = flows.store("f", members).ids

        said = "#{} ended, the last message that it waited for: it became ready."
        assert said.format(second) in steps(viewer, third)
        assert said.format(third) in steps(viewer, ready)

    def test_with_very_many_parents_names_the_first_ones(self, queue: Connection, viewer: Client):
        members = [*[Member("a", "ready")] * 25, Member("b", "held", range(25))]
        stored = flows.store("f", members)

        last, shown = steps(viewer, stored.ids[-1])[-1], page(viewer, stored.ids[-1])

        assert last.endswith(f"#{stored.ids[19]} (ready), …")
        assert shown.count("</a>: Ready</div>") == 20


def test_history_tells_the_same(queue: Connection, viewer: Client):
    (held,) = run(queue)
    settle.complete(queue, [done(held)])

    assert steps(viewer, held.id, HISTORY)[-1].startswith("Succeeded")


def test_the_tenant_of_a_message_is_named_where_the_project_has_tenants(
    queue: Connection, viewer: Client, settings: Any
):
    [id] = enqueue(queue, metadata='{"tenant": "north"}')
    assert "north" not in "".join(steps(viewer, id))

    settings.PGQUEUE = {**settings.PGQUEUE, "TENANT": "tests.tasks.test_tenants.functions"}

    assert "in the tenant north" in steps(viewer, id)[0]
