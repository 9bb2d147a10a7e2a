"""`manage.py pgqueue_cancel`, `pgqueue_replay` and `pgqueue_discard`."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import CommandError
from django.db import connections

from pgqueue.engine import operate
from pgqueue.engine.operate import Operated
from pgqueue.management import operating
from pgqueue.management.selection import in_batches
from pgqueue.models import History, Message
from tests.factories import Connection, bury, enqueue, hold, insert, run, schedule
from tests.management.calling import call
from tests.processes import manage

BROKEN = '[{"class": "builtins.OSError"}, {"class": "shop.tasks.ForkliftStuck", "message": "no"}]'


def states() -> dict[int, str]:
    return dict(Message.objects.values_list("pk", "state"))


def test_a_stop_is_heard_while_a_filter_finds_nothing(queue: Connection) -> None:
    ids = schedule(queue, 2)
    answers = iter([False, True])

    tally = operating.operate(
        in_batches([[], [], ids]),
        "cancel",
        alias="default",
        show=lambda tried: None,
        is_to_stop=lambda: next(answers),
    )

    assert tally.tried == 0
    assert states() == dict.fromkeys(ids, "scheduled")


class TestIds:
    def test_choose_these_and_no_others(self, queue: Connection) -> None:
        ids = bury(queue, 3)

        called = call("pgqueue_replay", str(ids[0]), "--format=text", str(ids[2]))

        assert (called.out, called.status) == ("2 replayed.\n", 0)
        assert states() == {ids[0]: "ready", ids[1]: "dead", ids[2]: "ready"}

    def test_that_are_not_meant_are_counted_and_the_status_says_so(self, queue: Connection) -> None:
        [dead], [ready] = bury(queue), enqueue(queue)

        called = call("pgqueue_discard", str(dead), str(ready), "999999999")

        assert called.out == "1 discarded, 2 not dead.\n"
        assert called.status == 1
        assert states() == {ready: "ready"}

    def test_of_running_messages_are_asked_to_stop(self, queue: Connection) -> None:
        [claim], [waiting] = run(queue), schedule(queue)

        called = call("pgqueue_cancel", str(claim.id), str(waiting), "--format=json")

        assert called.json == {
            "verb": "cancel",
            "dry_run": False,
            "found": 2,
            "done": 1,
            "asked": 1,
            "unchanged": 0,
            "busy": 0,
            "busy_ids": [],
            "stopped": False,
        }
        assert called.status == 0
        assert History.objects.get().pk == waiting

    def test_of_running_messages_are_taken_from_their_workers(self, queue: Connection) -> None:
        [mine, other], [waiting] = run(queue, 2), schedule(queue)

        called = call("pgqueue_release", str(mine.id), str(waiting))

        assert (called.out, called.status) == ("1 released, 1 not running.\n", 1)
        assert states() == {mine.id: "ready", other.id: "running", waiting: "scheduled"}

    @pytest.mark.parametrize(
        "words", [["1", "--channel=mail"], ["1", "--all"], ["--all", "--key=a"], []]
    )
    def test_and_filters_exclude_each_other_and_one_is_needed(
        self, queue: Connection, words: list[str]
    ) -> None:
        enqueue(queue)

        with pytest.raises(CommandError) as raised:
            call("pgqueue_cancel", *words)

        assert raised.value.returncode == 2
        assert Message.objects.exists()


@pytest.fixture
def various(queue: Connection) -> dict[str, int]:
    """One message of each kind, by a name."""
    return {
        "mail": enqueue(queue, channel="mail")[0],
        "keyed": enqueue(queue, key="ada")[0],
        "held": hold(queue)[0],
        "scheduled": schedule(queue)[0],
        "running": run(queue, channel="busy")[0].id,
        "governed": insert(queue, state="ready", governed=True, channel="ruled"),
        "ordered": insert(queue, state="ready", governed=True, ordered=True, channel="ruled"),
        "other task": insert(queue, task="shop.tasks.pack"),
        "old": insert(queue, created_at="2026-01-01T00:00Z"),
        "failed": insert(queue, channel="failing", errors=BROKEN),
        "stuck": insert(queue, state="dead", errors=BROKEN),
        "dead": insert(queue, state="dead", errors='[{"class": "shop.tasks.UnForkliftStuck"}]'),
    }


class TestFilters:
    @pytest.mark.parametrize(
        ("words", "names"),
        [
            (["--channel=mail"], ["mail"]),
            (["--key=ada"], ["keyed"]),
            (["--task=shop.tasks.pack"], ["other task"]),
            (["--error=ForkliftStuck"], ["failed"]),
            (["--error=shop.tasks.ForkliftStuck"], ["failed"]),
            (["--error=OSError"], []),
            (["--older-than=86400"], ["old"]),
            (["--state=held"], ["held"]),
            (["--state=scheduled"], ["scheduled"]),
            (["--state=running"], ["running"]),
            (["--state=scheduled", "--channel=default", "--error=UnForkliftStuck"], []),
            (["--state=ready", "--channel=ruled"], ["governed", "ordered"]),
            (
                ["--state=ready"],
                ["mail", "keyed", "governed", "ordered", "other task", "old", "failed"],
            ),
            (["--channel=nowhere"], []),
        ],
        ids=" ".join,
    )
    def test_choose_what_they_say_each_once(
        self, various: dict[str, int], words: list[str], names: list[str]
    ) -> None:
        looked = call("pgqueue_cancel", *words, "--dry-run", "--format=json").json
        done = call("pgqueue_cancel", *words, "--format=json")

        assert looked["found"] == len(names)
        assert {each["id"] for each in looked["sample"]} == {various[name] for name in names}
        assert done.json["done"] + done.json["asked"] == done.json["found"] == len(names)
        assert done.status == 0
        left = set(various.values()) - {various[name] for name in names} | {various["running"]}
        assert set(states()) == left

    def test_may_be_none_if_all_are_meant(self, various: dict[str, int]) -> None:
        called = call("pgqueue_cancel", "--all")

        assert called.out == "9 cancelled, 1 running and asked to stop.\n"

    def test_find_every_message_however_many_stretches_there_are(
        self, queue: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.listing.index.STRETCH", 7)
        monkeypatch.setattr("pgqueue.listing.index.REACH", 10)
        monkeypatch.setattr("pgqueue.management.selection.BATCH", 3)
        bury(queue, 25, channel="mail")
        enqueue(queue, 40, channel="mail")
        insert(queue, task="rare")

        assert call("pgqueue_cancel", "--task=rare").out == "1 cancelled.\n"
        assert call("pgqueue_replay", "--channel=mail").out == "25 replayed.\n"
        assert call("pgqueue_cancel", "--channel=mail").out == "65 cancelled.\n"


class TestADryRun:
    def test_counts_and_shows_the_first_and_changes_nothing(self, queue: Connection) -> None:
        ids = bury(queue, 12, channel="mail")
        before = list(Message.objects.order_by("pk").values())

        called = call("pgqueue_discard", "--channel=mail", "--dry-run")

        assert called.lines[0] == "12 would be discarded. Nothing was changed."
        assert called.lines[1].startswith("id")
        assert [int(line.split()[0]) for line in called.lines[2:12]] == ids[:10]
        assert called.lines[12] == "… and 2 more."
        assert list(Message.objects.order_by("pk").values()) == before
        assert not History.objects.exists()

    def test_leaves_out_ids_that_nothing_would_happen_to(self, queue: Connection) -> None:
        [dead], [ready] = bury(queue), enqueue(queue)

        found = call("pgqueue_replay", str(dead), str(ready), "77", "--dry-run", "--format=json")

        assert found.json["found"] == 1
        assert [each["id"] for each in found.json["sample"]] == [dead]


@pytest.mark.django_db(transaction=True)
class TestBesideOthers:
    @pytest.fixture
    def other(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(**connections["default"].get_connection_params()) as connection:
            yield connection

    def test_a_locked_message_is_named_and_not_waited_for(self, other: psycopg.Connection) -> None:
        connections["default"].ensure_connection()
        ids = enqueue(connections["default"], 3)
        other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [ids[1]])

        with patch.object(operate, "PATIENCE", "10ms"):
            called = call("pgqueue_cancel", "--all")

        locked = f"1 locked by another transaction, to be tried again (#{ids[1]})"
        assert called.out == f"2 cancelled, {locked}.\n"
        assert called.status == 1

    def test_a_signal_ends_it_between_two_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        connections["default"].ensure_connection()
        enqueue(connections["default"], 5)
        monkeypatch.setattr("pgqueue.management.selection.BATCH", 2)
        real = Message.objects.all().cancel

        def cancelled_then_interrupted(rows: object) -> Operated:
            signal.raise_signal(signal.SIGINT)
            return real.__func__(rows)

        with patch("pgqueue.models.message.MessageQuerySet.cancel", cancelled_then_interrupted):
            called = call("pgqueue_cancel", "--all")

        assert called.lines == ["2 cancelled.", "Stopped: run it again for the rest."]
        assert called.status == 130
        assert Message.objects.count() == 3

    def test_a_process_prints_json_alone_and_exits_as_it_says(self) -> None:
        connections["default"].ensure_connection()
        ids = bury(connections["default"].connection, 2)

        done = manage("pgqueue_replay", str(ids[0]), "--format", "json")
        again = manage("pgqueue_replay", str(ids[0]), "--format", "json")
        misused = manage("pgqueue_replay", "seven")

        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["done"] == 1
        assert again.returncode == 1
        assert json.loads(again.stdout)["unchanged"] == 1
        assert misused.returncode == 2
        assert "it must be the id of a message" in misused.stderr
