"""README's examples run in their order, and its figures are those that were measured."""

from __future__ import annotations

import json
import re
import sys
from configparser import ConfigParser
from pathlib import Path
from types import ModuleType

import pytest
from django.core import mail
from django.core.management import call_command

from pgqueue import Channel
from pgqueue.events import consumers
from pgqueue.models import History

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")

PEERS = {
    "pgqueue": "pgqueue",
    "Celery (Redis)": "celery",
    "django-tasks-db": "tasks_db",
    "Procrastinate": "procrastinate",
    "Huey (PostgreSQL)": "huey",
}
MEASURES = {
    "enqueued one by one, per s": "enqueue_per_s",
    "enqueued by 32 clients, per s": "clients_per_s",
    "tasks that do nothing, per s": "drain_per_s",
    "tasks that sleep 5 ms, per s": "nap_drain_per_s",
    "tasks with one ORM query, per s": "query_drain_per_s",
    "the same with `CONN_MAX_AGE = 0`, per s": "connecting_query_drain_per_s",
    "idle worker starts a task, median, ms": "pickup_p50_ms",
    "workers killed by `kill -9`: tasks lost": "lost",
    "… tasks stuck after 15 s": "stuck",
    "… effects that happened twice": "doubled",
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("own_tasks")
def test_its_examples_run_in_their_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})
    module = ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    examples = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)

    for example in examples:
        if ".wait(" in example:  # beside a worker
            call_command("runworker", "--drain")
        exec(compile(example, "README.md", "exec"), module.__dict__)  # noqa: S102

    assert capsys.readouterr().out == "succeeded\n1 user.signed_up\n"
    assert [(each.subject, each.to) for each in mail.outbox] == [("Welcome", ["ada@example.com"])]
    assert History.objects.get().task == "readme.send_welcome"
    assert [policy.max_running for policy in Channel("mail").policies()] == [20, 2]
    assert [each.name for each in consumers.declared()] == ["search"]


def test_its_links_lead_somewhere() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    base = f"{config['metadata']['url']}/blob/main/"
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)

    assert len(links) > 50
    relative = [link for link in links if not link.startswith(base)]
    assert relative == [], f"PyPI shows README, too: its links must begin with {base}"
    assert [link for link in links if not (ROOT / link.removeprefix(base)).exists()] == []


@pytest.mark.parametrize(("page", "most"), [("README.md", 1200), ("CONTRIBUTING.md", 600)])
def test_a_door_is_short(page: str, most: int) -> None:
    words = len((ROOT / page).read_text("utf-8").split())

    assert words <= most, f"{page} has {words} words: move some of them to a page of docs/"


def test_its_figures_of_other_queues_are_those_that_were_measured() -> None:
    results = json.loads((ROOT / "tests/benchmarks/results.json").read_text("utf-8"))
    figures = results["peers --messages 120000"]["figures"]
    table = README.partition("## Beside other queues")[2].partition("\n\nThe ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    ]

    assert rows[0][1:] == list(PEERS)
    assert {row[0]: row[1:] for row in rows[2:]} == {
        row: [_shown(figures.get(f"{peer}_{measure}")) for peer in PEERS.values()]
        for row, measure in MEASURES.items()
    }


def _shown(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:,}"
