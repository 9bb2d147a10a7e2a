"""`manage.py pgqueue_show`."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import CommandError

from pgqueue import flow
from pgqueue.database.connections import borrow
from pgqueue.engine import run_logs, settle
from pgqueue.engine.run_logs import RunLogRow
from pgqueue.management.commands import pgqueue_show
from pgqueue.models import History, Message
from pgqueue.testing import run_all
from tests import jobs
from tests.factories import Connection, done, enqueue, insert, register, run
from tests.management.calling import call

KEYS = {
    *("id", "state", "task", "channel", "key", "priority", "attempt", "failures", "lost"),
    "weight",
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
    [live], [claim] = enqueue(queue, options='{"weight": 5}'), run(queue, channel="mail")
    settle.complete(queue, [done(claim, '{"sent": true}')])

    assert set(shown(live)) == set(shown(claim.id)) == KEYS
    assert shown(live)["state"] == "ready"
    assert (shown(live)["weight"], shown(claim.id)["weight"]) == (5, 1)
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


def test_log_lines_are_told_in_their_order_with_the_attempt(db: None) -> None:
    id = lines_of_a_message()

    text = call("pgqueue_show", str(id), "--logs").out.splitlines()
    as_json = [
        json.loads(line)
        for line in call("pgqueue_show", str(id), "--logs", "--format=json").out.splitlines()
    ]

    assert text[0].endswith(" 1 INFO shop: one")
    assert text[1:] == ["    and more", text[2]]
    assert text[2].endswith(" 2 ERROR shop: two")
    assert [(each["attempt"], each["text"]) for each in as_json] == [
        (1, "one\nand more"),
        (2, "two"),
    ]


def test_following_ends_with_the_message_and_tells_each_line_once(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = lines_of_a_message()

    def go_on(seconds: float) -> None:
        with borrow("default") as own:
            run_logs.store(own, [RunLogRow(id, 2, LATER)])
        Message.objects.filter(pk=id).cancel()

    monkeypatch.setattr(pgqueue_show, "sleep", go_on)

    text = call("pgqueue_show", str(id), "--logs", "--follow").out

    assert [text.count(each) for each in ("one", "two", "three")] == [1, 1, 1]


def test_following_needs_logs(db: None) -> None:
    with pytest.raises(CommandError, match="--follow follows log lines: add --logs"):
        call("pgqueue_show", "1", "--follow")


LATER = '[[2, "ERROR", "shop", "two"], [3, "INFO", "shop", "three"]]'


def lines_of_a_message() -> int:
    """Store two runs' lines, and return the id of their message."""
    result = jobs.add.using(run_after=3600).enqueue(1, 2)
    id = int(result.id)
    with borrow("default") as own:
        for attempt, lines in [
            (1, '[[1, "INFO", "shop", "one\\nand more"]]'),
            (2, '[[2, "ERROR", "shop", "two"]]'),
        ]:
            own.execute("UPDATE pgqueue_message SET attempt = %s WHERE id = %s", (attempt, id))
            run_logs.store(own, [RunLogRow(id, attempt, lines)])
    return id
