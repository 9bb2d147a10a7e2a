"""Texts that others wrote begin no line of the log, and command no terminal."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pgqueue
from pgqueue import signals
from pgqueue.logs import JSONFormatter, RunFilter
from pgqueue.values import escaping
from tests.admin.places import make_world
from tests.management.calling import call

EVIL = "a\nCRITICAL forged\r\x1b[2J\x9b1m\u202eb\u2028c\x85d\x7f"
UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb]"
)


@pytest.fixture
def written() -> Iterator[Callable[[], str]]:
    """A function that returns what our loggers have written, as a plain handler does."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("pgqueue")
    logger.addHandler(handler)
    yield stream.getvalue
    logger.removeHandler(handler)


SENT: list[tuple[Any, dict[str, Any]]] = [
    (signals.task_unknown, {"name": EVIL, "delay": 1}),
    (signals.handler_missing, {"channel": EVIL, "delay": 1}),
    (
        signals.lease_lost,
        {
            "claim": SimpleNamespace(
                task=EVIL, id=1, attempt=1, channel=EVIL, key=EVIL, flow_id=None
            )
        },
    ),
    (signals.message_rescued, {"rescued": SimpleNamespace(task=EVIL, id=1, state="dead")}),
    (signals.schedule_taken, {"name": EVIL}),
    (signals.subscription_taken, {"name": EVIL}),
    (signals.webhook_stopped, {"name": EVIL, "reason": EVIL}),
    (signals.worker_started, {"channels": [EVIL]}),
    (signals.channels_unseen, {"channels": [EVIL], "known": [EVIL]}),
    (signals.tables_missing, {"database": "default", "missing": [EVIL]}),
    (signals.job_failed, {"job": EVIL, "reason": EVIL}),
    (signals.slot_lost, {"slot": EVIL, "is_there": True, "is_unreadable": False}),
    (signals.slot_lost, {"slot": EVIL, "is_there": True, "is_unreadable": True}),
    (signals.worker_cut_short, {"left": 1, "error": ValueError(EVIL)}),
]


def test_each_character_that_commands_or_misleads_is_escaped_and_no_other() -> None:
    unsafe = [each for each in map(chr, range(0x10000)) if UNSAFE.match(each)]
    safe = " ~\u00a0\u00ad\u0600\u200d\u2027\u202f\u2065\u206a\ufff8\ufffc\U0001f600"

    assert len(unsafe) > 70
    assert [each for each in unsafe if UNSAFE.search(escaping.on_one_line(each))] == []
    assert [
        each for each in unsafe if each != "\t" and UNSAFE.search(escaping.in_lines(each))
    ] == []
    assert escaping.on_one_line("\n") == "\\n"
    assert escaping.in_lines("\n") == "\n"
    assert (escaping.on_one_line(safe), escaping.in_lines(safe)) == (safe, safe)


class Evil:
    """An object whose texts are hostile."""

    def __str__(self) -> str:
        return EVIL

    def __repr__(self) -> str:
        return EVIL


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("%(name)s", ({"name": EVIL},)),
        ("%s", (EVIL,)),
        ("%s", (Evil(),)),
        ("%r", (Evil(),)),
        ("%s", ([Evil()],)),
        ("%(it)r", ({"it": Evil()},)),
    ],
)
def test_an_argument_of_any_kind_is_a_part_of_one_line(
    written: Callable[[], str], text: str, arguments: tuple[Any, ...]
) -> None:
    escaping.logger_of("pgqueue").error(text, *arguments)

    assert "forged" in written()
    assert written().count("\n") == 1
    assert not UNSAFE.search(written())


@pytest.mark.parametrize(("signal", "named"), SENT)
def test_a_name_or_a_text_of_a_table_is_a_part_of_one_line(
    written: Callable[[], str], signal: Any, named: dict[str, Any]
) -> None:
    signal.send(None, **named)

    text = written()
    assert "forged" in text or signal is signals.worker_started
    assert text.count("\n") == (1 if text else 0)
    assert not UNSAFE.search(text)


def test_no_line_of_an_error_begins_where_a_line_of_the_log_does(
    written: Callable[[], str],
) -> None:
    try:
        try:
            raise KeyError(EVIL)
        except KeyError as error:
            raise ValueError(EVIL) from error
    except ValueError as error:
        error.add_note(EVIL)
        signals.schedule_failed.send(None, name=EVIL, error=error)

    text = written()
    assert "forged" in text
    assert not UNSAFE.search(text)
    begun = {line.split(" ")[0] for line in text.splitlines() if line[:1].strip()}
    assert begun <= {"ERROR", "Traceback", "KeyError:", "ValueError:", "The", "a"}
    assert not [line for line in text.splitlines() if line.startswith("CRITICAL")]


def in_a_context() -> None:
    try:
        raise OSError(EVIL)
    except OSError:
        raise ValueError("plain")  # noqa: B904


def in_a_group() -> None:
    raise ExceptionGroup("plain", [ValueError("plain"), ExceptionGroup("plain", [OSError(EVIL)])])


def in_a_note() -> None:
    error = ValueError("plain")
    error.add_note(EVIL)
    raise error


@pytest.mark.parametrize("fail", [in_a_context, in_a_group, in_a_note])
def test_wherever_an_error_brings_a_text_it_begins_no_line(
    written: Callable[[], str], fail: Callable[[], None]
) -> None:
    try:
        fail()
    except Exception as error:
        escaping.logger_of("pgqueue").error("failed", exc_info=error)

    text = written()
    assert "forged" in text
    assert not UNSAFE.search(text)
    assert not [line for line in text.splitlines() if line.startswith("CRITICAL")]


def test_an_error_that_brings_nothing_keeps_the_traceback_of_the_formatter() -> None:
    record = logging.LogRecord("a", 40, "", 1, "%s", (1,), (ValueError, ValueError("plain"), None))

    escaping.Escaping().filter(record)

    assert (record.exc_text, record.args) == (None, (1,))


@pytest.mark.parametrize(
    ("signal", "named"),
    [
        (signals.loop_blocked, {}),
        (signals.timeout_ignored, {"claim": SimpleNamespace(task=EVIL, id=1)}),
        (signals.run_overran, {"claim": SimpleNamespace(task=EVIL, id=1)}),
    ],
)
def test_a_stack_keeps_its_lines(
    written: Callable[[], str], signal: Any, named: dict[str, Any]
) -> None:
    signal.send(None, stack="File a\n  File b\x1b", **named)

    assert written().splitlines()[1:] == ["File a", "  File b\\u001b"]


def test_what_is_added_to_records_of_a_run_has_no_line_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim = SimpleNamespace(channel=EVIL, key=EVIL, flow_id=None)
    context = SimpleNamespace(task=SimpleNamespace(name=EVIL), id="1", attempt=1, claim=claim)
    monkeypatch.setattr("pgqueue.logs.running", SimpleNamespace(get=lambda: context))
    record = logging.LogRecord("shop", 20, "", 1, "hello", (), None)

    RunFilter().filter(record)

    told: Any = record
    assert not [each for each in (told.task, told.channel, told.key) if UNSAFE.search(each)]
    assert "\n" not in told.task
    json.loads(JSONFormatter().format(record))


def test_each_logger_of_the_package_escapes() -> None:
    folder = Path(pgqueue.__file__).parent
    texts = {str(path): path.read_text("utf-8") for path in folder.rglob("*.py")}

    made = [path for path, text in texts.items() if re.search(r"(?m)^\w+ *= *logging\.get", text)]

    assert len(texts) > 100
    assert made == []


COMMANDS: list[list[str]] = [
    ["pgqueue_list", "--state=dead"],
    ["pgqueue_list", "--state=ended"],
    ["pgqueue_list"],
    ["pgqueue_stats"],
    ["pgqueue_health", "--max-age=0.001"],
    ["pgqueue_channel", "list"],
    ["pgqueue_flows"],
    ["pgqueue_group", "list"],
    ["pgqueue_subscription", "list"],
    ["pgqueue_schedule", "list"],
    ["pgqueue_replay", "--all", "--dry-run"],
    ["pgqueue_cancel", "--all", "--dry-run"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_command_prints_control_characters(db: None, words: list[str], form: str) -> None:
    make_world(EVIL)

    out = call(*words, f"--format={form}").out

    assert "forged" in out
    assert not UNSAFE.search(out)
    assert not [line for line in out.splitlines() if line.startswith("CRITICAL")]
    if form == "json":
        for line in out.splitlines():
            json.loads(line)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_message_is_shown_without_control_characters(db: None, form: str) -> None:
    world = make_world(EVIL)

    for name in ("message", "history"):
        out = call("pgqueue_show", str(world.keys[name]), f"--format={form}").out

        assert "forged" in out
        assert not UNSAFE.search(out)
        assert not [line for line in out.splitlines() if line.startswith("CRITICAL")]
