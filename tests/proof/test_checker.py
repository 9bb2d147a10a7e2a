"""The checker: for each anomaly a history that shows it, and one near it that is right."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from tests.proof.checker import account as accounts
from tests.proof.checker import rules
from tests.proof.checker.account import Account, account_of, operations_of
from tests.proof.checker.anomaly import Anomaly, shortest
from tests.proof.histories import RIGHT, WRONG, Case, case, enqueue, row, run


def found(history: Case) -> list[Anomaly]:
    _, operations, dump = history
    account = Account(sorted(operations, key=lambda each: each.began), dump)
    return [each for anomalies in rules.check(account).values() for each in anomalies]


@pytest.mark.parametrize("history", WRONG.values(), ids=WRONG)
def test_a_history_that_shows_an_anomaly(history: Case) -> None:
    assert {each.rule for each in found(history)} == {history[0]}


@pytest.mark.parametrize("history", RIGHT.values(), ids=RIGHT)
def test_a_history_near_it_that_is_right(history: Case) -> None:
    assert not found(history)


def test_each_rule_has_an_anomaly_and_a_history_near_it() -> None:
    near = {rule for rule, *_ in RIGHT.values()}
    shown = {rule for rule, *_ in WRONG.values()}

    assert shown - near == {"at least once", "lease", "waiting"}
    for rule in rules.RULES.values():
        violated = [
            name
            for name, (_, operations, dump) in WRONG.items()
            if list(rule(Account(operations, dump)))
        ]
        assert violated, f"no history violates {rule.__name__}"


def test_the_shortest_history_of_an_anomaly_is_shown() -> None:
    long = [enqueue(0, 1), run(1, 1), run(1, 2, attempt=2)]
    short = [enqueue(0, 2)]

    count, shown = shortest(found(case("lost", *long, *short)))["lost"]

    assert count == 2
    assert shown.words == "message 2 was committed, and is gone"
    assert [line.split("  ")[2] for line in shown.history()] == ["enqueue ok"]


LINES = """
{"op": "a:1", "kind": "invoke", "do": "enqueue", "at": 1.0, "wall": 100, "messages": []}
{"op": "a:1", "kind": "saw", "at": 1.1, "xid": 7}
{"op": "b:1", "kind": "invoke", "do": "run", "at": 0.5, "number": 1}
{"op": "a:1", "kind": "ok", "at": 1.2}
{"op": "c:1", "kind": "invoke", "do": "enqueue", "at": 2.0, "messages": []}
{"op": "c:1", "kind": "unknown", "at": 2.5}
{"op": "b:1", "kind": "ok", "a"""


def test_an_operation_without_an_end_and_a_torn_line_stay_unknown() -> None:
    one, two, three = operations_of(LINES.split("\n"))

    assert (one.id, one.end, one.ended, one["number"]) == ("b:1", "unknown", inf, 1)
    assert (two.id, two.end, two.ended, two["xid"]) == ("a:1", "ok", 1.2, 7)
    assert (three.end, three.ended) == ("unknown", inf)
    assert not one.precedes(two)
    assert replace(two, ended=1.9).precedes(three)


def test_the_lines_of_the_page_are_an_operation() -> None:
    page = Path(__file__).parents[2] / "docs" / "proof.md"
    lines = page.read_text("utf-8").partition("```text\n")[2].partition("```")[0].splitlines()

    [operation] = operations_of(lines)

    assert (operation.do, operation.began, operation.end) == ("enqueue", 81.25, "ok")
    assert operation.value["messages"] == [{"number": 20_000_017, "once": True}]


def test_a_folder_has_logs_and_a_dump(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINES)
    (tmp_path / "dump.json").write_text(json.dumps({"messages": [row(1)]}))

    account = account_of(tmp_path)

    assert len(account.operations) == 3
    assert account.messages == {1: [row(1)]}
    assert not account.rows("events")


def test_the_checker_imports_nothing_of_pgqueue() -> None:
    for file in Path(accounts.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.startswith("tests.proof.checker") or name.split(".")[0] in STANDARD, (
                    name
                )


STANDARD = {
    *("__future__", "bisect", "collections", "dataclasses", "functools", "itertools", "json"),
    *("math", "pathlib", "typing"),
}
