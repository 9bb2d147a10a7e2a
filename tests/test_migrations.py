"""The SQL files of the migrations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgqueue.migrations import sql

FILES = sorted(Path(sql.__file__).parent.glob("*.up.sql"))
MADE = re.compile(r"^CREATE .*", re.MULTILINE)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_without_a_way_back_makes_nothing(file: Path) -> None:
    down = file.with_name(file.name.replace(".up.", ".down."))

    made = MADE.findall(file.read_text("utf-8"))

    assert down.exists() or not made
