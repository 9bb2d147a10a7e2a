"""A deploy: workers and producers of two versions at once, on the newer one's tables."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.harness.processes import Process
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually
from tests.upgrade import first

pytestmark = pytest.mark.chaos

OURS = Path(__file__).parent
SETTLED_BY = """
SELECT count(*) FROM pgqueue_history
WHERE claimed_at > %s AND worker_id IN (SELECT id FROM pgqueue_worker WHERE pid = %s)
"""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A checkout of the first version, with this suite's tasks."""
    root = tmp_path / "before"
    root.mkdir()
    first.check_out(root)
    which = [sys.executable, "-c", "import pgqueue; print(pgqueue.__file__)"]
    assert str(root).encode() in subprocess.run(which, cwd=root, capture_output=True).stdout
    for name in ("__init__.py", "tasks.py", "producer.py"):
        shutil.copy(OURS / name, root / "tests" / "chaos" / name)
    return root


def test_old_and_new_workers_and_producers_share_one_schema(stage: Stage, before: Path) -> None:
    stage.producer(rate=80)
    stage.producer(rate=80, root=before)
    old = [stage.worker(root=before) for _ in range(2)]
    stage.settles(100)

    # One after the other makes way: the first gently, the second not.
    with stage.fault():
        new = stage.worker()
        old[0].signal(signal.SIGTERM)
        assert old[0].exit_status() == 0
    stage.expect_dead(old[0])
    work_side_by_side(stage, old[1], new)
    with stage.fault():
        stage.kill(old[1])
    # And back again.
    work_side_by_side(stage, stage.worker(root=before), new)

    stage.end()
    assert not any("failed and will try again" in each.log for each in stage.workers)


def work_side_by_side(stage: Stage, *workers: Process) -> None:
    """Wait until each of them has settled some of what it claims from now on."""
    (now,) = stage.ask("SELECT clock_timestamp()")
    for worker in workers:
        eventually(
            lambda worker=worker: stage.ask(SETTLED_BY, now, worker.pid) > (50,),
            within=60,
            what=f"{worker.name} has its share",
        )
