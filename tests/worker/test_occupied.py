"""For how long none of a worker's threads has been free, and who is told."""

from __future__ import annotations

import signal
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pgqueue.worker import executor as module
from pgqueue.worker.executor import Occupied
from pgqueue.worker.pipeline import Pipeline
from tests import jobs
from tests.eventually import eventually
from tests.metrics.test_port import answers, get
from tests.processes import worker
from tests.system import free_port


class TestSeconds:
    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
        clock = SimpleNamespace(now=1000.0)
        monkeypatch.setattr(module, "monotonic", lambda: clock.now)
        return clock

    def test_count_from_when_the_last_slot_was_taken(self, clock: SimpleNamespace) -> None:
        buffer: Any = SimpleNamespace(taken=1, running=1)
        occupied = Occupied(2, buffer)

        clock.now += 10
        assert occupied.seconds() == 0
        buffer.taken = buffer.running = 2
        assert occupied.seconds() == 0
        clock.now += 10
        assert occupied.seconds() == 10

        buffer.taken = 3  # one has ended meanwhile, and another has begun
        assert occupied.seconds() == 0
        clock.now += 5
        assert occupied.seconds() == 5
        buffer.running = 1
        assert occupied.seconds() == 0

    def test_are_those_of_a_blocked_loop_though_it_has_places(self) -> None:
        free, blocked = Mock(busy_for=lambda: 0.0), SimpleNamespace(blocked_for=30.0)
        pipeline: Any = SimpleNamespace(executors=[free], _loop_watch=[blocked])

        assert Pipeline.busy_for(pipeline) == 30


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_without_a_free_thread_is_not_alive_for_who_said_how_long(
    processes: str, tmp_path: Path
) -> None:
    port, file = free_port(), tmp_path / "alive"
    arguments = ("--threads", "1", "--processes", processes, "--metrics-port", str(port))
    with worker(*arguments, "--max-busy", "1", "--liveness-file", str(file)) as process:
        eventually(lambda: answers(port, "/livez") == 200)
        jobs.sleep.enqueue_many([(60,)] * int(processes))

        eventually(lambda: answers(port, "/livez") == 503, within=20)
        assert "no thread has been free for" in get(port, "/livez")[1]
        if processes == "1":  # a supervisor waits for longer before it replaces a process
            eventually(lambda: time() - file.stat().st_mtime > 3, within=20)
        process.signal_group(signal.SIGKILL)
        process.exit_status()
