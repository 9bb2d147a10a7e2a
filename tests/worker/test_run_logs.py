"""The log lines that are kept with the runs of a message."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from _pytest.logging import LogCaptureHandler
from django.core.management import call_command
from django.test import override_settings

from pgqueue import InvalidTask, task
from pgqueue.database.connections import borrow
from pgqueue.engine import run_logs as engine
from pgqueue.engine.run_logs import RunLogRow
from pgqueue.models import History, RunLog
from pgqueue.redaction import MASK
from pgqueue.tasks import TaskResult, run_logs
from pgqueue.tasks.log_lines import UNREADABLE
from tests import logging_jobs as jobs
from tests.eventually import eventually
from tests.processes import worker

pytestmark = pytest.mark.django_db(transaction=True)

LOOP = ["--async", "2"]


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", "--threads", "1", *arguments, verbosity=0)


def texts(result: TaskResult[Any]) -> list[str]:
    return [each.text for each in result.logs()]


def test_lines_of_the_level_are_kept_with_their_time_logger_and_attempt() -> None:
    result = jobs.say.enqueue("one", "two")
    before = datetime.now(UTC)

    drain()

    one, two = result.logs()
    assert (one.text, one.level, one.attempt) == ("one", "INFO", 1)
    assert one.logger == "tests.logging_jobs"
    assert two.text == "two"
    assert before - timedelta(seconds=1) <= one.time <= two.time


@pytest.mark.parametrize("arguments", [[], LOOP])
def test_lines_of_a_coroutine_and_of_its_threads_are_kept(arguments: list[str]) -> None:
    result = jobs.say_async.enqueue("x")

    drain(*arguments)

    assert texts(result) == ["in the coroutine: x", "in a thread: x", "in a copy: x"]


def test_the_setting_counts_unless_the_task_names_its_own_level() -> None:
    by_default, never = jobs.say_by_default.enqueue("a"), jobs.say_nothing.enqueue("b")

    with override_settings(PGQUEUE={"RUN_LOGS": "INFO"}):
        drain()

    assert texts(by_default) == ["a"]
    assert texts(never) == []


def test_without_the_option_nothing_is_kept() -> None:
    result = jobs.say_by_default.enqueue("a")

    drain()

    assert texts(result) == []
    assert not RunLog.objects.exists()


def test_an_atomic_run_keeps_its_lines() -> None:
    result = jobs.say_atomically.enqueue("a")

    drain()

    assert texts(result) == ["a"]


def test_of_many_lines_the_first_and_the_last_are_kept_and_the_number_of_others() -> None:
    result = jobs.say_much.enqueue(5000)

    drain()

    lines = result.logs()
    assert len(lines) == run_logs.FIRST + 1 + run_logs.LAST
    assert (lines[0].text, lines[-1].text) == ("line 0", "line 4999")
    assert lines[run_logs.FIRST].text == "[4000 lines are not kept]"
    assert lines[run_logs.FIRST].logger == "pgqueue"


def test_no_record_makes_the_run_fail_or_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    # pytest's own handler raises at a record without a text.
    monkeypatch.setattr(LogCaptureHandler, "handleError", lambda *_: None)
    result = jobs.say_wildly.enqueue()

    drain()

    result.refresh()
    lines = texts(result)
    assert result.status == "succeeded"
    assert lines[0] == "NUL \\x00, half \\ud800"
    assert lines[1] == "%s and %s [its arguments do not fit: TypeError]"
    assert lines[2] == "%s [its arguments do not fit: ValueError]"
    assert len(lines[3]) == run_logs.LONGEST
    assert lines[4:] == ["the last one"]


def test_each_attempt_has_its_lines_with_the_traceback_of_the_error() -> None:
    result = jobs.fail.enqueue("a reason")

    drain()

    first, second = result.logs()
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.text.startswith("It failed\nTraceback")
    assert first.text.rstrip().endswith("ValueError: a reason")


def test_redacted_arguments_are_in_no_line_and_in_no_traceback() -> None:
    result = jobs.charge.enqueue("4111-1111-1111-1111")

    drain()

    lines = texts(result)
    assert lines[0] == f"charged {MASK}"
    assert f"refused: {MASK}" in lines[1]
    assert "4111" not in str(list(RunLog.objects.values_list("lines", flat=True)))


def test_lines_of_an_encrypted_task_are_encrypted_and_are_read_in_code() -> None:
    from cryptography.fernet import Fernet

    key = Fernet.generate_key().decode()
    with override_settings(PGQUEUE={"ENCRYPTION_KEYS": [key]}):
        result = jobs.whisper.enqueue("abracadabra")
        drain()
        assert texts(result) == ["it is abracadabra"]

    assert "abracadabra" not in str(list(RunLog.objects.values_list("lines", flat=True)))
    with override_settings(PGQUEUE={"ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}):
        assert texts(result) == [UNREADABLE]


def test_a_durable_task_keeps_the_lines_of_each_pass() -> None:
    result = jobs.say_in_passes.enqueue()

    drain()

    assert [(each.attempt, each.text) for each in result.logs()] == [
        (1, "pass begins"),
        (2, "pass begins"),
        (2, "pass ends"),
    ]


def test_a_killed_worker_leaves_the_lines_so_far(tmp_path: Path) -> None:
    result = jobs.say_and_wait.enqueue("begun", str(tmp_path / "gate"))
    with worker("--threads", "1") as process:
        eventually(lambda: texts(result), within=30)
        process.signal_group(signal.SIGKILL)

    assert texts(result) == ["begun in attempt 1"]


def test_lines_of_a_lost_run_are_not_added_after_the_next_attempt_has_begun() -> None:
    result = jobs.say.enqueue("a")
    drain()
    id = int(result.id)

    with borrow("default") as own:
        engine.store(own, [RunLogRow(id, 7, "[]"), RunLogRow(id, 1, '[[1, "INFO", "a", "b"]]')])

    assert [(each.attempt, each.text) for each in result.logs()] == [(1, "b")]


def test_lines_go_with_their_message() -> None:
    kept, gone = jobs.say.enqueue("kept"), jobs.say.enqueue("gone")
    drain()
    History.objects.filter(pk=int(gone.id))._raw_delete("default")

    with borrow("default") as own:
        assert engine.forget(own, after=0) == (1, None)

    assert texts(kept) == ["kept"]
    assert texts(gone) == []


def test_the_walk_goes_on_where_a_stretch_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "STRETCH", 1)
    gone = jobs.say.enqueue("gone")
    drain()
    History.objects.filter(pk=int(gone.id))._raw_delete("default")

    with borrow("default") as own:
        assert engine.forget(own, after=0) == (1, int(gone.id))
        assert engine.forget(own, after=int(gone.id)) == (0, None)


def test_a_record_that_nothing_else_handles_is_printed_as_without_the_handler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = logging.Logger("alone")
    monkeypatch.setitem(logging.Logger.manager.loggerDict, "alone", alone)
    alone.propagate = False
    alone.addHandler(run_logs.HANDLER)
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler())

    alone.warning("not lost")

    assert "not lost" in capsys.readouterr().err


def test_an_object_that_logs_while_python_exits_finds_no_handler_without_its_names() -> None:
    program = (
        "import logging, django; django.setup()\n"
        "from pgqueue.tasks.run_logs import HANDLER\n"
        "logging.getLogger().addHandler(HANDLER)\n"
        "class Late:\n"
        "    def __del__(self, warning=logging.getLogger('late').warning): warning('too late')\n"
        "django.late = Late()  # this module is cleared after those of pgqueue\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "too late\n")


def test_an_invalid_level_is_refused() -> None:
    with pytest.raises(InvalidTask, match="logs='LOUD': it must be one of DEBUG"):
        task(logs="LOUD")(jobs.say.func)


def test_the_option_belongs_to_the_decorator() -> None:
    with pytest.raises(InvalidTask, match="logs belongs to the function"):
        jobs.say.using(logs="INFO")  # type: ignore[call-arg]
