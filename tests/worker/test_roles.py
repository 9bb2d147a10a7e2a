"""Workers that do only a part of what a worker does, and what tells that they live."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from pgqueue.models import Duty, History, Message, Worker
from pgqueue.states import State
from tests import jobs
from tests.eventually import eventually
from tests.processes import manage, worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SIGTERM = signal.SIGTERM


class TestAWorkerWithoutThreads:
    def test_does_duties_and_runs_nothing(self) -> None:
        jobs.add.using(run_after=0.2).enqueue(1)
        with worker("--threads", "0") as process:
            eventually(lambda: Message.objects.filter(state=State.READY).exists())
            process.signal(SIGTERM)

            assert process.exit_status() == 0

        assert Message.objects.get().attempt == 0
        assert not Worker.objects.exists()

    def test_promotes_on_time_what_is_enqueued_meanwhile(self) -> None:
        with worker("--threads", "0"), worker("--no-duties"):
            eventually(lambda: Duty.objects.filter(name="promote", ran_at__isnull=False).exists())
            for count in (1, 2, 3):
                jobs.add.using(run_after=0.3).enqueue(1)
                eventually(lambda count=count: History.objects.count() == count)

        # One of them may come when this machine has no time; by chance, all three would not.
        late = [each.started_at - each.run_at for each in History.objects.all()]
        assert min(late).total_seconds() < 0.2

    def test_serves_no_channel(self) -> None:
        with worker("--threads", "0"):
            assert Worker.objects.get().channels == []


class TestAWorkerWithoutDuties:
    def test_runs_and_does_no_duty(self) -> None:
        jobs.add.enqueue(1)
        jobs.add.using(run_after=0.01).enqueue(2)
        with worker("--no-duties", "--drain") as process:
            assert process.exit_status() == 0

        assert History.objects.count() == 1
        assert not Duty.objects.filter(ran_at__isnull=False).exists()


class TestTheLivenessFile:
    @pytest.mark.parametrize("processes", ["1", "2"])
    def test_is_touched_while_all_is_well(self, tmp_path: Path, processes: str) -> None:
        path = tmp_path / "alive"
        with worker("--liveness-file", str(path), "--processes", processes):
            eventually(path.exists)
            path.unlink()
            eventually(path.exists)

    def test_is_let_alone_while_a_service_does_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "alive"
        with worker("--liveness-file", str(path)) as process:
            eventually(path.exists)

            jobs.end_a_thread.enqueue("settler")

            eventually(lambda: time.time() - path.stat().st_mtime > 3)
            assert process.popen.poll() is None


class TestAsItIsToldTo:
    def test_queue_name_is_another_word_for_channel(self) -> None:
        jobs.add.enqueue(1)
        jobs.mail.enqueue("a@example.org")

        done = manage("runworker", "--queue-name", "mail", "--drain", forked=False)

        assert done.returncode == 0, done.stderr
        assert History.objects.get().channel == "mail"

    def test_pgqueue_worker_is_the_same_command(self) -> None:
        jobs.add.enqueue(1)

        done = manage("pgqueue_worker", "--drain")

        assert done.returncode == 0, done.stderr
        assert History.objects.exists()

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--threads", "0", "--async", "5"], "--async needs --threads"),
            (["--threads", "0", "--no-duties"], "would do nothing"),
            (["--processes", "0"], "a whole number from 1 to 1000"),
            (["--async=-1"], "a whole number from 0"),
            (["--max-memory", "much"], "a whole number, 1 or more"),
        ],
    )
    def test_what_cannot_be_is_said_in_a_sentence(self, arguments: list[str], said: str) -> None:
        done = manage("runworker", *arguments)

        assert done.returncode != 0
        assert said in done.stderr
        assert "Traceback" not in done.stderr
