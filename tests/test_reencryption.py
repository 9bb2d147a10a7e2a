"""Everything under the first key, whatever others do meanwhile."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from pgqueue.database.connections import connect
from pgqueue.engine import reencrypt as engine
from pgqueue.exceptions import MissingEncryptionKey
from pgqueue.models import History, Message
from pgqueue.models.run_log import RunLog
from pgqueue.operating import reencryption
from pgqueue.operating.reencryption import ReencryptionReport, reencrypt
from pgqueue.states import Outcome
from pgqueue.tasks import encryption
from pgqueue.tasks.log_lines import LOGS
from pgqueue.testing import run_all
from tests import encrypted_jobs as jobs
from tests import jobs as plain_jobs
from tests.durable import tasks as durable
from tests.encrypted_jobs import SECRET
from tests.eventually import eventually
from tests.factories import refusing
from tests.management.calling import call
from tests.processes import worker

pytestmark = pytest.mark.django_db

NEW, OLD = Fernet.generate_key().decode(), Fernet.generate_key().decode()


KEYS = {
    *("dry_run", "found", "renewed", "current", "busy", "busy_ids"),
    *("undecryptable", "undecryptable_ids", "stopped"),
}
"""Of the command's JSON document."""


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    jobs.seen.clear()


@pytest.fixture
def old() -> Iterator[None]:
    """What the test stores before it rotates the keys is under the old one."""
    with keys(OLD):
        yield


def keys(*each: str) -> Any:
    return override_settings(PGQUEUE={"ENCRYPTION_KEYS": each})


def rotated() -> Any:
    return keys(NEW, OLD)


def fill() -> None:
    """Have messages in every state, and each of their columns."""
    with keys(OLD):
        jobs.keep.enqueue_many([(SECRET,)] * 3)
        jobs.go_on.enqueue(SECRET)
        jobs.fail.enqueue(SECRET)
        run_all()
        jobs.keep.enqueue(SECRET)
        jobs.keep.using(run_after=3600).enqueue(SECRET)
        noted = jobs.keep.codec.encode_progress(SECRET)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_message SET progress = %s WHERE state = 'scheduled'", [noted]
        )


def tokens() -> list[str]:
    columns: list[tuple[Any, str]] = [(Message, "payload"), (Message, "progress")]
    columns += [(History, name) for name in ("payload", "progress", "result")]
    found = [
        value
        for model, name in columns
        for value in model.objects.values_list(name, flat=True)
        if value is not None
    ]
    return [value["value"] for value in found]


def assert_all_are_under(key: str) -> None:
    for token in tokens():
        Fernet(key).decrypt(token)


class TestReencrypting:
    def test_brings_live_and_dead_and_ended_messages_under_the_first_key(self) -> None:
        fill()

        with rotated():
            report = reencrypt("default", batch=2)

        assert report == ReencryptionReport(found=7, renewed=7)
        assert len(tokens()) == 7 + 1 + 1 + 4  # payloads, progress of both, results
        assert_all_are_under(NEW)

    def test_lets_the_old_key_be_removed(self) -> None:
        fill()
        with rotated():
            reencrypt("default")

        with keys(NEW):
            Message.objects.replay()
            Message.objects.run_now()
            run_all()

        assert Message.objects.get().errors[-1]["class"] == "builtins.ValueError"
        ended = History.objects.filter(task=jobs.keep.name, outcome=Outcome.SUCCEEDED)
        assert ended.count() == 5
        with keys(NEW):
            result = jobs.keep.get_result(ended[0].pk)
            assert (result.args, result.return_value) == ([SECRET], f"{SECRET}, kept")

    def test_again_changes_nothing(self) -> None:
        fill()
        with rotated():
            reencrypt("default")
            before = tokens()

            report = reencrypt("default")

        assert report == ReencryptionReport(found=7, current=7)
        assert tokens() == before

    def test_goes_on_where_it_was_stopped(self) -> None:
        fill()
        stops = iter([False, True])
        with rotated():
            first = reencrypt("default", batch=2, is_to_stop=lambda: next(stops, True))

            rest = reencrypt("default", batch=2)

        assert (first.renewed, rest.current, rest.renewed) == (2, 2, 5)
        assert_all_are_under(NEW)

    def test_dry_changes_nothing(self) -> None:
        fill()

        with rotated():
            report = reencrypt("default", dry_run=True)

        assert report == ReencryptionReport(found=7, renewed=7)
        assert_all_are_under(OLD)

    def test_encrypts_what_was_stored_in_the_open(self, old: None) -> None:
        jobs.keep.enqueue("")
        Message.objects.update(payload={"args": [SECRET]})

        reencrypt("default")

        assert_all_are_under(OLD)
        run_all()
        assert jobs.seen == [(SECRET, None)]

    def test_encrypts_what_was_stored_under_an_alias(self, old: None) -> None:
        jobs.renamed.enqueue("")
        Message.objects.update(task=jobs.renamed.aliases[0], payload={"args": [SECRET]})

        reencrypt("default")

        assert_all_are_under(OLD)
        run_all()
        assert jobs.seen == [SECRET]

    def test_leaves_messages_of_other_tasks_alone(self, old: None) -> None:
        jobs.plain.enqueue(SECRET)

        assert reencrypt("default") == ReencryptionReport()
        assert Message.objects.get().payload == {"args": [SECRET], "kwargs": {}}

    def test_names_what_no_key_decrypts_and_leaves_it(self, old: None) -> None:
        result = jobs.keep.enqueue(SECRET)

        with keys(NEW):
            report = reencrypt("default")

        assert report == ReencryptionReport(found=1, undecryptable={int(result.id)})
        assert_all_are_under(OLD)

    @pytest.mark.parametrize(
        "payload",
        [
            pytest.param(f'{{"args": [{"1" * 5000}], "kwargs": {{}}}}', id="a long number"),
            pytest.param("[" * 3000 + "]" * 3000, id="nested deeply"),
        ],
    )
    def test_encrypts_what_python_does_not_read(self, old: None, payload: str) -> None:
        odd, next_one = (int(jobs.keep.enqueue(SECRET).id) for _ in range(2))
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pgqueue_message SET payload = %s::jsonb WHERE id = %s", [payload, odd]
            )

        with rotated():
            report = reencrypt("default")

        assert report == ReencryptionReport(found=2, renewed=2)
        assert {each.pk for each in Message.objects.all()} == {odd, next_one}
        assert_all_are_under(NEW)

    @pytest.mark.parametrize("token", ["é", "", "gAAAA", "not base64!"])
    def test_names_a_damaged_token_and_goes_past_it(self, old: None, token: str) -> None:
        odd, _ = (int(jobs.keep.enqueue(SECRET).id) for _ in range(2))
        Message.objects.filter(pk=odd).update(payload={"@": "encrypted", "value": token})

        with rotated():
            report = reencrypt("default")

        assert report == ReencryptionReport(found=2, renewed=1, undecryptable={odd})

    @pytest.mark.parametrize(
        "steps", [5, [], {"steps": 5, "signals": {}}, {"steps": [5, None], "signals": ["x"]}]
    )
    def test_goes_past_steps_of_another_form(self, old: None, steps: Any) -> None:
        jobs.keep.enqueue_many([(SECRET,)] * 2)
        run_all()
        History.objects.filter(pk=History.objects.earliest("pk").pk).update(steps=steps)

        with rotated():
            report = reencrypt("default")

        assert report == ReencryptionReport(found=2, renewed=2)
        assert History.objects.earliest("pk").steps == steps
        assert_all_are_under(NEW)

    def test_needs_a_key(self) -> None:
        with keys(), pytest.raises(MissingEncryptionKey):
            reencrypt("default")

    def test_reads_no_more_than_fits_at_once(
        self, old: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs.keep.enqueue_many([(SECRET * 100,)] * 3)
        monkeypatch.setattr(engine, "BYTES", 1000)

        walk = reencryption._ReencryptionWalk(
            "default", dry_run=True, limit=100, is_to_stop=lambda: False
        )

        assert list(walk.through("live", None)) == [1, 1, 1]


def test_a_message_that_can_not_be_written_is_left_and_named() -> None:
    fill()
    connection.ensure_connection()
    id = Message.objects.earliest("pk").pk

    with (
        rotated(),
        refusing(connection.connection, "pgqueue_message", f"OLD.id = {id}", "UPDATE"),
    ):
        report = reencrypt("default")

    assert report.busy == {id}
    assert sum(token is not None for token in tokens()) > 1
    with rotated():
        again = reencrypt("default")
    assert (again.renewed, again.busy) == (1, set())
    assert_all_are_under(NEW)


@pytest.mark.django_db(transaction=True)
class TestBesideOthers:
    def test_a_locked_message_is_left_out_and_named(self, old: None) -> None:
        locked, free = jobs.keep.enqueue(SECRET), jobs.keep.enqueue(SECRET)

        with rotated(), closing(connect("default", name="other")) as other, other.transaction():
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [locked.id])
            report = reencrypt("default")

        assert (report.renewed, report.busy) == (1, {int(locked.id)})
        assert Message.objects.get(pk=free.id).payload != Message.objects.get(pk=locked.id).payload
        with rotated():
            assert reencrypt("default") == ReencryptionReport(found=2, renewed=1, current=1)

    def test_a_checkpoint_that_is_written_meanwhile_is_kept(
        self, old: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs.keep.enqueue(SECRET)
        first, second = (jobs.keep.codec.encode_progress(each) for each in "ab")
        self.note(first)
        write, calls = engine.write, []

        def after_a_checkpoint(*arguments: Any) -> set[int]:
            if not calls:
                calls.append(1)
                thread = threading.Thread(target=self.note_apart, args=[second])
                thread.start()
                thread.join()
            return write(*arguments)

        monkeypatch.setattr(engine, "write", after_a_checkpoint)

        with rotated():
            report = reencrypt("default")

        # It was seen as changed, and was read again.
        assert (report.renewed, report.busy) == (1, set())
        with keys(NEW):
            noted = Message.objects.values_list("progress", flat=True).get()
            assert jobs.keep.codec.decode_progress(json.dumps(noted)) == "b"

    def note(self, progress: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE pgqueue_message SET progress = %s", [progress])

    def note_apart(self, progress: str) -> None:
        with closing(connect("default", name="other")) as other:
            other.execute("UPDATE pgqueue_message SET progress = %s", [progress])

    def test_workers_run_each_message_once_and_none_is_left_under_the_old_key(
        self, old: None
    ) -> None:
        jobs.keep.enqueue_many([(f"{SECRET} {number}",) for number in range(300)])

        with rotated():
            with worker("--threads=2", encryption_keys=f"{NEW},{OLD}"):
                eventually(lambda: History.objects.exists())
                while Message.objects.exists():
                    reencrypt("default", batch=20)
            report = reencrypt("default")

        assert not report.busy
        assert History.objects.filter(outcome=Outcome.SUCCEEDED, attempt=1).count() == 300
        assert_all_are_under(NEW)


class TestTheCommand:
    def test_says_what_it_did(self) -> None:
        fill()

        with rotated():
            dry = call("pgqueue_reencrypt", "--dry-run")
            wet = call("pgqueue_reencrypt", "--batch=3")
            again = call("pgqueue_reencrypt", "--format=json")

        assert dry.out == "7 would be brought under the first key, 0 were under it.\n"
        assert wet.out == "7 brought under the first key, 0 were under it.\n"
        assert again.json == {
            "dry_run": False,
            "found": 7,
            "renewed": 0,
            "current": 7,
            "busy": 0,
            "busy_ids": [],
            "undecryptable": 0,
            "undecryptable_ids": [],
            "stopped": False,
        }
        assert again.json.keys() == KEYS
        assert (dry.status, wet.status, again.status) == (0, 0, 0)

    def test_fails_where_something_is_left(self, old: None) -> None:
        result = jobs.keep.enqueue(SECRET)

        with keys(NEW):
            called = call("pgqueue_reencrypt")

        assert called.status == 1
        assert called.out.endswith(f", 1 that no key decrypts (#{result.id}).\n")

    def test_says_that_there_is_no_key(self) -> None:
        with keys(), pytest.raises(Exception, match="has no key"):
            call_command("pgqueue_reencrypt")


class TestADurableRun:
    def stored(self) -> str:
        """Return the stored steps and signals as text."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT result::text FROM pgqueue_step UNION ALL SELECT payload::text FROM "
                "pgqueue_signal UNION ALL SELECT steps::text FROM pgqueue_history"
            )
            return " ".join(text for (text,) in cursor.fetchall() if text)

    def tokens(self) -> list[str]:
        return re.findall(r'"value": "(gAAAA[^"]+)"', self.stored())

    def run(self, *, is_ended: bool) -> Any:
        result = durable.secret.enqueue(1)
        run_all(raise_errors=True)
        result.signal("go", 81818181818)
        if is_ended:
            run_all(raise_errors=True)
        return result

    @pytest.mark.parametrize("is_ended", [True, False])
    def test_is_brought_under_the_first_key_with_its_steps_and_signals(
        self, old: None, is_ended: bool
    ) -> None:
        result = self.run(is_ended=is_ended)
        with rotated():
            report = reencrypt("default")
            assert reencrypt("default").renewed == 0

        assert report.renewed >= 1
        assert len(self.tokens()) == (6 if is_ended else 4)
        for token in self.tokens():
            Fernet(NEW).decrypt(token)
        with keys(NEW):
            run_all(raise_errors=True)
            result.refresh()
            assert result.return_value == 42 + 81818181818 + 9

    @pytest.mark.parametrize("is_ended", [True, False])
    def test_that_was_stored_in_the_open_is_encrypted(self, old: None, is_ended: bool) -> None:
        object.__setattr__(durable.secret, "encrypted", False)
        try:
            result = self.run(is_ended=is_ended)
        finally:
            object.__setattr__(durable.secret, "encrypted", True)
        assert "81818181818" in self.stored() and "hush" in self.stored()

        reencrypt("default")

        assert "81818181818" not in self.stored() and "hush" not in self.stored()
        run_all(raise_errors=True)
        result.refresh()
        assert result.status == Outcome.SUCCEEDED

    def test_keeps_the_other_columns_of_its_steps(self, old: None) -> None:
        self.run(is_ended=True)
        before = History.objects.get(task=durable.secret.name).steps

        with rotated():
            reencrypt("default")

        after = History.objects.get(task=durable.secret.name).steps
        for part, hidden in (("steps", "result"), ("signals", "payload")):
            shown = [[{**row, hidden: None} for row in each[part]] for each in (before, after)]
            assert shown[0] == shown[1]
            assert len(shown[0]) == len(before[part])


class TestLogLines:
    def result(self, *, is_ended: bool) -> Any:
        """Return a message that has begun two attempts, each with a line."""
        result = jobs.keep.enqueue(SECRET)
        if is_ended:
            run_all(raise_errors=True)
        for attempt in (1, 2):
            self.store(result, attempt, f"attempt {attempt} with {SECRET}")
        return result

    def store(self, result: Any, attempt: int, said: str, *, is_sealed: bool = True) -> None:
        text = json.dumps([[1.0, "INFO", "shop", said]])
        lines = encryption.enveloped(jobs.keep.name, LOGS, text) if is_sealed else text
        RunLog.objects.update_or_create(
            message_id=int(result.id), attempt=attempt, defaults={"lines": json.loads(lines)}
        )

    def stored(self) -> list[Any]:
        return list(RunLog.objects.order_by("attempt").values_list("lines", flat=True))

    @pytest.mark.parametrize("is_ended", [True, False])
    def test_are_brought_under_the_first_key(self, old: None, is_ended: bool) -> None:
        result = self.result(is_ended=is_ended)

        with rotated():
            assert reencrypt("default") == ReencryptionReport(found=1, renewed=1)
            assert reencrypt("default") == ReencryptionReport(found=1, current=1)

        for lines in self.stored():
            Fernet(NEW).decrypt(lines["value"])
        with keys(NEW):
            said = [each.text for each in result.logs()]
        assert said == [f"attempt {n} with {SECRET}" for n in (1, 2)]

    @pytest.mark.parametrize("is_ended", [True, False])
    def test_that_are_alone_under_the_old_key_are_found(self, old: None, is_ended: bool) -> None:
        result = self.result(is_ended=is_ended)
        with rotated():
            reencrypt("default")
        self.store(result, 2, "late")

        with rotated():
            assert reencrypt("default") == ReencryptionReport(found=1, renewed=1)

        assert [bool(Fernet(NEW).decrypt(each["value"])) for each in self.stored()] == [True] * 2

    @pytest.mark.parametrize("is_ended", [True, False])
    def test_in_the_open_are_encrypted(self, old: None, is_ended: bool) -> None:
        result = self.result(is_ended=is_ended)
        self.store(result, 1, SECRET, is_sealed=False)

        reencrypt("default")

        assert SECRET not in str(self.stored())
        assert next(each.text for each in result.logs()) == SECRET

    def test_of_other_tasks_are_left_alone(self, old: None) -> None:
        other = plain_jobs.add.enqueue(1)
        self.store(other, 1, "in the open", is_sealed=False)

        with rotated():
            assert reencrypt("default") == ReencryptionReport()

        assert "in the open" in str(self.stored())

    def test_that_a_run_adds_meanwhile_are_kept(
        self, old: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = self.result(is_ended=False)
        write = engine.write

        def after_a_line(*arguments: Any) -> set[int]:
            self.store(result, 2, "a further line")
            return write(*arguments)

        monkeypatch.setattr(engine, "write", after_a_line)
        with rotated():
            reencrypt("default")

        with rotated():
            said = [each.text for each in result.logs()]
        assert said == [f"attempt 1 with {SECRET}", "a further line"]

    @pytest.mark.parametrize(("is_ended", "table"), [(False, "live"), (True, "history")])
    def test_are_part_of_the_bytes_that_are_read_at_once(
        self, old: None, monkeypatch: pytest.MonkeyPatch, is_ended: bool, table: engine.Table
    ) -> None:
        for _ in range(2):
            self.result(is_ended=is_ended)
        monkeypatch.setattr(engine, "BYTES", 1200)  # the messages without their lines have fewer

        connection.ensure_connection()
        rows = engine.read(connection.connection, table, after=0, tasks=[], limit=9)

        assert len(rows) == 1
