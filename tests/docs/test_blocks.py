"""Every code block of the pages is run or parsed, or the table below says why it is not.

A block that no table names is run here: those of a page one after the other, in one module, among
the names of `names.py`.
"""

from __future__ import annotations

import ast
import codeop
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError
from django.db import connection, transaction

import pgqueue
from pgqueue.events import consumers, subscribing, typed
from tests import programs
from tests.docs import names
from tests.docs.blocks import ROOT, Block, blocks, pages
from tests.processes import worker
from tests.test_compared import defined_in

ALL = 0
GUIDES = "tests/test_guides.py::"
TRACKING = "tests/telemetry/test_error_tracking.py::"
BROKERS = "tests/events/test_brokers.py::"
TRIED = GUIDES + "test_what_one_is_to_try_works"
TRIED_IN_SQL = GUIDES + "test_what_one_is_to_try_in_sql_works"

TENANTS = "tests/tenants/test_tenants.py::"
DURABLE = "tests/docs/test_durable.py::"
MOVING = "tests/docs/test_moving.py::test_our_side_of_a_page_runs"

RUN_BY: Mapping[str, Mapping[int, str]] = {
    "docs/from-apscheduler.md": {ALL: MOVING},
    "docs/from-celery.md": {ALL: MOVING},
    "docs/from-django-rq.md": {ALL: MOVING},
    "docs/from-hotmesh.md": {ALL: MOVING},
    "docs/from-huey.md": {ALL: MOVING},
    "docs/from-lonnymq.md": {ALL: MOVING},
    "docs/from-pgmb.md": {ALL: MOVING},
    "docs/from-procrastinate.md": {ALL: MOVING},
    "docs/from-sqlxmq.md": {ALL: MOVING},
    "README.md": {ALL: "tests/test_readme.py::test_its_examples_run_in_their_order"},
    "docs/from-outbox.md": {
        ALL: GUIDES + "test_the_code_that_moves_from_an_outbox_publishes_and_listens"
    },
    "docs/guide/batches.md": {1: TRIED, 2: TRIED},
    "docs/guide/channels.md": {ALL: GUIDES + "test_an_example_runs"},
    "docs/guide/dedupe.md": {1: TRIED, 2: TRIED},
    "docs/guide/durable.md": {
        ALL: "tests/docs/test_tutorial.py::"
        "test_the_tutorial_of_durable_tasks_can_be_followed_to_the_letter"
    },
    "docs/guide/durable-agents.md": {ALL: DURABLE + "test_an_agent_asks_and_is_answered"},
    "docs/guide/durable-loops.md": {ALL: DURABLE + "test_a_loop_begins_anew"},
    "docs/guide/durable-people.md": {ALL: DURABLE + "test_people_decide"},
    "docs/guide/durable-sagas.md": {ALL: DURABLE + "test_a_saga_undoes_what_it_did"},
    "docs/guide/events.md": {
        5: GUIDES + "test_the_sql_of_events_runs",
        6: GUIDES + "test_the_sql_of_events_runs",
        ALL: GUIDES + "test_the_examples_of_events_run",
    },
    "docs/proof.md": {
        1: "tests/proof/test_checker.py::test_the_lines_of_the_page_are_an_operation"
    },
    "docs/guide/expiry.md": {1: TRIED, 2: TRIED},
    "docs/guide/flows.md": {
        1: TRIED,
        2: TRIED,
        ALL: GUIDES + "test_the_flows_of_the_guide_return_what_it_says",
    },
    "docs/guide/groups.md": {ALL: GUIDES + "test_the_handlers_of_groups_are_given_their_events"},
    "docs/guide/holds.md": {1: TRIED, 2: TRIED},
    "docs/guide/inbox.md": {1: TRIED, ALL: GUIDES + "test_what_the_guide_receives_is_handled_once"},
    "docs/guide/inside-a-task.md": {ALL: GUIDES + "test_a_task_comes_back_until_everyone_is_told"},
    "docs/guide/limits.md": {ALL: GUIDES + "test_an_example_runs"},
    "docs/guide/observability.md": {
        1: "tests/test_logs.py::test_the_settings_of_the_guide_write_lines_of_json"
    },
    "docs/guide/order.md": {1: TRIED, 2: TRIED},
    "docs/guide/publishing-later.md": {
        ALL: GUIDES + "test_what_is_published_later_and_together_is"
    },
    "docs/guide/pull.md": {
        1: "tests/tasks/test_receiving.py::test_the_guides_example_does_what_it_says"
    },
    "docs/guide/relay.md": {
        1: GUIDES + "test_the_relays_of_the_guide_hand_on_and_give_up_as_it_says",
        2: GUIDES + "test_the_relays_of_the_guide_hand_on_and_give_up_as_it_says",
        3: BROKERS + "TestRedis::test_has_each_event_once_in_the_order_of_its_key",
        4: BROKERS + "TestKafka::test_has_each_event_with_its_key_and_position",
    },
    "docs/guide/schedules.md": {
        1: TRIED,
        2: TRIED,
        3: GUIDES + "test_the_schedules_of_the_example_are_those_it_describes",
        4: GUIDES + "test_the_schedules_of_the_example_are_those_it_describes",
    },
    "docs/guide/sql.md": {1: TRIED_IN_SQL, 2: TRIED_IN_SQL},
    "docs/guide/sse.md": {
        1: TRIED,
        2: TRIED,
        ALL: GUIDES + "test_the_views_of_the_browser_s_page_allow_whom_they_say",
    },
    "docs/guide/subscriptions.md": {
        1: TRIED,
        ALL: GUIDES + "test_the_functions_of_the_guide_are_run_with_the_events_they_want",
    },
    "docs/guide/table-events.md": dict.fromkeys(
        (1, 2, 4), GUIDES + "test_the_table_of_the_example_publishes_what_it_says"
    ),
    "docs/guide/tenants.md": dict.fromkeys(
        (2, 3), TENANTS + "test_each_message_runs_in_its_tenant"
    ),
    "docs/guide/testing.md": {ALL: GUIDES + "test_the_tests_of_the_guide_pass"},
    "docs/guide/tracing.md": {
        4: TRACKING + "test_one_dead_letter_is_one_event_and_a_retry_is_none",
        ALL: "tests/telemetry/test_guide.py::"
        "test_the_code_of_the_guide_traces_measures_and_processes",
    },
    "docs/guide/waiting.md": {1: TRIED, 2: TRIED},
    "docs/guide/webhooks.md": {ALL: GUIDES + "test_the_webhooks_of_the_guide_post_what_it_says"},
    "docs/pipeline.md": {ALL: "tests/spark/test_docs.py::test_the_examples_run"},
    "docs/scale.md": {
        4: "tests/docs/test_scale.py::test_an_event_of_one_database_is_received_once_in_another",
        5: "tests/docs/test_scale.py::test_keys_are_spread_over_databases_that_each_have_a_worker",
        ALL: "tests/spark/test_docs.py::test_the_queries_run",
    },
    "docs/tutorial.md": {
        ALL: "tests/docs/test_tutorial.py::test_the_tutorial_can_be_followed_to_the_letter"
    },
}
"""What runs the blocks of a page, by their numbers there; ALL: those that are not named."""

NOT_RUN: Mapping[tuple[str, int], str] = {
    (
        "docs/guide/pull.md",
        3,
    ): "It receives until it is closed: tests/tasks/test_receiving.py has it.",
    (
        "docs/guide/sql.md",
        5,
    ): "It has dots for an address and SQL: tests/tasks/test_send.py has both.",
    (
        "docs/guide/waiting.md",
        5,
    ): "It listens until the process ends; the first block does so, too.",
}
"""Why a block is only compiled, by its page and number."""


SECTION = re.compile(r"^(?:Args|Attributes|Raises|Returns):$", re.M)


def by_page(*languages: str) -> dict[str, list[Block]]:
    """Return the blocks of all pages that nothing else runs."""
    found = {page: blocks(page, *languages) for page in pages()}
    return {
        page: rest for page, all_ in found.items() if (rest := [b for b in all_ if not shown_by(b)])
    }


def shown_by(block: Block) -> str | None:
    return RUN_BY.get(block.page, {}).get(block.number) or RUN_BY.get(block.page, {}).get(ALL)


HERE = by_page("python", "sql")


@pytest.fixture
def module(transactional_db: None, own_tasks: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that has the names which the pages take for granted, and may declare anything."""
    monkeypatch.setattr(consumers, "_consumers", {})
    monkeypatch.setattr(subscribing, "_subscriptions", {})
    monkeypatch.setattr(typed, "_classes", {})
    module = ModuleType("example")
    vars(module).update({name: each for name, each in vars(names).items() if name[:2] != "__"})
    vars(module).update(
        id=names.send_receipt.enqueue(7).id, psycopg_connection=connection.connection
    )
    monkeypatch.setitem(sys.modules, "example", module)
    return module


@pytest.mark.parametrize("page", sorted(HERE))
def test_the_blocks_of_a_page_run(page: str, module: ModuleType) -> None:
    waits = any("wait" in block.code for block in HERE[page])
    with worker() if waits else nullcontext():
        for block in HERE[page]:
            run(block, module)


def run(block: Block, module: ModuleType) -> None:
    if (block.page, block.number) in NOT_RUN:
        compiled(block)
    elif block.language == "sql":
        execute(block)
    elif running := eval(compiled(block), vars(module)):  # noqa: S307
        async_to_sync(waited_for)(running)


async def waited_for(running: Coroutine[Any, Any, None]) -> None:
    await running


def compiled(block: Block) -> Any:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    lines = "\n" * block.line
    return compile(lines + block.code, block.page, "exec", flags=flags)


def execute(block: Block) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(block.code)
        transaction.set_rollback(True)


def test_what_is_json_is_json() -> None:
    for page in pages():
        for block in blocks(page, "json"):
            json.loads(block.code)


@pytest.mark.docs  # by a library that comes with what builds the pages
def test_what_is_yaml_is_yaml() -> None:
    import yaml

    for page in pages():
        for block in blocks(page, "yaml"):
            list(yaml.safe_load_all(block.code))


def test_what_is_javascript_compiles(tmp_path: Path) -> None:
    node = programs.find("node", package="nodejs")
    for page in pages():
        for block in blocks(page, "js"):
            file = tmp_path / "block.mjs"
            file.write_text(block.code)
            checked = subprocess.run([node, "--check", file], capture_output=True, text=True)
            assert checked.returncode == 0, f"{block}\n{checked.stderr}"


TUTORIALS = ("docs/tutorial.md", "docs/guide/durable.md")
FOR_THE_SHELL = [
    block
    for page in pages()
    for block in blocks(page, "python")
    if not block.file and (block.section == "Try it" or page in TUTORIALS)
]


@pytest.mark.parametrize("block", FOR_THE_SHELL, ids=str)
def test_a_block_for_the_shell_can_be_entered_line_by_line(block: Block) -> None:
    """In a shell, a blank line ends a `with` or a `for`, and only a blank line ends it."""
    entered: list[str] = []
    for line in [*block.code.splitlines(), ""]:
        entered.append(line)
        if codeop.compile_command("\n".join(entered)):  # raises SyntaxError where the shell does
            entered = []

    assert entered in ([], [""])


def commands(page: str) -> list[str]:
    """Return what a page has one type after `manage.py`, in blocks and in lines of code."""
    text = (ROOT / page).read_text("utf-8").replace("\\\n", " ")
    return re.findall(r"^(?: {4}|\$ ).*manage\.py (.*)$", text, re.M)


@pytest.mark.parametrize("page", [page for page in pages() if commands(page)])
def test_commands_take_what_the_page_gives_them(page: str) -> None:
    for line in commands(page):
        parse(line)


def parse(line: str) -> None:
    """Have a command parse its line, unless that has words to be replaced."""
    line = line.replace("--database queue", "--database second")  # the alias of these tests
    words = shlex.split(line, comments=True)
    ends = [words.index(each) for each in ("&", "|", ">") if each in words]
    name, *given = words[: min(ends, default=len(words))]
    assert name in get_commands(), line
    command = load_command_class(get_commands()[name], name)
    if not re.search(r"[…\[]|\b[A-Z]{2,}\b", line):
        try:
            command.create_parser("manage.py", name).parse_args(given)
        except CommandError as error:
            pytest.fail(f"{line}: {error}")


def examples(text: str) -> list[str]:
    """Return the indented blocks before the sections of a docstring."""
    told, *_ = SECTION.split(cleandoc(text), maxsplit=1)
    return [dedent(each) for each in re.findall(r"(?:^ {4}.*\n?|^\n(?= {4}))+", told, re.M)]


def test_examples_of_docstrings_compile() -> None:
    """They stand for what the pages run, and are too short to be run themselves."""
    named = {name: examples(getattr(pgqueue, name).__doc__ or "") for name in pgqueue.__all__}

    for name, found in named.items():
        for number, code in enumerate(found):
            compiled(Block(f"pgqueue.{name}", number, "python", 0, "", code))
    assert sum(map(len, named.values())) > 10


def test_what_the_pages_import_is_public() -> None:
    promised = set(
        re.findall(r"`(pgqueue[\w.]*)`", (ROOT / "docs/stability.md").read_text("utf-8"))
    )
    imported = {
        (module, name)
        for page in pages()
        for block in blocks(page, "python")
        for module, names_ in re.findall(r"^from (pgqueue[\w.]*) import (.*)$", block.code, re.M)
        for name in names_.split(", ")
    }

    assert len(imported) > 40
    public = {(module, name) for module, name in imported if module in promised}
    public |= {(module, name) for module, name in imported if f"{module}.{name}" in promised}
    assert sorted(imported - public) == []


def test_no_block_is_left_out() -> None:
    """Each has a language that something runs or parses, here or where a table says."""
    ways = {"python", "sql", "console", "json", "yaml", "js", "{toctree}", "{diagram}"}
    every = [block for page in pages() for block in blocks(page)]
    unknown = [str(each) for each in every if each.language not in ways and not shown_by(each)]
    fences = [len(re.findall(r"^ *```", (ROOT / page).read_text(), re.M)) for page in pages()]

    assert unknown == []
    assert sum(fences) == 2 * len(every) > 200  # none without a language, none that is not seen


def test_the_tables_name_what_exists() -> None:
    numbers = {(b.page, b.number) for page in pages() for b in blocks(page)}
    named = {(page, n) for page, by_number in RUN_BY.items() for n in by_number if n != ALL}

    assert set(RUN_BY) <= set(pages())
    assert named | set(NOT_RUN) <= numbers
    for page, by_number in RUN_BY.items():
        for number, test in by_number.items():
            path, _, name = test.partition("::")
            assert name in defined_in(ROOT / path), test
            if test in (TRIED, TRIED_IN_SQL):
                assert blocks(page)[number - 1].section == "Try it"
            else:
                assert page.rpartition("/")[2] in (ROOT / path).read_text("utf-8"), (page, test)
