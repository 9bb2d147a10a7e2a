"""A deploy: workers and producers of two versions at once, on the newer one's tables."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from uuid import UUID

import pytest

from tests.chaos.harness.stage import Stage
from tests.processes import ROOT

pytestmark = pytest.mark.chaos

BEFORE = "5c3a833"
"""The first commit that works on the tables of migration 0003, as whoever deployed it runs it."""
OURS = Path(__file__).parent


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A checkout of the version before, with this suite's settings and tasks."""
    root = tmp_path / "before"
    root.mkdir()
    git = shutil.which("git") or "git"
    archive = subprocess.run([git, "archive", BEFORE], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(root, filter="data")
    (root / "tests" / "chaos").mkdir()
    for name in ("__init__.py", "settings.py", "tasks.py", "producer.py"):
        shutil.copy(OURS / name, root / "tests" / "chaos" / name)
    return root


def test_old_and_new_workers_and_producers_share_one_schema(stage: Stage, before: Path) -> None:
    stage.producer(rate=80)
    stage.producer(rate=80, root=before)
    old = [stage.worker(root=before) for _ in range(2)]
    stage.settles(100)
    old_ids = ids(stage)

    # One after the other makes way: the first gently, the second not.
    with stage.fault():
        stage.worker()
        old[0].signal(signal.SIGTERM)
        assert old[0].exit_status() == 0
    stage.expect_dead(old[0])
    stage.settles(200)
    with stage.fault():
        stage.kill(old[1])
    new = ids(stage)
    # And back again.
    stage.worker(root=before)
    stage.settles(200)

    stage.end()
    assert settled_by(stage, new) > 0
    assert settled_by(stage, old_ids) > 0


def ids(stage: Stage) -> list[UUID]:
    """Return the ids of those who live."""
    (found,) = stage.ask(
        "SELECT array_agg(id) FROM pgqueue_worker WHERE pid = ANY (%s)",
        [each.pid for each in stage.living()],
    )
    return list(found)


def settled_by(stage: Stage, workers: list[UUID]) -> int:
    """Return how many messages were settled that these had claimed."""
    query = "SELECT count(*) FROM pgqueue_history WHERE worker_id = ANY (%s)"
    return int(stage.ask(query, workers)[0])
