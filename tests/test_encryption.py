"""Tasks with encryption: their rows, in each table, and the use of them.

Arguments, results and progress go through the task's `codec`. A way to store one of them without
it (an event, a staged row, a schedule) must refuse encrypted tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.db import connection, transaction
from django.test import override_settings
from sentry_sdk.serializer import serialize
from sentry_sdk.utils import event_from_exception

from pgqueue import (
    Channel,
    batch,
    flow,
    receive,
    subscribe,
)
from pgqueue.database.connections import borrow
from pgqueue.engine import run_logs
from pgqueue.engine.run_logs import RunLogRow
from pgqueue.engine.wait import MessageSnapshot
from pgqueue.events import subscriptions
from pgqueue.exceptions import (
    DecryptionFailed,
    InvalidChannel,
    InvalidResult,
    InvalidSchedule,
    InvalidSubscription,
    InvalidTask,
    MissingEncryptionKey,
    PayloadTooLarge,
    TaskFailed,
    UnreadablePayload,
)
from pgqueue.models import History, Message, Schedule
from pgqueue.operating.backfills import check_may_be_open
from pgqueue.options.schedules import Schedule as Times
from pgqueue.sse.progress import block
from pgqueue.states import Outcome, State
from pgqueue.tasks import encryption, scheduling
from pgqueue.tasks.definition import Task
from pgqueue.testing import run_all
from tests import encrypted_jobs as jobs
from tests.backend.jobs import keep_encrypted
from tests.encrypted_jobs import SECRET

pytestmark = pytest.mark.django_db

NEW, OLD = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@pytest.fixture(autouse=True)
def _keys() -> Iterator[None]:
    jobs.seen.clear()
    with keys(OLD):
        yield


def keys(*each: str) -> Any:
    return override_settings(PGQUEUE={"ENCRYPTION_KEYS": each})


def drain() -> None:
    run_all()


def stored() -> str:
    """Return every row of every table of the queue, as text."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        rows = []
        for name in tables:
            if name.startswith("pgqueue_"):
                cursor.execute(f'SELECT t::text FROM "{name}" t')  # noqa: S608
                rows += [row for (row,) in cursor.fetchall()]
    return "\n".join(rows)


def is_stored(text: str = SECRET) -> bool:
    found = stored()
    return text in found or text.encode().hex() in found


def write(table: Any, **columns: Any) -> None:
    assert table.objects.update(**columns)


class TestNoColumnHasThePlaintext:
    @pytest.mark.parametrize(
        "enqueue",
        [
            lambda: jobs.keep.enqueue(SECRET),
            lambda: jobs.keep.enqueue(text=SECRET, day=date(2030, 1, 2)),
            lambda: jobs.keep.enqueue_many([(SECRET,), {"text": SECRET}]),
            lambda: jobs.keep.using(dedupe_key="a", on_conflict="replace").enqueue(SECRET),
            lambda: jobs.keep.using(run_after=3600).enqueue(SECRET),
            lambda: keep_encrypted.enqueue(SECRET),
        ],
    )
    def test_after_it_was_enqueued(self, enqueue: Callable[[], object]) -> None:
        enqueue()

        assert "encrypted" in stored()
        assert not is_stored()

    @pytest.mark.django_db(transaction=True)
    def test_after_it_was_enqueued_when_a_transaction_committed_or_by_a_batch(self) -> None:
        with transaction.atomic():
            jobs.keep.using(enqueue_on_commit=True).enqueue(SECRET)
        with batch() as work:
            work.enqueue(jobs.keep, SECRET)

        assert Message.objects.count() == 2
        assert not is_stored()

    @pytest.mark.parametrize(
        "task", [jobs.keep, jobs.keep_async, jobs.keep_atomically, keep_encrypted]
    )
    def test_after_it_returned_and_its_result_can_be_had(self, task: Any) -> None:
        result = task.enqueue(SECRET)

        drain()

        assert not is_stored()
        result.refresh()
        assert result.return_value == f"{SECRET}, kept"
        assert History.objects.get().outcome == Outcome.SUCCEEDED

    @pytest.mark.parametrize("task", [jobs.fail, jobs.discard])
    def test_after_it_raised_an_error_that_tells_it(self, task: Task[[str], None]) -> None:
        result = task.enqueue(SECRET)

        drain()

        assert not is_stored()
        result.refresh()
        assert {error.message for error in result.errors} == {"[not kept: the task is encrypted]"}

    def test_after_it_noted_its_progress_which_the_next_run_has(self) -> None:
        checkpointed, deferred = jobs.go_on.enqueue(SECRET), jobs.come_again.enqueue(SECRET)

        drain()

        assert not is_stored()
        for result in (checkpointed, deferred):
            result.refresh()
        assert checkpointed.return_value == {"reached": SECRET}
        assert deferred.return_value == SECRET

    @pytest.mark.django_db(transaction=True)
    def test_after_a_consumer_received_it(self) -> None:
        jobs.keep.enqueue(SECRET)

        with receive("default", limit=1) as deliveries:
            for delivery in deliveries:
                args = delivery.args
                delivery.checkpoint({"reached": SECRET})
                delivery.retry(0, error=SECRET)
        with receive("default", limit=1) as deliveries:
            [progress] = [delivery.progress for delivery in deliveries]

        assert (args, progress) == ([SECRET], {"reached": SECRET})
        assert not is_stored()

    def test_but_of_a_task_that_does_not_ask_it_is_there(self) -> None:
        jobs.plain.enqueue(SECRET)

        assert is_stored()


class TestAnError:
    def test_is_stored_with_its_class_and_its_places_and_those_of_its_causes(self) -> None:
        result = jobs.fail.enqueue(SECRET)

        drain()

        result.refresh()
        error = result.errors[0]
        assert error.exception_class_path == "builtins.ValueError"
        assert "raise KeyError(text)" in error.traceback
        assert "\nKeyError: [not kept: the task is encrypted]\n" in error.traceback
        assert error.traceback.endswith("\nValueError: [not kept: the task is encrypted]\n")

    def test_is_logged_as_it_is_stored(self, caplog: pytest.LogCaptureFixture) -> None:
        jobs.fail.enqueue(SECRET)

        drain()

        assert "raise KeyError(text)" in caplog.text
        assert "ValueError: [not kept: the task is encrypted]" in caplog.text
        assert SECRET not in caplog.text
        # Error trackers read the local variables of frames, too.
        told = [event_from_exception(each.exc_info)[0] for each in caplog.records if each.exc_info]
        assert '"function": "fail"' in json.dumps(serialize(told[0]), default=repr)
        assert SECRET not in json.dumps(serialize(told), default=repr)

    def test_of_a_payload_that_does_not_fit_says_nothing_of_it(self) -> None:
        jobs.keep.enqueue("", day=None)
        token = encryption.seal(
            jobs.keep.name, "arguments", json.dumps({"args": ["a", SECRET], "kwargs": {}})
        )
        write(Message, payload={"@": "encrypted", "value": token})

        with pytest.raises(UnreadablePayload, match="was not written for this function") as raised:
            jobs.keep.codec.decode(json.dumps(Message.objects.get().payload))

        assert SECRET not in str(raised.value)
        assert raised.value.__suppress_context__
        drain()
        assert Message.objects.get().state == State.DEAD
        assert not is_stored()


class TestWhatCannotBeDecrypted:
    def assert_it_is_dead_at_once(self, said: str) -> None:
        drain()

        [message] = Message.objects.all()
        assert (message.state, message.failures) == (State.DEAD, 1)
        [error] = message.errors
        assert error["class"] == "pgqueue.exceptions.DecryptionFailed"
        assert said in error["message"]
        assert jobs.seen == []
        assert not is_stored()

    def test_because_its_key_is_gone_is_dead_without_another_attempt(self) -> None:
        jobs.keep.enqueue(SECRET)

        with keys(NEW):
            self.assert_it_is_dead_at_once("No key of PGQUEUE['ENCRYPTION_KEYS'] decrypts")

    @pytest.mark.parametrize("token", ["", "gAAAA", "ä", "gAAAAAB\x01"])
    def test_because_it_was_changed_is_dead_without_another_attempt(self, token: str) -> None:
        jobs.keep.enqueue(SECRET)
        write(Message, payload={"@": "encrypted", "value": token})

        self.assert_it_is_dead_at_once("or it was changed in the database")

    def test_because_it_was_moved_from_another_task_is_dead_without_another_attempt(self) -> None:
        jobs.other.enqueue(SECRET)

        write(Message, task=jobs.keep.name)

        self.assert_it_is_dead_at_once("was encrypted for another task")

    def test_because_it_was_another_part_of_the_message_is_refused(self) -> None:
        result = jobs.keep.enqueue(SECRET)
        drain()
        ended = History.objects.get()

        write(History, result=ended.payload)

        result.refresh()
        with pytest.raises(DecryptionFailed, match="another part of a message"):
            result.return_value  # noqa: B018

    def test_is_not_shown_as_arguments_by_django_tasks_either(self) -> None:
        result = keep_encrypted.enqueue(SECRET)

        with keys(NEW), pytest.raises(DecryptionFailed):
            keep_encrypted.get_result(result.id)


class TestAFlow:
    def test_stores_results_encrypted_and_gives_them_to_what_waits(self) -> None:
        with flow("encrypted") as f:
            first = f.enqueue(jobs.keep, SECRET)
            second = f.enqueue(jobs.keep, first)
            last = f.enqueue(jobs.length, second)
            of_django = f.enqueue(keep_encrypted, second)

        assert not is_stored()
        drain()

        assert not is_stored()
        assert jobs.seen == [(SECRET, None), (f"{SECRET}, kept", None)]
        last.refresh()
        assert last.return_value == len(f"{SECRET}, kept, kept")
        of_django.refresh()
        assert of_django.return_value == f"{SECRET}, kept, kept, kept"

    def test_keeps_no_error_of_a_plain_task_that_was_given_a_secret(self) -> None:
        with flow("quoted") as f:
            f.enqueue(jobs.quote, f.enqueue(jobs.keep, SECRET))

        drain()

        [error] = Message.objects.get().errors
        assert error["message"] == "[not kept: the task is encrypted]"
        assert not is_stored()

    def test_whose_parent_can_not_be_decrypted_says_so(self) -> None:
        with flow("lost key") as f:
            end = f.enqueue(jobs.length, f.enqueue(jobs.keep, SECRET))
        run_all_but(end)

        with keys(NEW):
            drain()

        end.refresh()
        assert end.status is State.DEAD
        assert end.errors[-1].exception_class_path == "pgqueue.exceptions.DecryptionFailed"


def run_all_but(result: Any) -> None:
    """Run what is ready while a message is kept back."""
    channel = Channel(result.task.queue_name)
    Message.objects.filter(pk=result.id).update(channel="kept back")
    Channel("kept back").pause()
    drain()
    Channel("kept back").resume()
    Message.objects.filter(pk=result.id).update(channel=channel.name)


class TestKeys:
    def test_encrypt_by_the_first_and_decrypt_by_all(self) -> None:
        jobs.keep.enqueue("old")
        with keys(NEW, OLD):
            jobs.keep.enqueue("new")
            drain()
        assert [text for text, _ in jobs.seen] == ["old", "new"]

        tokens = [each.payload["value"] for each in History.objects.order_by("id")]

        assert Fernet(OLD).decrypt(tokens[0]).startswith(b"arguments tests.encrypted_jobs.keep\n")
        assert Fernet(NEW).decrypt(tokens[1]).startswith(b"arguments tests.encrypted_jobs.keep\n")

    def test_that_are_missing_are_an_error_of_whoever_enqueues(self) -> None:
        with keys(), pytest.raises(MissingEncryptionKey):
            jobs.keep.enqueue(SECRET)

        assert not Message.objects.exists()

    def test_that_a_worker_lacks_cost_an_attempt_and_not_the_message(self) -> None:
        jobs.keep.enqueue(SECRET)

        with keys():
            drain()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 1)
        assert "has no key" in message.errors[0]["message"]

    def test_need_the_extra_which_is_named_where_it_is_missing(self) -> None:
        encryption._made.cache_clear()
        with (
            patch.dict("sys.modules", {"cryptography.fernet": None}),
            pytest.raises(ImportError, match=r"pgqueue\[encryption\]"),
        ):
            jobs.keep.enqueue(SECRET)


class TestATask:
    def test_runs_what_was_stored_before_it_asked_for_encryption(self) -> None:
        jobs.keep.enqueue("")
        write(Message, payload={"args": ["stored in SQL"]})

        drain()

        assert jobs.seen == [("stored in SQL", None)]

    def test_reads_what_was_stored_under_its_alias(self) -> None:
        result = jobs.renamed.enqueue(SECRET)
        seal = partial(encryption.enveloped, jobs.renamed.aliases[0])
        write(
            Message,
            task=jobs.renamed.aliases[0],
            payload=json.loads(seal("arguments", json.dumps({"args": [SECRET]}))),
        )

        drain()

        result.refresh()
        assert (result.args, result.return_value) == ((SECRET,), f"{SECRET}, kept")
        assert jobs.seen == [SECRET]

    def test_reads_what_ended_under_its_alias(self) -> None:
        result = jobs.renamed.enqueue(SECRET)
        drain()
        seal = partial(encryption.enveloped, jobs.renamed.aliases[0])
        write(History, task=jobs.renamed.aliases[0], result=json.loads(seal("result", '"of old"')))
        with borrow("default") as own:
            lines = seal("logs", json.dumps([[0, "INFO", "shop", SECRET]]))
            run_logs.store(own, [RunLogRow(int(result.id), 1, lines)])

        result.refresh()

        assert result.return_value == "of old"
        assert [line.text for line in result.logs()] == [SECRET]

    def test_that_asks_no_more_reads_what_was_encrypted(self) -> None:
        encrypted = jobs.keep.codec
        payload, result = encrypted.encode((SECRET,), {}), encrypted.encode_result(SECRET)

        assert jobs.keep.plain_codec.decode(payload) == ([SECRET], {})
        assert jobs.keep.plain_codec.decode_result(result) == SECRET

    def test_may_return_what_looks_like_an_envelope(self) -> None:
        forged = {"@": "encrypted", "value": "gAAAA"}

        result = jobs.plain.enqueue(forged)  # type: ignore[arg-type]
        drain()

        result.refresh()
        assert result.return_value == forged

    def test_has_its_limits_where_it_is_stored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pgqueue.codec.encrypted.PAYLOAD_LIMIT", 1000)

        with pytest.raises(PayloadTooLarge, match="the encrypted arguments"):
            jobs.keep.enqueue("x" * 800)
        with pytest.raises(InvalidResult, match="the encrypted result"):
            jobs.keep.codec.encode_result("x" * 60 * 1024)

    def test_is_encrypted_by_its_decorator_alone(self) -> None:
        with pytest.raises(InvalidTask, match="encrypted belongs to the function"):
            jobs.plain.using(encrypted=True)  # type: ignore[call-arg]
        with pytest.raises(Exception, match="encrypted belongs to the function"):
            keep_encrypted.using(encrypted=False)

    def test_is_replayed_with_what_it_has(self) -> None:
        jobs.keep.enqueue(SECRET)
        with keys(NEW):
            drain()

        Message.objects.replay()
        drain()

        assert jobs.seen == [(SECRET, None)]

    def test_fails_as_any_other(self) -> None:
        result = jobs.fail.enqueue(SECRET)
        drain()

        result.refresh()
        assert result.args == (SECRET,)
        with pytest.raises(TaskFailed):
            result.return_value  # noqa: B018


class TestWhatIsStoredInTheOpen:
    """Is refused, with what to do about it."""

    def test_is_an_event(self) -> None:
        with pytest.raises(InvalidSubscription, match="log stores its events in plain text"):
            subscribe("order.paid", name="x")(jobs.keep)
        with pytest.raises(InvalidSubscription, match="encrypted"):
            subscribe("order.paid", encrypted=True)
        with pytest.raises(InvalidSubscription, match="log stores its events in plain text"):
            subscriptions.create("x", task=jobs.keep, topics="order.paid")

    def test_is_a_raw_message(self) -> None:
        with pytest.raises(InvalidChannel, match="raw messages are stored as they are sent"):
            Channel("mail").configure(handler=jobs.keep)

    def test_is_a_backfill(self) -> None:
        with pytest.raises(InvalidTask, match="stages its rows in the open"):
            check_may_be_open(jobs.keep)

    def test_is_what_a_schedule_calls_its_task_with(self) -> None:
        row = Schedule(name="nightly", task=jobs.keep.name, cron="@daily", args=[SECRET])

        with pytest.raises(InvalidSchedule, match="arguments are stored as they are"):
            scheduling.check_schedule(row)
        with pytest.raises(InvalidSchedule, match="arguments are stored as they are"):
            scheduling._described(jobs.keep, Times("@daily", args=(SECRET,)))


class TestNobodyIsShown:
    def test_what_is_encrypted_by_the_admin(self, admin_client: Any) -> None:
        result = jobs.keep.enqueue(SECRET)
        live = admin_client.get(f"/admin/pgqueue/message/{result.id}/change/").content.decode()
        drain()
        ended = admin_client.get(f"/admin/pgqueue/history/{result.id}/change/").content.decode()

        assert "encrypted" in live
        assert "encrypted" in ended
        for page in (live, ended):
            assert SECRET not in page
            assert "gAAAA" not in page

    def test_what_is_encrypted_by_commands(self, capsys: pytest.CaptureFixture[str]) -> None:
        result = jobs.keep.enqueue(SECRET)
        drain()

        call_command("pgqueue_show", result.id)
        call_command("pgqueue_show", result.id, "--format=json")

        out = capsys.readouterr().out
        assert "payload: encrypted\n" in out
        assert "result: encrypted\n" in out
        assert SECRET not in out

    def test_what_is_encrypted_by_a_stream_to_a_page(self) -> None:
        progress = jobs.keep.codec.encode_progress(SECRET)
        result = jobs.keep.codec.encode_result(SECRET)

        told = block("ended", MessageSnapshot(1, "succeeded", 1, 0, progress, result))

        assert b'"progress": null' in told
        assert b'"result": null' in told
