"""What operators do to messages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.contrib.admin.models import LogEntry
from django.db import DatabaseError, connection, connections, transaction
from django.test import Client

from pgqueue.admin import operations
from pgqueue.database.connections import connect
from pgqueue.models import History, Message
from pgqueue.models.message import MessageQuerySet
from tests.admin.acting import BULK, HISTORY, MESSAGES, act, choose, confirm, told
from tests.admin.conftest import Connection, Login
from tests.factories import bury, enqueue, run, schedule


def states() -> dict[int, str]:
    """Return the state of each live message."""
    return dict(Message.objects.values_list("id", "state"))


def outcomes() -> dict[int, str]:
    """Return the outcome of each message that ended."""
    return dict(History.objects.values_list("id", "outcome"))


def test_run_now_does_not_wait_until_they_are_due(queue: Connection, operator: Client):
    ids = schedule(queue, 3)

    page = act(operator, "run_now", ids[:2])

    assert told(page) == ["2 made ready."]
    assert states() == {ids[0]: "ready", ids[1]: "ready", ids[2]: "scheduled"}


def test_cancel_ends_what_is_waiting_and_asks_what_runs(queue: Connection, operator: Client):
    (running,) = [claim.id for claim in run(queue)]
    waiting = [*schedule(queue), *enqueue(queue, channel="other"), *enqueue(queue)]

    page = act(operator, "cancel", [running, *waiting])

    assert told(page) == ["3 cancelled, 1 running and asked to stop."]
    assert outcomes() == dict.fromkeys(waiting, "cancelled")
    assert states() == {running: "running"}
    assert Message.objects.get().cancel_requested_at is not None


def test_release_takes_what_runs_from_its_worker(queue: Connection, operator: Client):
    (mine, other) = [claim.id for claim in run(queue, 2)]
    (waiting,) = enqueue(queue)

    page = choose(operator, "release", [mine, waiting])
    assert "A run that goes on is not stopped" in page.content.decode()
    assert states()[mine] == "running"
    page = confirm(operator, page)

    assert told(page) == ["1 released, 1 not running any more."]
    assert states() == {mine: "ready", other: "running", waiting: "ready"}
    assert [(each.object_id, each.change_message) for each in LogEntry.objects.all()] == [
        (str(mine), "Released.")
    ]


def test_replay_makes_dead_letters_ready(queue: Connection, operator: Client):
    ids = bury(queue, 2)

    page = act(operator, "replay", ids)

    assert told(page) == ["2 replayed."]
    assert states() == dict.fromkeys(ids, "ready")


def test_discard_ends_dead_letters(queue: Connection, purger: Client):
    ids = bury(queue, 2)

    page = act(purger, "discard", ids)

    assert told(page) == ["2 discarded."]
    assert outcomes() == dict.fromkeys(ids, "discarded")
    assert states() == {}


@pytest.mark.parametrize(
    ("action", "report"),
    [
        ("run_now", "0 made ready, 2 not scheduled any more."),
        ("replay", "1 replayed, 1 no longer dead."),
        ("discard", "1 discarded, 1 no longer dead."),
        ("cancel", "0 cancelled, 2 had already ended, or are dead."),
    ],
)
def test_what_changed_since_the_page_was_made_is_reported(
    queue: Connection, admin_client: Client, action, report
):
    dead, gone = bury(queue, 2)
    Message.objects.filter(pk=gone).discard()

    page = choose(admin_client, action, [dead, gone], query="?state=dead")
    page = confirm(admin_client, page, query="?state=dead") if "ids" in page.context else page

    assert told(page) == [report]


@pytest.mark.parametrize("action", ["cancel", "discard"])
def test_what_nothing_brings_back_is_asked_about_first(
    queue: Connection, admin_client: Client, action
):
    ids = bury(queue, 2, task="shop.tasks.send")

    page = choose(admin_client, action, ids)

    assert states() == dict.fromkeys(ids, "dead")
    assert list(page.context["groups"]) == [
        {"task": "shop.tasks.send", "channel": "default", "state": "dead", "number": 2}
    ]
    assert "There is no way back." in page.content.decode()
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("action", ["run_now", "cancel", "replay"])
def test_all_rows_of_a_list_are_everything_that_its_filters_find(
    queue: Connection, operator: Client, action
):
    ids = bury(queue, 3)

    page = choose(operator, action, ids[:1], across=True, query="?state=dead&channel=default")

    assert page.redirect_chain == [(f"{BULK}?state=dead&channel=default&action={action}", 302)]
    assert states() == dict.fromkeys(ids, "dead")


@pytest.mark.parametrize("place", ["p=1", "start=%5B7%5D", "o=1", "_facets=1"])
def test_all_rows_of_a_list_are_the_same_on_each_of_its_pages(
    queue: Connection, operator: Client, place: str
):
    ids = bury(queue, 3)

    page = choose(operator, "replay", ids[:1], across=True, query=f"?channel=default&{place}")

    assert page.redirect_chain == [(f"{BULK}?channel=default&action=replay", 302)]
    assert page.status_code == 200


def test_each_message_has_its_log_entry(queue: Connection, operator: Client):
    (running,) = [claim.id for claim in run(queue, task="shop.tasks.run")]
    ended, gone = enqueue(queue, 2, channel="other", task="shop.tasks.send")
    Message.objects.filter(pk=gone).cancel()

    act(operator, "cancel", [running, ended, gone])

    entries = LogEntry.objects.order_by("object_id")
    assert {(e.object_id, e.object_repr, e.change_message) for e in entries} == {
        (str(running), f"shop.tasks.run #{running}", "Asked to stop."),
        (str(ended), f"shop.tasks.send #{ended}", "Cancelled."),
    }
    assert {entry.user for entry in entries} == {operator_of(operator)}
    assert operator.get(f"{MESSAGES}{running}/history/").status_code == 200


def test_the_log_of_an_ended_message_has_the_entries_from_before_its_end(
    queue: Connection, operator: Client, login: Login, monkeypatch: pytest.MonkeyPatch
):
    waiting, other = schedule(queue, 2)
    act(operator, "run_now", [waiting])
    act(operator, "cancel", [waiting, other])

    def logged(path: str) -> list[tuple[Any, str]]:
        page: Any = operator.get(path, follow=True)
        return [(each.user, each.change_message) for each in page.context["action_list"]]

    user = operator_of(operator)
    entries = [(user, "Made ready."), (user, "Cancelled.")]
    assert logged(f"{MESSAGES}{waiting}/history/") == logged(f"{HISTORY}{waiting}/history/")
    assert logged(f"{HISTORY}{waiting}/history/") == entries
    monkeypatch.setattr("pgqueue.admin.history.LOGGED", 1)
    assert logged(f"{HISTORY}{waiting}/history/?p=2") == entries[1:]
    assert login("view_message").get(f"{HISTORY}{waiting}/history/").status_code == 403


def operator_of(client: Client) -> Any:
    """Return who is logged in."""
    return client.get(MESSAGES).wsgi_request.user  # type: ignore[attr-defined]


def test_a_failure_on_the_way_is_reported_with_what_was_done(
    queue: Connection, operator: Client, monkeypatch
):
    ids = bury(queue, 5)
    monkeypatch.setattr(operations, "BATCH", 2)
    replay, calls = MessageQuerySet.replay, []

    def fail_later(messages: MessageQuerySet) -> Any:
        calls.append(messages)
        if len(calls) == 2:
            raise DatabaseError("gone")
        return replay(messages)

    monkeypatch.setattr("pgqueue.admin.message.REPLAY", replace(operations.REPLAY, run=fail_later))

    page = act(operator, "replay", ids)

    assert told(page) == ["2 replayed, 3 not tried, since the database failed."]
    assert next(iter(page.context["messages"])).level_tag == "error"
    assert LogEntry.objects.count() == 2


@pytest.mark.parametrize("ids", ["", "1,x", "1;2"])
def test_ids_that_are_none_are_refused(queue: Connection, operator: Client, ids):
    (message,) = bury(queue)

    answer = operator.post(MESSAGES, {"action": "replay", "ids": ids, "_selected_action": message})

    assert answer.status_code == 400
    assert states() == {message: "dead"}


def test_the_page_of_a_message_offers_what_its_state_allows(
    queue: Connection, operator: Client, admin_client: Client
):
    (scheduled,), (dead,), (runs,) = schedule(queue), bury(queue), run(queue)

    def buttons(client: Client, message: int) -> list[str]:
        context: Any = client.get(f"{MESSAGES}{message}/change/").context  # type: ignore[attr-defined]
        return [operation.name for operation in context["operations"]]

    assert buttons(operator, scheduled) == ["run_now", "cancel"]
    assert buttons(operator, dead) == ["replay"]
    assert buttons(operator, runs.id) == ["cancel", "release"]
    assert buttons(admin_client, dead) == ["replay", "discard"]


def test_the_buttons_of_a_message_do_what_they_say(queue: Connection, operator: Client):
    (dead,) = bury(queue)
    page = operator.get(f"{MESSAGES}{dead}/change/").content.decode()

    # As a browser would send that form.
    assert f'<input type="hidden" name="_selected_action" value="{dead}">' in page
    assert f'name="action" value="replay" formaction="{MESSAGES}"' in page
    answer = operator.post(MESSAGES, {"action": "replay", "_selected_action": dead}, follow=True)

    assert told(answer) == ["1 replayed."]
    assert states() == {dead: "ready"}


def test_a_day_that_history_does_not_have_yet_is_made(queue: Connection, operator: Client):
    ids = enqueue(queue, 2)
    (today,) = queue.execute(
        "SELECT 'pgqueue_history_' || to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')"
    ).fetchone() or ("",)
    queue.execute(f"DROP TABLE {today}")

    page = act(operator, "cancel", ids)

    assert told(page) == ["2 cancelled."]
    assert outcomes() == dict.fromkeys(ids, "cancelled")


class TestInATransactionOfTheCallers:
    def test_what_it_waits_for_locks_is_left_as_it_was(self, queue: Connection):
        ids = bury(queue)
        queue.execute("SET LOCAL lock_timeout = '7s'")

        Message.objects.filter(pk__in=ids).replay()

        assert queue.execute("SHOW lock_timeout").fetchone() == ("7s",)

    def test_the_operation_is_undone_with_it(self, queue: Connection):
        ids = bury(queue, 2)

        with pytest.raises(ZeroDivisionError), transaction.atomic():
            assert Message.objects.dead().discard().done == set(ids)
            raise ZeroDivisionError

        assert states() == dict.fromkeys(ids, "dead")


@pytest.mark.django_db(transaction=True)
class TestBesideATaskThatLocksItsMessage:
    @pytest.fixture
    def locked(self) -> Iterator[int]:
        """A message that an atomic task runs, the only one there is."""
        Message.objects.all().delete()
        History.objects.all().delete()
        with connect("default", name="test") as other:
            (claim,) = run(other, channel="atomic")
            other.execute("BEGIN")
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR NO KEY UPDATE", [claim.id])
            yield claim.id
            other.execute("ROLLBACK")

    def test_cancel_waits_briefly_and_cancels_the_others(self, locked: int, login: Login):
        connection.ensure_connection()
        others = enqueue(connection, 3)
        operator = login("view_message", "operate_message")

        begun = time.monotonic()
        page = act(operator, "cancel", [locked, *others])

        assert time.monotonic() - begun < 3
        assert told(page) == [
            f"3 cancelled, 1 locked by the task that runs, to be tried again (#{locked})."
        ]
        assert states() == {locked: "running"}
        assert outcomes() == dict.fromkeys(others, "cancelled")

    def test_the_locks_of_a_batch_are_not_held_while_it_waits_for_another(self, locked: int):
        connection.ensure_connection()
        ids = enqueue(connection, 3)

        operated = Message.objects.filter(pk__in=[locked, *ids]).cancel()

        assert operated.busy == {locked}
        assert operated.done == set(ids)
        assert connection.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.django_db(databases=["default", "second"])
def test_the_queue_may_be_in_another_database(settings, login: Login):
    settings.PGQUEUE = {"DATABASE": "second"}
    connections["second"].ensure_connection()
    ids = bury(connections["second"].connection, 2)
    operator = login("view_message", "operate_message")

    page = act(operator, "replay", ids)

    assert told(page) == ["2 replayed."]
    assert set(Message.objects.using("second").values_list("state", flat=True)) == {"ready"}
    assert not Message.objects.using("default").exists()
    assert operator.get(f"{MESSAGES}{ids[0]}/change/").status_code == 200
