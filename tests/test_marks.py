"""A run that asks for a mark collects the files whose tests may have it, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests import marks
from tests.conftest import pytest_ignore_collect

OWN = "pytestmark = pytest.mark.slow"
OTHER = "pytestmark = pytest.mark.slowest"


@pytest.mark.parametrize(
    ("expression", "text", "conftest", "is_collected"),
    [
        ("slow", OWN, "", True),
        ("slow and not spark", OWN, "", True),
        ("slow and not spark and not smoke", "", OWN, True),
        ("slow", OTHER, OTHER, False),
        ("slow and not spark", "pytestmark = pytest.mark.spark", "", False),
        ("", OTHER, "", True),
        ("not slow", OTHER, "", True),
        ("not slow and not spark", OTHER, "", True),
        ("slow or spark", OTHER, "", True),
        ("not (slow and spark)", OTHER, "", True),
    ],
)
def test_only_files_whose_tests_may_have_the_mark(
    expression: str,
    text: str,
    conftest: str,
    is_collected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marks, "TESTS", tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "test_it.py"
    file.write_text(text)
    (folder / "conftest.py").write_text(conftest)

    assert marks.may_have_tests(file, expression) is is_collected


@pytest.mark.parametrize(
    ("name", "is_ignored"),
    [("test_blocked_heartbeat.py", None), ("test_shared_names.py", True), ("tasks.py", None)],
)
def test_a_run_ignores_the_other_files(name: str, is_ignored: bool | None) -> None:
    config = Mock(**{"getoption.return_value": "slow and not spark"})

    assert pytest_ignore_collect(marks.TESTS / "incidents" / name, config) is is_ignored


@pytest.mark.parametrize(
    ("mark", "target"),
    [
        ("browser", "test-browser"),
        ("celery", "test-celery"),
        ("docs", "docs"),
        ("orchestrators", "test-orchestrators"),
        ("spark", "test-spark"),
    ],
)
def test_a_target_of_make_runs_each_file_that_has_its_mark(mark: str, target: str) -> None:
    makefile = (marks.TESTS.parent / "Makefile").read_text()
    recipe = re.search(rf"^{target}: [^=\n]*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe
    command = next(line for line in recipe[1].splitlines() if "pytest" in line.lower())
    folders = [marks.TESTS.parent / each for each in re.findall(r"\btests/[\w/]+", command)]
    marked = re.compile(rf"^(@|pytestmark = \[?)pytest\.mark\.{mark}\b", re.MULTILINE)

    left_out = [
        file.name
        for file in marks.TESTS.rglob("test_*.py")
        # `make chaos` runs whatever mark its tests have.
        if folders and not {marks.TESTS / "chaos", *folders} & set(file.parents)
        if marked.search(file.read_text())
    ]

    assert left_out == []
