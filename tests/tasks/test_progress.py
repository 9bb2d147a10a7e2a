"""The progress of a message, as its result shows it."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from pgqueue import Retry, TaskContext, flow, task
from pgqueue.exceptions import DecryptionFailed, UnreadablePayload
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task
from pgqueue.testing import run_all
from tests import encrypted_jobs

pytestmark = pytest.mark.django_db

REACHED = {"day": date(2030, 1, 2), "rows": [1, 2]}
SECRET = "4711-0815"


@task(takes_context=True, max_attempts=9)
def note(context: TaskContext, end: bool) -> Any:
    if context.attempt == 1:
        context.checkpoint(REACHED)
    if not end:
        raise Retry(3600)
    return context.task_result.progress


@task(takes_context=True)
def defer(context: TaskContext) -> None:
    context.defer(3600, progress=REACHED)


@task(takes_context=True)
def note_nothing(context: TaskContext) -> None:
    assert context.task_result.progress is None


class TestTheProgress:
    def test_is_read_while_the_message_lives(self) -> None:
        result = note.enqueue(False)
        assert result.progress is None

        run_all()

        assert result.progress is None  # as it was when it was last looked at
        result.refresh()
        assert (result.status, result.progress) == (State.SCHEDULED, REACHED)

    def test_is_read_after_the_end(self) -> None:
        result = note.enqueue(True)

        run_all()

        async_to_sync(result.arefresh)()
        assert (result.status, result.progress) == (Outcome.SUCCEEDED, REACHED)
        assert note.get_result(result.id).progress == REACHED

    def test_that_a_deferral_noted_is_read_too(self) -> None:
        result = defer.enqueue()

        run_all()

        result.refresh()
        assert result.progress == REACHED

    def test_is_none_if_no_run_has_stored_one(self) -> None:
        result = note_nothing.enqueue()

        run_all()

        result.refresh()
        assert (result.status, result.progress) == (Outcome.SUCCEEDED, None)

    def test_of_a_message_that_is_not_stored_is_none(self) -> None:
        with flow("late") as f:
            member = f.enqueue(note, True)

            assert (member.id, member.progress) == ("", None)

    def test_is_that_of_earlier_runs_in_the_result_of_a_context(self) -> None:
        result = note.enqueue(False)
        run_all()
        Message.objects.update(payload={"args": [True]})
        Message.objects.all().run_now()

        run_all()

        result.refresh()
        assert result.return_value == REACHED

    def test_that_another_program_wrote_is_refused_if_it_is_unreadable(self) -> None:
        result = note.enqueue(False)
        run_all()
        Message.objects.update(progress={"@": "no such tag", "value": 1})
        result.refresh()

        with pytest.raises(UnreadablePayload, match="the progress of"):
            result.progress  # noqa: B018


class TestOfAnEncryptedTask:
    @pytest.fixture
    def job(self) -> Task[[str], Any]:
        return encrypted_jobs.go_on

    def test_is_decrypted(self, job: Task[[str], Any]) -> None:
        result = job.enqueue(SECRET)

        run_all(retries=True)

        result.refresh()
        assert result.progress == {"reached": SECRET}
        assert SECRET not in str(History.objects.values_list("progress", flat=True).get())

    def test_is_refused_without_its_key(self, job: Task[[str], Any], settings: Any) -> None:
        result = job.enqueue(SECRET)
        run_all(retries=True)
        settings.PGQUEUE = {"ENCRYPTION_KEYS": ["bm90IHRoZSBrZXkgb2YgdGhlIHRlc3RzLCBidXQgYW4="]}
        result.refresh()

        with pytest.raises(DecryptionFailed):
            result.progress  # noqa: B018
