"""The SQL that the package sends, as `python -m pgqueue.sql` prints it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pgqueue
from pgqueue import sql
from pgqueue.database.sql_files import load
from pgqueue.engine import settle


def test_a_statement_is_printed_as_it_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert sql.main(["settle.retry"]) == 0

    assert capsys.readouterr().out == settle.SQL["retry"] + "\n"


def test_a_file_has_its_names_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert sql.main(["engine.settle"]) == 0

    assert "engine.settle.retry" in capsys.readouterr().out.splitlines()


def test_an_unknown_name_is_refused_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sql.main(["settle.retri"]) == 1

    assert "Did you mean 'engine.settle.retry'?" in capsys.readouterr().err


def test_statements_are_printed_where_pyspark_is_not_installed() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None; "
        "from pgqueue import sql; sys.exit(sql.main(['arrow.reading.by_index']))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("SELECT set_config('enable_seqscan', 'off', true)")


def test_each_statement_that_a_module_names_is_in_its_file() -> None:
    package = Path(pgqueue.__file__).parent
    missing = []
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        loaded = {
            node.targets[0].id: load(getattr(node.value.args[0], "value", module))
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "load"
        }
        missing += [
            (module, node.slice.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
            and node.slice.value not in loaded.get(node.value.id, [node.slice.value])
        ]

    assert missing == []


@pytest.mark.parametrize("name", sql.statements())
def test_a_fragment_closes_each_parenthesis_that_it_opens(name: str) -> None:
    text = re.sub(r"'[^']*'", "", sql.statements()[name])
    depth = 0
    for each in re.findall(r"[()]", text):
        depth += 1 if each == "(" else -1
        assert depth >= 0, "it closes a parenthesis of another fragment"
    assert depth == 0, "it leaves a parenthesis open for another fragment"
