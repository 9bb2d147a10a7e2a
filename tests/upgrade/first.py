"""The first version: the newest commit that changed the initial migration.

Before the release this commit may be any commit. Released migrations never change, so from then on
it stays.
"""

from __future__ import annotations

import subprocess
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from tests import programs

ROOT = Path(__file__).parents[2]
INITIAL = "pgqueue/migrations/0001_initial.py"


def check_out(folder: Path) -> None:
    """Write the files of the first version into a folder."""
    commit = _git("log", "-1", "--format=%H", "--", INITIAL).decode().strip()
    with ZipFile(BytesIO(_git("archive", "--format=zip", commit))) as files:
        files.extractall(folder)


def _git(*arguments: str) -> bytes:
    git = programs.find("git", package="git")
    return subprocess.run([git, *arguments], cwd=ROOT, check=True, capture_output=True).stdout
