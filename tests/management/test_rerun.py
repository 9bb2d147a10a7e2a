"""`manage.py pgqueue_rerun`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction

from pgqueue import Channel, TaskResult, flow
from pgqueue.codec.arguments import Codec
from pgqueue.engine.lookup import Found
from pgqueue.management.commands import pgqueue_rerun
from pgqueue.models import History, Message
from pgqueue.operating import bulk
from pgqueue.operating import reruns as reruns_of
from pgqueue.tasks import rerunning
from pgqueue.testing import run_all
from pgqueue.worker.stopping import StopRequests
from tests import encrypted_jobs, jobs
from tests.durable.tasks import CARD, pays_by_card
from tests.management.calling import call

pytestmark = pytest.mark.django_db(transaction=True)


def ended(*numbers: int, **options: Any) -> list[int]:
    """Run messages of a task to their end; return their ids."""
    results = [jobs.add.using(**options).enqueue(number, b=1) for number in numbers]
    run_all(raise_errors=True)
    return [int(each.id) for each in results]


def reruns() -> dict[int, list[Any]]:
    """Return the positional arguments of live messages by the ids of the messages before."""
    rows: Any = Message.objects.order_by("pk").values_list("metadata", "payload")
    return {metadata["rerun_of"]: payload["args"] for metadata, payload in rows}


class TestIds:
    def test_choose_these_and_no_others(self) -> None:
        first, _, third = ended(1, 2, 3)

        called = call("pgqueue_rerun", str(third), str(first), "--format=json")

        again = list(Message.objects.order_by("pk").values_list("pk", flat=True))
        assert reruns() == {first: [1], third: [3]}
        assert called.status == 0
        assert called.json == {
            "verb": "rerun",
            "dry_run": False,
            "found": 2,
            "done": 2,
            "asked": 0,
            "unchanged": 0,
            "busy": 0,
            "busy_ids": [],
            "stopped": False,
            "reruns": {str(first): again[0], str(third): again[1]},
            "last": third,
            "up_to": None,
        }
        assert [each.return_value for each in run_all()] == [2, 4]

    def test_may_be_of_dead_letters(self) -> None:
        dead = jobs.fail.using(max_attempts=1).enqueue("no")
        run_all()

        called = call("pgqueue_rerun", dead.id)

        again = Message.objects.exclude(pk=dead.id).get()
        assert called.out == f"1 enqueued once more (#{again.pk}).\n"
        assert Message.objects.get(pk=dead.id).state == "dead"

    def test_of_others_are_counted_and_the_status_says_so(self) -> None:
        [gone, done] = ended(1, 2)
        History.objects.filter(pk=gone).update(task="shop.gone")
        live = jobs.add.enqueue(3)
        operation = bulk.start("replay", bulk.Filter(), newest=9)
        Message.objects.filter(pk=operation.id).update(state="dead")

        ids = (str(gone), str(done), live.id, operation.id, "999999999")
        called = call("pgqueue_rerun", *ids)

        assert called.out.startswith("1 enqueued once more (#")
        assert called.out.endswith(
            "), 4 not found, not ended, of a task that is not known here, or of a flow whose "
            "results are gone.\n"
        )
        assert called.status == 1
        assert Message.objects.exclude(pk__in=(live.id, operation.id)).count() == 1

    @pytest.mark.parametrize(
        "words",
        [
            [],
            ["1", "--channel=mail"],
            ["1", "--all"],
            ["1", "--after=1"],
            ["--all", "--key=a"],
            ["--all", "--args=[1]"],
            ["1", "2", "--kwargs={}"],
            ["--channel=mail", "--args=[1]"],
        ],
    )
    def test_and_other_options_that_contradict_them_are_refused(self, words: list[str]) -> None:
        with pytest.raises(CommandError) as refused:
            call("pgqueue_rerun", *words)

        assert refused.value.returncode == 2
        assert not Message.objects.exists()

    def test_of_the_rest_are_named_after_an_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        ids = ended(1, 2, 3, 4)
        Channel("default").policy(max_size=2)

        with pytest.raises(CommandError, match="no room for 1 more"):
            call_command("pgqueue_rerun", *map(str, ids))

        assert capsys.readouterr().out.splitlines()[-1] == f"The rest: {ids[2]} {ids[3]}"


class TestArguments:
    def test_take_the_place_of_the_stored_ones(self) -> None:
        [id] = ended(1)

        call("pgqueue_rerun", str(id), "--args=[7]", '--kwargs={"b": 2}')
        call("pgqueue_rerun", str(id), "--args=[8]")
        called = call("pgqueue_rerun", str(id), '--kwargs={"a": 9}', "--format=json")

        assert called.json["done"] == 1
        assert [each.return_value for each in run_all()] == [9, 8, 9]
        assert {each["rerun_of"] for each in History.objects.filter(
            pk__gt=id).values_list("metadata", flat=True)} == {id}  # fmt: skip

    @pytest.mark.parametrize("given", ["--args=[1, 2, 3]", '--kwargs={"c": 1}', "--args=[]"])
    def test_that_do_not_fit_the_task_are_refused(self, given: str) -> None:
        [id] = ended(1)

        for words in ([given], [given, "--dry-run"]):
            with pytest.raises(CommandError):
                call("pgqueue_rerun", str(id), *words)
        assert not Message.objects.exists()

    def test_keep_the_digits_of_a_number(self) -> None:
        [id] = ended(1)

        call("pgqueue_rerun", str(id), "--args=[1.234567890123456789]")

        assert "1.234567890123456789" in str(Message.objects.get().payload)

    def test_of_a_dry_run_are_only_checked(self) -> None:
        [id] = ended(1)

        called = call("pgqueue_rerun", str(id), "--args=[7]", "--dry-run")

        assert called.lines[0] == "1 would be enqueued once more. Nothing was changed."
        assert not Message.objects.exists()

    def test_of_encrypted_messages_are_kept_or_encrypted(self) -> None:
        result = encrypted_jobs.keep.enqueue("gold")
        run_all(raise_errors=True)

        called = call("pgqueue_rerun", result.id)
        call("pgqueue_rerun", result.id, '--args=["silver"]')

        assert "gold" not in called.out
        assert "silver" not in str(list(Message.objects.values_list("payload", "metadata")))
        assert [each.return_value for each in run_all()] == ["gold, kept", "silver, kept"]

    def test_that_were_redacted_are_refused_and_the_stored_ones_kept(self) -> None:
        result = pays_by_card.enqueue(CARD)
        Message.objects.update(state="dead")

        with pytest.raises(CommandError, match="stands for a value that is not shown"):
            call("pgqueue_rerun", result.id, '--kwargs={"card": "[redacted]"}')
        called = call("pgqueue_rerun", result.id, "--format=json")

        assert CARD not in called.out
        assert Message.objects.latest("pk").payload == {"args": [CARD], "kwargs": {}}

    def test_of_a_message_that_has_not_ended_are_refused(self) -> None:
        result = jobs.add.enqueue(1)

        with pytest.raises(CommandError, match="not ended"):
            call("pgqueue_rerun", result.id, "--args=[2]")
        assert Message.objects.count() == 1


class TestAFilter:
    def test_finds_ended_messages(self) -> None:
        ada, bob = ended(1, 2, key="ada"), ended(3, key="bob")
        [cancelled] = [jobs.add.using(key="ada").enqueue(4)]
        cancelled.cancel()
        live = jobs.add.using(key="ada").enqueue(5)

        called = call("pgqueue_rerun", "--key=ada", "--state=succeeded")

        Message.objects.filter(pk=live.id).delete()
        assert called.out.startswith("2 enqueued once more (#")
        assert reruns() == {ada[0]: [1], ada[1]: [2]}
        assert bob[0] not in reruns()

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["--task=tests.jobs.add"], 2),
            (["--task=tests.jobs.mail"], 0),
            (["--channel=default"], 2),
            (["--channel=mail"], 0),
            (["--state=cancelled"], 0),
            (["--error=ValueError"], 0),
            (["--older-than=0"], 2),
            (["--older-than=3600"], 0),
            (["--all"], 2),
        ],
    )
    def test_narrows_by_what_other_commands_narrow_by(
        self, words: list[str], expected: int
    ) -> None:
        ended(1, 2)

        assert call("pgqueue_rerun", *words, "--format=json").json["done"] == expected

    def test_leaves_out_the_reruns_that_end_meanwhile(self, monkeypatch: Any) -> None:
        ids = ended(1, 2, 3)
        real = reruns_of.rerun_each

        def with_a_quick_worker(*args: Any, **kwargs: Any) -> Iterator[tuple[int, int | None]]:
            for each in real(*args, **kwargs):
                run_all()
                yield each

        monkeypatch.setattr(pgqueue_rerun, "rerun_each", with_a_quick_worker)
        with (
            patch("pgqueue.management.selection.BATCH", 1),
            patch("pgqueue.listing.index.STRETCH", 1),
        ):
            called = call("pgqueue_rerun", "--all", "--format=json")

        assert (called.json["done"], called.json["up_to"]) == (3, ids[-1])
        assert History.objects.count() == 6

    def test_of_a_dry_run_is_only_counted(self) -> None:
        ids = ended(*range(12))

        called = call("pgqueue_rerun", "--all", "--dry-run", "--format=json")

        assert (called.json["found"], called.json["dry_run"]) == (12, True)
        assert [each["id"] for each in called.json["sample"]] == ids[:10]
        assert call("pgqueue_rerun", "--all", "--dry-run").lines[-1] == "… and 2 more."
        assert not Message.objects.exists()

    def test_of_pgqueues_own_operations_finds_none(self) -> None:
        bulk.start("replay", bulk.Filter(), newest=1)
        run_all(raise_errors=True)

        assert call("pgqueue_rerun", "--all").out == "0 enqueued once more.\n"

    def test_goes_on_where_it_was_stopped(self) -> None:
        ids = ended(1, 2, 3, 4)

        class Stopping(StopRequests):
            """Was asked to stop after its second look."""

            looks = 0

            @property
            def count(self) -> int:
                type(self).looks += 1
                return int(self.looks > 2)

        with patch.object(pgqueue_rerun, "StopRequests", Stopping):
            stopped = call("pgqueue_rerun", "--all")
        run_all()  # the reruns have ended, too, and are not chosen
        place = f"--after {ids[1]} --up-to {ids[-1]}"
        assert (stopped.lines[-1], stopped.status) == (f"The rest: {place}", 130)

        call("pgqueue_rerun", "--channel=default", *place.split())

        assert list(reruns()) == ids[2:]

    @pytest.mark.parametrize("error", [OperationalError("the server is away"), OSError("no disk")])
    def test_says_where_the_rest_begins_after_any_error(
        self, error: Exception, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ids = ended(1, 2, 3, 4)
        real = rerunning.rerun

        def fails_at_the_third(task: Any, found: Found) -> int:
            if found.id == ids[2]:
                raise error
            return real(task, found)

        with (
            patch.object(rerunning, "rerun", fails_at_the_third),
            pytest.raises(type(error), match=str(error)),
        ):
            call_command("pgqueue_rerun", "--all")

        said = capsys.readouterr().out.splitlines()
        assert said[-1] == f"The rest: --after {ids[1]} --up-to {ids[3]}"
        assert list(reruns()) == ids[:2]

    def test_leaves_out_a_message_whose_tasks_module_fails(self) -> None:
        ids = ended(1, 2)

        with patch.object(reruns_of, "find_task", side_effect=SyntaxError("an odd quote")):
            called = call("pgqueue_rerun", "--all", "--format=json")

        assert (called.json["done"], called.json["unchanged"]) == (0, len(ids))

    def test_leaves_out_a_message_of_a_flow_whose_results_are_gone(self) -> None:
        with flow("sums") as f:
            parent = f.enqueue(jobs.add, 1, b=1)
            f.enqueue(jobs.add, parent, b=2)
        run_all()
        History.objects.filter(pk=int(parent.id)).delete()
        ended(5)

        called = call("pgqueue_rerun", "--all", "--format=json")

        assert (called.json["done"], called.json["unchanged"]) == (1, 1)

    @pytest.mark.parametrize("name", ["missing", "pgqueue_message"])
    def test_leaves_out_a_message_whose_models_table_is_missing(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with flow("sums") as f:
            f.enqueue(jobs.add, f.enqueue(jobs.add, 1, b=1), b=2)
        run_all(raise_errors=True)
        real = Codec.decode

        def read_table(codec: Codec, *given: Any) -> Any:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT FROM {name}")
            return real(codec, *given)

        with monkeypatch.context() as patched:
            patched.setattr(Codec, "decode", read_table)
            with transaction.atomic():
                called = call("pgqueue_rerun", "--all", "--format=json")

        is_left = name == "missing"
        assert (called.json["done"], called.json["unchanged"]) == (2 - is_left, is_left)
        assert Message.objects.count() == 2 - is_left

    @pytest.mark.parametrize("lost", [True, False])
    def test_says_that_a_message_may_have_been_enqueued_if_the_connection_was_lost(
        self, lost: bool, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ended(1)
        error = OperationalError("no")
        cause = psycopg.OperationalError if lost else psycopg.errors.LockNotAvailable
        error.__cause__ = cause("no")

        with (
            patch.object(rerunning, "rerun", side_effect=error),
            pytest.raises(CommandError if lost else OperationalError),
        ):
            call_command("pgqueue_rerun", "--all")

        assert ("may have been enqueued, too" in capsys.readouterr().err) is lost

    def test_stops_at_a_full_channel_and_keeps_the_earlier_ones(self) -> None:
        ended(1, 2, 3)
        Channel("default").policy(max_size=2)

        with pytest.raises(CommandError, match="no room for 1 more"):
            call("pgqueue_rerun", "--all")

        assert Message.objects.count() == 2


def test_a_rerun_names_the_message_before_in_every_list(settings: Any) -> None:
    [id] = ended(1)

    call("pgqueue_rerun", str(id))

    again = Message.objects.get()
    shown = json.loads(call("pgqueue_show", str(again.pk), "--format=json").out)
    assert shown["metadata"] == {"rerun_of": id}
    result: TaskResult[int] = jobs.add.get_result(str(again.pk))
    assert result.metadata == {"rerun_of": id}
