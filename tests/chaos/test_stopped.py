"""Workers that are stopped for longer than their leases last, and go on."""

from __future__ import annotations

import re
import signal

import pytest

from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

LEASE = 1.0


# But for what it has locked: no other worker has an atomic task's message before its transaction
# ends.
HOLDS = """
SELECT count(*) FROM (
    SELECT FROM pgqueue_message
    WHERE worker_id IN (SELECT id FROM pgqueue_worker WHERE pid = %s)
    FOR UPDATE SKIP LOCKED) found
"""


@pytest.mark.nightly
def test_a_worker_that_was_stopped_beyond_its_lease_is_fenced(stage: Stage) -> None:
    for _ in range(2):
        stage.producer(rate=120)
    workers = [stage.worker(PGQUEUE_LEASE=str(LEASE)) for _ in range(2)]
    stage.settles(50)

    for _ in range(2):
        for worker in workers:
            with stage.fault():
                stage.stop_amid(worker, lambda worker=worker: stage.ask(HOLDS, worker.pid) > (0,))
                eventually(
                    lambda worker=worker: stage.ask(HOLDS, worker.pid) == (0,),
                    within=40,
                    what=stage.what_is_left(),
                )
                nap(stage.random.uniform(0, 0.5))
                worker.signal(signal.SIGCONT)

    stage.end()
    # It had something to say of what was no longer its own.
    assert any("the lease was lost" in worker.log for worker in workers)


@pytest.mark.chaos
def test_a_task_that_was_stopped_beyond_its_lease_is_not_recorded(stage: Stage) -> None:
    stage.producer(rate=60)
    numbers = stage.numbers("plain", 1)
    first = stage.worker(PGQUEUE_LEASE=str(LEASE))
    stage.enqueue("stops_midway", *numbers, str(stage.folder), 3)
    eventually((stage.folder / f"{numbers[0]} took effect").exists)

    with stage.fault():
        first.signal(signal.SIGSTOP)
        stage.worker(PGQUEUE_LEASE=str(LEASE))
        eventually(lambda: stage.ask(HOLDS, first.pid) == (0,), what="the other takes over")
    first.signal(signal.SIGCONT)
    lost = r"stops_midway #\d+: the lease was lost"
    eventually(lambda: re.search(lost, first.log), what="it learns that it was fenced")

    stage.end()
    assert stage.ask(
        "SELECT attempt, failures, lost FROM pgqueue_history "
        "WHERE task = 'tests.chaos.tasks.stops_midway'"
    ) == (2, 0, 1)
