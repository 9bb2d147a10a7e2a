"""Runs that no timeout can end: their process is replaced, and they have failed."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group

from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task, TaskResult
from pgqueue.worker.deadline import OVERRUN
from tests import jobs
from tests.eventually import eventually
from tests.processes import starting, worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SUPERVISED = ("--max-tasks", "100000")


def has_failed(result: TaskResult[Any], failures: int = 1) -> bool:
    result.refresh()
    return len(result.errors) == failures


class TestTwoThatAreStuck:
    def test_on_two_threads_are_not_the_last_that_the_worker_runs(self) -> None:
        stuck = [jobs.receive.enqueue() for _ in range(2)]
        with worker("--threads", "2", "--processes", "1", *SUPERVISED) as process:
            eventually(lambda: all(map(has_failed, stuck)), within=20)
            after = jobs.add.enqueue(1, 2)
            eventually(lambda: History.objects.exists(), within=20)
            process.signal(signal.SIGTERM)

            assert process.exit_status() == 0, process.log[-1500:]

        after.refresh()
        assert after.return_value == 3
        for each in stuck:
            each.refresh()
            assert each.status == State.DEAD
            assert "TaskTimeout" in each.errors[0].exception_class_path
        assert set(Message.objects.values_list("failures", "lost")) == {(1, 0)}
        assert "died with status" not in process.log
        assert len(re.findall(r"jobs.py\", line \d+, in _receive", process.log)) == 2


class TestASingleProcess:
    @pytest.mark.parametrize(
        ("task", "arguments"),
        [
            (jobs.receive, ["--threads", "2"]),
            (jobs.receive_atomically, ["--threads", "2"]),
            (jobs.receive_without_timeout, ["--threads", "2"]),
            (jobs.receive_in_the_loop, ["--threads", "2"]),
            (jobs.receive_in_the_loop, ["--threads", "1", "--async", "5"]),
            (jobs.go_on_in_the_loop, ["--threads", "1", "--async", "5"]),
        ],
    )
    def test_ends_with_a_status_of_its_own_and_hands_back_the_others(
        self, task: Task[[], None], arguments: list[str]
    ) -> None:
        beside = jobs.sleep.enqueue(60, "beside")
        stuck = task.enqueue()
        with starting(*arguments, "--grace", "1") as process:
            assert process.exit_status(within=30) == OVERRUN

        stuck.refresh()
        beside.refresh()
        assert (stuck.status, len(stuck.errors)) == (State.DEAD, 1)
        assert beside.status == State.READY
        assert set(Message.objects.values_list("failures", "lost")) == {(1, 0), (0, 0)}
        assert not Group.objects.filter(name="by a run that is stuck").exists()
        assert "has not ended at its hard timeout" in process.log

    def test_lets_the_others_end_within_its_grace_period(self) -> None:
        beside = jobs.sleep.enqueue(2)
        stuck = jobs.receive.enqueue()
        with starting("--threads", "2", "--grace", "20") as process:
            assert process.exit_status(within=30) == OVERRUN

        beside.refresh()
        stuck.refresh()
        assert (beside.status, stuck.status) == (Outcome.SUCCEEDED, State.DEAD)

    def test_is_well_as_long_as_it_gives_the_others_time(self, tmp_path: Path) -> None:
        beside = jobs.sleep.enqueue(60)
        stuck = jobs.receive.enqueue()
        alive = tmp_path / "alive"
        options = ("--threads", "2", "--grace", "20", "--liveness-file", str(alive))
        with starting(*options):
            eventually(lambda: has_failed(stuck), within=20)
            alive.unlink()

            eventually(alive.exists)

            beside.refresh()
            assert beside.status == State.RUNNING


def test_one_that_ends_by_itself_after_its_hard_timeout_is_no_success() -> None:
    beside = jobs.sleep.enqueue(3)
    late = jobs.outlast.enqueue(1)
    with starting("--threads", "2", "--grace", "20", "--verbosity", "2") as process:
        assert process.exit_status(within=30) == OVERRUN

    late.refresh()
    assert late.status == State.DEAD
    assert f"tests.jobs.sleep #{beside.id} succeeded" in process.log
    assert f"tests.jobs.outlast #{late.id} succeeded" not in process.log


def test_without_a_hard_timeout_it_is_the_grace_period_later_and_retried_but_not_for_ever() -> None:
    stuck = jobs.receive_by_default.enqueue()
    with worker("--threads", "1", *SUPERVISED, "--grace", "0", lease=3) as process:
        eventually(lambda: has_failed(stuck, 2), within=40)
        process.signal(signal.SIGTERM)
        process.exit_status()

    stuck.refresh()
    assert stuck.status == State.DEAD
    # The lease is shorter than the time until then, and was renewed.
    assert Message.objects.get().lost == 0
    assert "goes on after its timeout" in process.log
