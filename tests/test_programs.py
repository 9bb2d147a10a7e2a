"""What becomes of a test whose program is missing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests import programs

pytest_plugins = ["pytester"]

HERE = Path(__file__).parent
ROOT = HERE.parent
ASKS = """
from tests import programs

def test_it_runs():
    programs.find("no-such-program", package="some-package")

def test_it_runs_too():
    programs.find("no-such-program", package="some-package")
"""
ASKS_FOR_A_PYTHON = """
from tests import programs

def test_it_runs():
    programs.python_of("NO_SUCH_PYTHON", target="test-other")
"""


def run(pytester: pytest.Pytester, tests: str = ASKS) -> pytest.RunResult:
    """Run tests that need a program, with no settings of a directory further up."""
    pytester.makeini("[pytest]\n")
    pytester.makeconftest("from tests.conftest import pytest_terminal_summary\n")
    pytester.makepyfile(tests)
    return pytester.runpytest_inprocess("-p", "no:django", "-p", "no:xdist")


@pytest.fixture(autouse=True)
def _alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv(programs.ALL_ARE_REQUIRED, raising=False)


def test_tests_without_their_program_are_skipped_with_one_line_that_names_it(
    pytester: pytest.Pytester,
) -> None:
    ran = run(pytester)

    ran.assert_outcomes(skipped=2)
    line = "2 tests were skipped: no-such-program is missing (Debian: apt-get install some-package)"
    assert [each for each in ran.outlines if "no-such-program" in each] == [line]


def test_tests_without_their_program_fail_where_all_programs_are_required(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.ALL_ARE_REQUIRED, "1")

    run(pytester).assert_outcomes(failed=2)


@pytest.mark.parametrize("required", ["", "1"])
def test_a_python_that_no_variable_names_is_missing_too(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, required: str
) -> None:
    monkeypatch.setenv(programs.ALL_ARE_REQUIRED, required)

    ran = run(pytester, ASKS_FOR_A_PYTHON)

    ran.assert_outcomes(**{"failed" if required else "skipped": 1})


def test_no_test_skips_for_want_of_a_program_by_itself() -> None:
    by_itself = re.compile(r"(which\(|environ\.get\().* or pytest\.skip")

    found = [file.name for file in HERE.rglob("*.py") if by_itself.search(file.read_text())]

    assert found == []


def test_a_module_that_is_missing_has_its_name_told_where_all_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert programs.have("json", "pathlib")
    assert not programs.have("json", "no_such_module")

    monkeypatch.setenv(programs.ALL_ARE_REQUIRED, "1")
    monkeypatch.setattr("django.VERSION", (5, 2))
    with pytest.raises(ModuleNotFoundError, match="^no_such_module: `make"):
        programs.have("json", "no_such_module")
    monkeypatch.setattr("django.VERSION", (6, 1))
    assert not programs.have("json", "no_such_module")


def test_a_program_that_is_there_is_found() -> None:
    assert programs.find("sh", package="dash").endswith("/sh")


def test_other_skips_are_not_named() -> None:
    assert programs.summary(["Skipped: type statements came with 3.12", sys.version]) == ""
