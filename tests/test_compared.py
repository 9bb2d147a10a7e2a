"""What docs say of other systems, and of what is promised: each with a test that shows it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/compared.md").read_text()

TEST = re.compile(r"tests/[\w/]+\.py(?:::\w+)+")
ROW = re.compile(
    r"^\| \*\*(?P<feature>.+?)\*\*: (?P<known>.+?) \| (?P<here>.+?)\[\^(?P<note>[\w-]+)\] \|$"
)
NOTE = re.compile(r"^\[\^([\w-]+)\]: ((?:.*\n)(?:    .*\n)*)", re.M)
WORDS = 45
"""In a cell of the table, at most."""

FEATURES = {
    "hotmesh's streams": [
        "Schema",
        "Publish",
        "Groups",
        "Consumer groups",
        "Reserve",
        "Polling backoff",
        "Ack",
        "NOTIFY",
        "Fallback poller",
        "Scout role",
        "Retry policy",
        "Stats/trim",
        "Features",
        "Shutdown",
        "HEAD extras",
    ],
    "lonnymq": [
        "Channels",
        "Random channel",
        "Policy",
        "Create",
        "Dedupe (0.0.18)",
        "Dequeue",
        "Finalise",
        "Events",
        "Batch",
        "Adaptor, migrations",
    ],
    "sqlxmq": [
        "Tables",
        "Channels",
        "Poll",
        "Exhaustion",
        "Ordered",
        "Two-phase",
        "Checkpoint",
        "Complete",
        "Keep-alive",
        "Runner",
    ],
    "pg-transactional-outbox": [
        "Tables",
        "Store",
        "Polling",
        "Replication",
        "Ack manager",
        "Concurrency controllers",
        "Handling",
        "Attempts",
        "Poison",
        "Cleanup",
        "Strategies",
    ],
    "PGMB": [
        "Event log",
        "Unread",
        "Poll / read",
        "Reliable handler",
        "Partition helper",
        "Fire-and-forget",
        "Publish",
        "SSE",
        "Table events",
        "Ops",
    ],
    "pg-transactional-outbox's handlers": [
        "Handlers",
        "Handling once",
        "Segments",
        "Retries",
        "Poisonous messages",
        "Inbox",
        "Locked until",
    ],
    "PGMB's subscriptions": [
        "Subscriptions",
        "Conditions",
        "A condition that fails",
        "Expiry",
        "Where it begins",
        "Retries",
        "splitBy",
        "Scheduling",
        "Buffering",
    ],
    "PGMB's webhooks": [
        "Webhooks",
        "Idempotency key",
        "Signatures",
        "Answers",
    ],
    "Workflows": [
        "Celery's canvas",
        "Huey's pipelines",
        "Chancy's workflows",
        "Workflows of Oban Pro and River Pro",
        "hotmesh's workflows",
        "Flower",
    ],
    "Durable execution": [
        "DBOS",
        "Temporal",
        "Absurd",
        "River's resumable jobs",
        "Oban Pro's signals",
        "hotmesh's functions",
    ],
}


def rows(system: str) -> list[re.Match[str]]:
    """Return the rows of a system's table, but for its head."""
    section = PAGE.split(f"\n## {system}\n")[1].split("\n## ")[0]
    _, _, *lines = [line for line in section.splitlines() if line.startswith("|")]
    found = [(line, ROW.match(line)) for line in lines]
    assert not [line for line, row in found if row is None]
    return [row for _, row in found if row]


def notes(text: str) -> dict[str, str]:
    """Return the notes at the end of a page, by their names."""
    return dict(NOTE.findall(text))


def defined_in(path: Path) -> set[str]:
    """Return the tests that a file has, as `test_x` or `TestY::test_x`."""
    found = set()
    for each in ast.parse(path.read_text()).body:
        found |= functions([each], "")
        if isinstance(each, ast.ClassDef):
            found |= functions(each.body, f"{each.name}::")
    return found


def functions(body: list[ast.stmt], prefix: str) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {prefix + each.name for each in body if isinstance(each, kinds)}


@pytest.mark.parametrize("system", FEATURES)
def test_every_feature_has_its_row_and_a_test_that_shows_it(system: str) -> None:
    found, shown = rows(system), notes(PAGE)

    assert [row["feature"] for row in found] == FEATURES[system]
    assert all(TEST.search(shown[row["note"]]) for row in found)
    assert [row["feature"] for row in found if len(row["here"].split()) > WORDS] == []


def test_each_promise_has_a_note_with_a_test() -> None:
    text = (ROOT / "docs/guarantees.md").read_text("utf-8")
    promised = text.partition("\n## Promised\n")[2].partition("\n## Not promised\n")[0]
    items = re.split(r"^ *- ", promised, flags=re.M)[1:]
    named = [re.findall(r"\[\^([\w-]+)\]\s*(?:\n#.*)?\s*\Z", item) for item in items]
    shown = notes(text)

    assert len(items) > 90
    assert [item for item, found in zip(items, named, strict=True) if len(found) != 1] == []
    assert [name for (name,) in named if not TEST.search(shown[name])] == []
    assert len({name for (name,) in named}) == len(items) == len(shown)


@pytest.mark.parametrize("page", ["compared.md", "guarantees.md", "peers.md", "threat-model.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    named = {each.partition("::")[::2] for each in TEST.findall(text)}

    files = {path for path, _ in named}
    known = {(path, test) for path in files for test in defined_in(ROOT / path)}
    assert named
    assert sorted(named - known) == []


def test_each_threat_has_a_defence_and_a_test_that_shows_it() -> None:
    text = (ROOT / "docs/threat-model.md").read_text("utf-8")
    tables = [part for part in text.split("\n## ") if "| threat |" in part]
    threats = [row for part in tables for row in cells(part)]

    assert len(tables) == 5
    assert [row for row in threats if len(row) != 3 or not TEST.search(row[2])] == []


def test_each_yes_beside_the_peers_has_a_test_that_shows_it() -> None:
    _, standing, shown, *_ = (ROOT / "docs/peers.md").read_text("utf-8").split("\n## ")
    told, tests = cells(standing), cells(shown)

    assert len(told) == 51
    assert all(len(row) == len(told[0]) for row in told)
    claimed = [feature for feature, ours, *_ in told if ours.startswith(("✔", "~"))]
    assert [feature for feature, _ in tests] == claimed
    assert all(TEST.search(named) for _, named in tests)


def cells(text: str) -> list[list[str]]:
    """Return the rows of a table, but for its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_guide_that_is_named_exists() -> None:
    links = re.findall(r"\]\(([^#].*?)\)", PAGE)

    assert links
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
