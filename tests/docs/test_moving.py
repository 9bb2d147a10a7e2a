"""The pages for those who come from other systems: our side of each table is what can be called."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from importlib import import_module
from types import ModuleType

import pytest
from django.core.management import call_command

import pgqueue
from pgqueue import TaskContext
from pgqueue.compat.celery import current
from pgqueue.conf import Settings
from pgqueue.events import subscribing
from pgqueue.exceptions import EndOfRun
from pgqueue.models import Message
from pgqueue.tasks.scheduling import declared
from tests.docs.blocks import ROOT, Block, blocks
from tests.docs.test_blocks import parse, run

PAGES = ["from-celery.md", "from-procrastinate.md", "from-huey.md", "from-django-rq.md",
         "from-apscheduler.md", "from-hotmesh.md", "from-lonnymq.md", "from-sqlxmq.md",
         "from-pgmb.md"]  # fmt: skip
DECLARED = "\ndef declared(context, *args, **kwargs): ..."


def calls(page: str) -> list[str]:
    """Return the code in the second column of a page's tables."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    # Tests of their own run other packages (tests/compat/celery/test_others.py).
    lines = re.sub(r"### Other packages.*?(?=^#)", "", text, flags=re.S | re.M).splitlines()
    cells = [line.split("|")[2] for line in lines if line.startswith("|")]
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


@pytest.fixture
def module(transactional_db: None, own_tasks: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(subscribing, "_subscriptions", {})
    monkeypatch.setattr(current, "apps", [])
    module = ModuleType("example")
    vars(module).update({name: getattr(pgqueue, name) for name in pgqueue.__all__})
    monkeypatch.setitem(sys.modules, "example", module)
    return module


@pytest.mark.parametrize("page", PAGES)
def test_our_side_of_a_page_runs(page: str, module: ModuleType) -> None:
    for block in blocks(f"docs/{page}", "python"):
        run(block, module)
    if hasattr(module, "result"):
        call_command("runworker", "--drain")
        module.result.refresh()
        assert module.result.status == "succeeded"
    found = calls(page)

    assert len(found) > 8
    for code in found:
        try:
            use(page, code, module)
        except Exception as error:
            error.add_note(f"{page}: {code}")
            raise


def test_the_canvas_as_the_page_for_celery_has_it_runs_by_both_words(module: ModuleType) -> None:
    for block in blocks("docs/from-celery.md", "python"):
        run(block, module)
    call_command("runworker", "--drain")

    assert module.whole.wait(timeout=10).return_value == 600
    assert [part.wait(timeout=10).return_value for part in module.parts] == [100, 200]
    assert (module.scaled.get(), module.added.get(), module.both.get()) == (200, 30, [6, 8])
    assert module.chunked.get() == [[2, 12], [30]]


def test_a_project_of_celery_s_is_moved_by_its_imports_as_the_page_has_it(
    module: ModuleType,
) -> None:
    run(blocks("docs/from-celery.md", "python")[0], module)
    call_command("runworker", "--drain")

    assert module.summed.get() == 3
    waiting = Message.objects.get()
    assert (waiting.task, waiting.key, waiting.priority) == ("example.load", "example.load", 50)
    assert waiting.dedupe_key == "load-1"
    assert [each.cron for each in declared("default")] == ["0 3 * * *"]


def use(page: str, code: str, module: ModuleType) -> None:
    """Do what a piece of code in a table says; or look up what it names."""
    if code.startswith("manage.py "):
        parse(code.removeprefix("manage.py "))
    elif found := re.fullmatch(r'PGQUEUE\["(\w+)"\]', code):
        assert found[1] in {each.name.upper() for each in fields(Settings)}
    elif found := re.fullmatch(r"context\.(\w+)", code):
        assert hasattr(TaskContext, found[1])
    elif re.fullmatch(r"pgqueue(\.\w+)+", code):
        home, _, name = code.rpartition(".")
        assert hasattr(import_module(home), name)
    elif code.startswith("receive("):
        receiver, _, attribute = code.partition(").")
        with eval(receiver.removesuffix(")") + ")", vars(module)) as deliveries:  # noqa: S307
            assert not attribute or hasattr(deliveries, attribute)
    elif code.startswith("@"):
        exec(code + DECLARED, vars(module))  # noqa: S102
    elif code.startswith("raise "):
        with pytest.raises(EndOfRun):
            exec(code, vars(module))  # noqa: S102
    else:
        run(Block(page, 0, "python", 0, "", code), module)
