"""Tasks that fork: their children end, and harm neither the worker nor its sessions."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from django.contrib.auth.models import Group

from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task, TaskResult
from tests import forking_jobs as jobs
from tests.eventually import eventually
from tests.processes import manage, worker
from tests.worker.test_processes import has_locked_its_row

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

STATUS = {"return": 0, "raise": 1, "exit": 3, "close": 0, "close all": 0, "write": 0}


def drain(*arguments: str) -> str:
    """Run a worker of one thread, in a process of its own, until nothing is left."""
    ended = manage("runworker", "--drain", "--threads", "1", *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def returned(result: TaskResult[Any]) -> Any:
    result.refresh()
    assert result.status == Outcome.SUCCEEDED, result.errors
    return result.return_value


class TestAChild:
    @pytest.mark.parametrize("end", STATUS)
    @pytest.mark.parametrize("task", [jobs.fork, jobs.fork_atomically])
    def test_ends_where_its_task_does_and_leaves_the_session_to_its_parent(
        self, task: Task[[str], list[int]], end: str
    ) -> None:
        forked, after = task.enqueue(end), jobs.pid.enqueue()

        drain()

        status, before, now = returned(forked)
        assert (status, before) == (STATUS[end], now)
        assert returned(after)
        assert History.objects.count() == 2
        by_children = Group.objects.filter(name__startswith="by a child")
        assert [each.name != f"by a child in {now}" for each in by_children] == [True] * (
            end == "write"
        )

    @pytest.mark.parametrize("end", ["return", "raise", "exit"])
    @pytest.mark.parametrize("arguments", [["--async", "5"], []])
    def test_of_an_async_task_does_so_too(self, arguments: list[str], end: str) -> None:
        forked, after = jobs.fork_async.enqueue(end), jobs.pid.enqueue()

        drain(*arguments)

        status, before, now = returned(forked)
        assert (status, before) == (STATUS[end], now)
        assert returned(after)

    @pytest.mark.parametrize("arguments", [["--async", "5"], []])
    def test_that_awaits_ends_before_any_other_task_goes_on_in_it(
        self, arguments: list[str]
    ) -> None:
        beside = jobs.leave_each_turn.enqueue(20)
        forked = jobs.fork_and_await.enqueue()

        log = drain(*arguments)

        assert returned(forked) == 1
        assert "can't await" in log
        assert returned(beside) is None
        assert Group.objects.count() == 20

    def test_does_not_hold_the_lease_of_its_parents_transaction(self) -> None:
        jobs.leave_a_child.enqueue(30)
        with worker("--threads", "1") as process:
            eventually(has_locked_its_row)
            eventually(Group.objects.exists, what="no child was forked")
            process.popen.kill()
            process.popen.wait(10)

            eventually(lambda: not has_locked_its_row(), within=5)
            assert Message.objects.get().state == State.RUNNING
            os.killpg(process.popen.pid, signal.SIGKILL)


class TestMultiprocessing:
    @pytest.mark.parametrize("task", [jobs.terminate, jobs.terminate_atomically])
    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_a_process_that_is_terminated_ends_at_once(
        self, task: Task[[str], list[float]], method: str
    ) -> None:
        result = task.enqueue(method)

        drain()

        status, seconds = returned(result)
        assert status == -signal.SIGTERM
        assert seconds < 3

    def test_a_pool_that_is_left_ends_what_it_runs(self) -> None:
        result = jobs.time_out_in_a_pool.enqueue()

        drain()

        assert returned(result) == "timed out"

    @pytest.mark.parametrize(
        ("arguments", "method"),
        [
            ([], "fork"),
            ([], "spawn"),
            ([], "forkserver"),
            (["--processes", "2"], "fork"),
            pytest.param(["--processes", "2"], "spawn", marks=pytest.mark.nightly),
            pytest.param(["--processes", "2"], "forkserver", marks=pytest.mark.nightly),
        ],
    )
    def test_a_pool_works(self, arguments: list[str], method: str) -> None:
        result = jobs.squares.enqueue(method)

        drain(*arguments)

        assert returned(result) == [0, 1, 4, 9]

    def test_a_child_asks_the_database_in_a_session_of_its_own(self) -> None:
        result = jobs.count_in_children.enqueue()

        drain()

        assert returned(result) == [0, 0, 1]


@pytest.mark.parametrize("prepared", [True, False])
def test_a_program_begins_with_default_handlers(prepared: bool) -> None:
    result = jobs.run_a_program.enqueue(prepared=prepared)

    drain()

    assert returned(result) == ["0", True] or returned(result) == ["Handlers.SIG_DFL", True]
