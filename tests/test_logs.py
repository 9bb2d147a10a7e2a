"""The fields of a run, on every record that it logs."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import logging.config
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command

from pgqueue import flow, task
from pgqueue.logs import FIELDS, JSONFormatter, RunFilter
from tests.docs.blocks import blocks

pytestmark = pytest.mark.django_db(transaction=True)

logger = logging.getLogger("shop.orders")


@task(channel="mail", key="ada")
def tell() -> None:
    logger.warning("told")


@task(channel="mail")
async def tell_async() -> None:
    logger.warning("told by the coroutine")
    await asyncio.create_task(_tell_later())
    await sync_to_async(logger.warning)("told by a thread")


async def _tell_later() -> None:
    await asyncio.sleep(0)
    logger.warning("told by a task of asyncio")


@task(max_attempts=2, backoff=[0])
def fail() -> None:
    logger.warning("about to fail")
    raise ValueError("nothing is right")


@pytest.fixture
def lines() -> Iterator[Any]:
    """Return a function that returns what was logged as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RunFilter())
    handler.setFormatter(JSONFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)


def drain(*options: str) -> None:
    call_command("runworker", "--drain", *options, verbosity=0)


def test_a_record_of_a_task_has_the_fields_of_its_run(lines: Any) -> None:
    result = tell.enqueue()

    drain()

    [line] = [each for each in lines() if each["logger"] == "shop.orders"]
    assert (line["message"], line["level"]) == ("told", "WARNING")
    assert {name: line.get(name) for name in FIELDS} == {
        "message_id": result.id,
        "task": tell.name,
        "attempt": 1,
        "channel": "mail",
        "key": "ada",
        "flow_id": None,
        "trace_id": None,
    }


def test_a_record_of_a_message_of_a_flow_has_the_flow_s_id(lines: Any) -> None:
    with flow("told") as f:
        f.enqueue(fail, after=f.enqueue(tell))

    drain()

    assert {each["flow_id"] for each in lines() if "message_id" in each} == {f.id}


@pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
def test_a_coroutine_s_records_are_of_its_own_run(lines: Any, options: list[str]) -> None:
    results = [tell_async.enqueue() for _ in range(3)]

    drain(*options)

    told = [each for each in lines() if each["logger"] == "shop.orders"]
    for result in results:
        own = [each["message"] for each in told if each["message_id"] == result.id]
        assert own == [
            "told by the coroutine",
            "told by a task of asyncio",
            "told by a thread",
        ]


def test_each_attempt_and_the_line_about_its_failure_have_their_own(lines: Any) -> None:
    result = fail.enqueue()

    drain()

    own = [each for each in lines() if each.get("message_id") == result.id]
    assert [(each["logger"], each["attempt"]) for each in own] == [
        ("shop.orders", 1),
        ("pgqueue", 1),
        ("shop.orders", 2),
        ("pgqueue", 2),
    ]
    assert "ValueError: nothing is right" in own[1]["exception"]


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, which is as it was afterwards."""
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    yield root
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def test_the_settings_of_the_guide_write_lines_of_json(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_ = blocks("docs/guide/observability.md", "python")
    names: dict[str, Any] = {}
    exec(first.code, names)  # noqa: S102
    logging.config.dictConfig(names["LOGGING"])
    result = tell.enqueue()

    drain()

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert result.id in [line.get("message_id") for line in lines if line["message"] == "told"]


def test_outside_of_a_run_the_fields_are_empty() -> None:
    record = logging.makeLogRecord({"msg": "hello %s", "args": ("you",)})

    assert RunFilter().filter(record)

    assert [getattr(record, name) for name in FIELDS] == [""] * len(FIELDS)
    assert JSONFormatter().format(record).count("message") == 1


def test_what_a_record_says_itself_is_kept() -> None:
    record = logging.makeLogRecord({"msg": "hello", "channel": "mine"})

    RunFilter().filter(record)

    assert record.channel == "mine"  # type: ignore[attr-defined]
