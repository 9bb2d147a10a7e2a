"""The parts of the package that can be taken out of it: the rest goes on without them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import ROOT, database_url

OF_GUESTS: dict[str, tuple[str, ...]] = {
    "admin": ("templates/admin", "static"),
    "arrow": ("cluster", "lake", "spark"),
    "backend": (),
    "checkins": (),
    "cluster": (),
    "compat": ("management/commands/pgqueue_from_celery.py",),
    "inbox": (),
    "lake": (),
    "metrics": (),
    "replication": ("management/commands/pgqueue_replication.py",),
    "spark": ("cluster",),
    "sse": (),
    "telemetry": (),
    "webhooks": (),
}
"""Each guest, and the files outside of its room that are only for it."""
OF_THE_CORE = ("claim", "enqueue", "held", "lease", "settle")
"""Tests of the engine that need no other app than pgqueue."""


@pytest.fixture
def copy_without(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the package without some of its guests."""

    def copy(*guests: str) -> Path:
        for each in ("tests", "testproject"):
            (tmp_path / each).symlink_to(ROOT / each)
        shutil.copytree(ROOT / "pgqueue", tmp_path / "pgqueue")
        for guest in guests:
            for each in (guest, *OF_GUESTS[guest]):
                found = tmp_path / "pgqueue" / each
                shutil.rmtree(found) if found.is_dir() else found.unlink(missing_ok=True)
        return tmp_path

    return copy


def run(copy: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.timeout(300)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "guests",
    [
        pytest.param(list(OF_GUESTS), id="all", marks=pytest.mark.slow),
        *(pytest.param([each], id=each, marks=pytest.mark.nightly) for each in OF_GUESTS),
    ],
)
def test_the_package_works_without(guests: list[str], copy_without: Callable[..., Path]) -> None:
    copy = copy_without(*guests)

    visit = run(
        copy, "-m", "tests.guests.visit",
        DJANGO_SETTINGS_MODULE="tests.guests.settings", DATABASE_URL=database_url(),
    )  # fmt: skip

    assert visit.returncode == 0, visit.stderr
    assert str(copy) not in visit.stderr


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_core_passes_its_own_tests_without_any_guest(
    copy_without: Callable[..., Path],
) -> None:
    copy = copy_without(*OF_GUESTS)
    shutil.copy(ROOT / "setup.cfg", copy)

    tests = run(
        copy, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
        "--ds", "tests.guests.settings", *(f"tests/engine/test_{each}.py" for each in OF_THE_CORE),
        DATABASE_URL=f"{database_url()}_core",
    )  # fmt: skip

    assert tests.returncode == 0, tests.stdout + tests.stderr
