"""Which test files a run has to collect that asks for a mark."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
ASKS = re.compile(r"(\w+)(?: and not \w+)*")
MARK = re.compile(r"\bmark\.(\w+)")


def may_have_tests(path: Path, expression: str) -> bool:
    """Return whether a test of a file may be selected by `-m`: to collect all files takes long.

    A test gets its marks in its file, or from a conftest.py of a folder above it, below `tests/`.

    Args:
        path: a test file.
        expression: of `-m`. Only one such as "slow and not spark" leaves files out.
    """
    asked = ASKS.fullmatch(expression)
    if asked is None or TESTS not in path.parents:
        return True
    below = path.parents[: path.parents.index(TESTS)]
    return any(
        asked[1] in MARK.findall(file.read_text("utf-8"))
        for file in [path, *(folder / "conftest.py" for folder in below)]
        if file.exists()
    )
