"""`manage.py pgqueue_show`."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import CommandError

from pgqueue import flow
from pgqueue.engine import settle
from pgqueue.models import History, Message
from pgqueue.testing import run_all
from tests import jobs
from tests.factories import Connection, done, enqueue, insert, register, run
from tests.management.calling import call

KEYS = {
    *("id", "state", "task", "channel", "key", "priority", "attempt", "failures", "lost"),
    *("max_attempts", "created_at", "run_at", "expires_at", "claimed_at", "started_at"),
    *("cancel_requested_at", "ordered", "dedupe_key", "parent_id", "lease_until", "finished_at"),
    *("flow_id", "waits_for", "awaited_by"),
    *("body_size", "payload", "metadata", "options", "progress", "result", "worker", "children"),
    *("errors", "steps", "signals", "signals_out"),
}


def shown(id: int | str) -> dict[str, object]:
    found: dict[str, object] = call("pgqueue_show", str(id), "--format=json").json
    return found


def test_a_live_message_and_one_that_ended_have_the_keys_that_are_documented(
    queue: Connection,
) -> None:
    [live], [claim] = enqueue(queue), run(queue, channel="mail")
    settle.complete(queue, [done(claim, '{"sent": true}')])

    assert set(shown(live)) == set(shown(claim.id)) == KEYS
    assert shown(live)["state"] == "ready"
    assert shown(claim.id)["state"] == "succeeded"
    assert shown(claim.id)["result"] == {"sent": True}
    assert str(shown(claim.id)["finished_at"]).endswith("+00:00")


def test_each_attempt_that_failed_is_told_with_its_traceback(db: None) -> None:
    result = jobs.fail.enqueue("no such order")
    run_all(retries=True)

    errors = shown(result.id)["errors"]
    text = call("pgqueue_show", result.id).out

    assert isinstance(errors, list)
    assert [each["attempt"] for each in errors] == [1, 2, 3]
    assert all("no such order" in each["message"] for each in errors)
    assert "attempt 3 failed at 20" in text
    assert "    Traceback (most recent call last):" in text
    assert "state         dead" in text


def test_its_worker_is_named_as_long_as_there_is_one(queue: Connection) -> None:
    worker = register(queue)
    [claim] = run(queue, worker_id=worker)
    [other] = run(queue, worker_id=(gone := uuid4()))

    assert shown(claim.id)["worker"] == {"id": str(worker), "host": "somewhere", "pid": 1}
    assert shown(other.id)["worker"] == {"id": str(gone), "host": None, "pid": None}
    assert f"somewhere:1 ({worker})" in call("pgqueue_show", str(claim.id)).out
    assert f"{gone}, gone" in call("pgqueue_show", str(other.id)).out


def test_its_parent_and_its_children_are_named_live_or_ended(queue: Connection) -> None:
    [parent] = enqueue(queue)
    child = insert(queue, parent_id=parent)
    [claim] = run(queue, channel="mail", parent_id=parent)
    settle.complete(queue, [done(claim)])
    insert(queue, parent_id=parent + 1)

    assert shown(parent)["children"] == [child, claim.id]
    assert shown(child)["parent_id"] == shown(claim.id)["parent_id"] == parent
    assert f"{child}, {claim.id}" in call("pgqueue_show", str(parent)).out


def test_what_it_waits_for_and_what_waits_for_it_are_named(db: None) -> None:
    with flow("letters") as f:
        first = f.enqueue(jobs.add, 1, 2)
        second = f.enqueue(jobs.add, 3, after=first)
        third = f.enqueue(jobs.add, 4, after=[first, second])
    waiting = shown(second.id)
    run_all()
    ended = shown(third.id)

    assert (waiting["state"], waiting["flow_id"]) == ("held", int(f.id))
    assert waiting["waits_for"] == [{"id": int(first.id), "task": jobs.add.name, "state": "ready"}]
    assert waiting["awaited_by"] == [
        {"id": int(third.id), "task": jobs.add.name, "state": "waiting"}
    ]
    assert [each["state"] for each in ended["waits_for"]] == ["succeeded"] * 2  # type: ignore[attr-defined]
    assert f"{first.id} succeeded, {second.id} succeeded" in call("pgqueue_show", third.id).out


def test_what_is_not_there_is_said(db: None) -> None:
    with pytest.raises(CommandError, match="No message has the id 7 in 'default'"):
        call("pgqueue_show", "7")


def test_nothing_is_changed(queue: Connection) -> None:
    enqueue(queue, expires_after=timedelta(hours=1))
    before = list(Message.objects.values())

    shown(before[0]["id"])

    assert list(Message.objects.values()) == before
    assert not History.objects.exists()
