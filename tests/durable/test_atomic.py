"""Atomic steps and blocks: what they write, their result and their end are one commit."""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connections

from pgqueue.database.connections import connect
from pgqueue.durable import DurableContext
from pgqueue.engine import lease
from pgqueue.exceptions import StepFailed
from pgqueue.models import Message, Step
from pgqueue.worker.timeouts import absorb
from tests.durable.running import Oops, calls, durable, kept, names, returned, run

pytestmark = pytest.mark.django_db(transaction=True)


def groups() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


def write(name: str) -> str:
    Group.objects.create(name=name)
    calls.append(name)
    return name.upper()


def lose(id: int) -> None:
    """Have another worker take the message, beside the run that has it."""
    with connect("default", name="test") as other:
        other.execute(
            "UPDATE pgqueue_message SET lease_until = statement_timestamp() - interval '1 hour' "
            "WHERE id = %s",
            [id],
        )
        assert [each.id for each in lease.rescue(other, max_lost=3)] == [id]


class TestAnAtomicStep:
    def test_commits_its_writes_with_its_result(self) -> None:
        def checks() -> tuple[list[str], list[str]]:
            with connect("default", name="test") as other:
                steps = other.execute("SELECT name FROM pgqueue_step ORDER BY number").fetchall()
                found = other.execute("SELECT name FROM auth_group").fetchall()
            return [name for (name,) in steps], [name for (name,) in found]

        def write_and_look(name: str) -> None:
            write(name)
            calls.append(checks())

        @durable
        def works(run: DurableContext) -> None:
            run.step(write_and_look, "a", atomic=True)
            calls.append(checks())

        returned(works.enqueue())

        assert calls == ["a", ([], []), (["write_and_look"], ["a"])]

    def test_that_fails_leaves_nothing(self) -> None:
        def write_and_fail() -> None:
            write("a")
            raise Oops

        @durable
        def works(run: DurableContext) -> str:
            try:
                run.step(write_and_fail, atomic=True, retries=1, backoff=[0])
            except StepFailed:
                return run.step(write, "b", atomic=True)
            raise AssertionError

        assert returned(works.enqueue()) == "B"
        assert calls == ["a", "a", "b"]
        assert groups() == ["b"]

    def test_of_a_run_that_has_lost_its_message_writes_nothing(self) -> None:
        @durable
        def works(run: DurableContext) -> str:
            if run.attempt == 1:
                lose(run.claim.id)
            return run.step(write, "a", atomic=True)

        assert returned(works.enqueue()) == "A"
        assert calls == ["a"]
        assert groups() == ["a"]

    @pytest.mark.parametrize("is_block", [False, True])
    def test_whose_message_another_transaction_has_locked_ends_the_run(
        self, is_block: bool
    ) -> None:
        def step(run: DurableContext) -> None:
            if not is_block:
                run.step(write, "a", atomic=True)
                return
            with run.atomic("write"):
                write("a")

        @durable
        def works(run: DurableContext) -> int:
            if run.attempt == 1:
                with connect("default", name="other") as other, other.transaction():
                    other.execute("SET LOCAL idle_in_transaction_session_timeout = '5s'")
                    other.execute(
                        "SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [run.claim.id]
                    )
                    step(run)
            step(run)
            return run.attempt

        result = works.enqueue()

        assert returned(result) == 2
        assert calls == ["a"]
        assert result.failures == 0

    def test_whose_message_is_to_be_rescued_meanwhile_keeps_it(self) -> None:
        def write_beside_a_rescue(id: int) -> None:
            write("a")
            with connect("default", name="test") as other:
                other.execute("SET lock_timeout = '5s'")
                assert lease.rescue(other, max_lost=3) == []

        @durable
        def works(run: DurableContext) -> None:
            Message.objects.filter(id=run.claim.id).update(lease_until="2000-01-01T00:00Z")
            run.step(write_beside_a_rescue, run.claim.id, atomic=True)

        returned(works.enqueue())

        assert groups() == ["a"]

    def test_is_called_again_after_a_conflict(self) -> None:
        def conflict() -> str:
            write("a")
            if len(calls) < 3:
                raise OperationalError from psycopg.errors.DeadlockDetected()
            return "done"

        @durable
        def works(run: DurableContext) -> str:
            return run.step(conflict, atomic=True, retries=0)

        result = works.enqueue()

        assert returned(result) == "done"
        assert (calls, groups()) == (["a"] * 3, ["a"])
        assert kept(result)["steps"][0]["tries"] == 1

    def test_keeps_the_side_values_before_it_through_a_conflict_at_its_commit(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []

        def conflict_once(self: Any) -> None:
            monkeypatch.undo()
            raise OperationalError from psycopg.errors.SerializationFailure()

        @durable
        def works(run: DurableContext) -> None:
            seen.append(run.random())
            if run.attempt == 1:
                monkeypatch.setattr(type(connections["default"]), "_commit", conflict_once)
            run.step(write, "a", atomic=True)
            run.sleep(0)

        result = works.enqueue()
        returned(result)

        assert calls == ["a", "a"]
        assert groups() == ["a"]
        assert seen[0] == seen[1]

    def test_has_no_end_where_its_commit_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(self: Any) -> None:
            self.rollback()
            raise IntegrityError("deferred")

        @durable(max_attempts=2, backoff=[0])
        def works(run: DurableContext) -> None:
            monkeypatch.setattr(type(connections["default"]), "_commit", refuse)
            try:
                with run.atomic("block"):
                    calls.append("block")
            finally:
                monkeypatch.undo()

        result = works.enqueue()

        assert run(result) == "dead"
        assert {each.exception_class_path for each in result.errors} == {
            "django.db.utils.IntegrityError"
        }
        assert calls == ["block"] * 2
        assert not Step.objects.exists()


class TestABlock:
    def test_is_done_once_and_keeps_its_result(self) -> None:
        @durable
        def works(run: DurableContext) -> list[int]:
            with run.atomic("first") as first:
                write("a")
                first.result = 1
            with run.atomic("second"):
                for name in "bc":
                    write(name)
            results = []
            for number in range(2):
                with run.atomic("loop") as step:
                    calls.append(number)
                    step.result = number
                results.append(step.result)
            run.sleep(0)
            return [first.result, *results]

        assert returned(works.enqueue()) == [1, 0, 1]
        assert calls == ["a", "b", "c", 0, 1]
        assert groups() == ["a", "b", "c"]

    def test_of_one_line_is_skipped(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            with run.atomic("one") as step:
                step.result = write("a")
            with run.atomic("two"):
                write("b")
            run.sleep(0)
            calls.append(step.result)

        returned(works.enqueue())

        assert calls == ["a", "b", "A"]

    def test_in_which_an_error_is_raised_is_begun_anew_by_the_next_run(self) -> None:
        @durable(backoff=[0])
        def works(run: DurableContext) -> None:
            with run.atomic("block"):
                write("a")
                if run.attempt == 1:
                    raise Oops

        result = works.enqueue()
        returned(result)

        assert calls == ["a", "a"]
        assert groups() == ["a"]
        assert len(result.errors) == 1

    def test_of_a_run_that_has_lost_its_message_is_not_begun(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            if run.attempt == 1:
                lose(run.claim.id)
            with run.atomic("block"):
                write("a")

        returned(works.enqueue())

        assert calls == ["a"]

    @pytest.mark.parametrize("value", [object(), "x" * 65_536])
    def test_whose_result_is_not_storable_leaves_nothing(self, value: Any) -> None:
        @durable(max_attempts=1)
        def works(run: DurableContext) -> None:
            with run.atomic("block") as step:
                write("a")
                step.result = value

        result = works.enqueue()

        assert run(result) == "dead"
        assert "InvalidResult" in result.errors[-1].traceback
        assert groups() == []

    def test_has_a_key_for_outside_systems(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            with run.atomic("block"):
                calls.append(run.idempotency_key)

        returned(works.enqueue())

        assert len(calls[0]) == 36

    @pytest.mark.parametrize("is_local", [True, False])
    def test_is_skipped_beside_a_debugger_whose_trace_goes_on(self, is_local: bool) -> None:
        lines: list[tuple[str, int]] = []

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code.co_name == "works":
                lines.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
                return trace if is_local else None
            return None

        @durable
        def works(run: DurableContext) -> None:
            with run.atomic("block") as step:
                write("a")
                step.result = 7
            run.sleep(0)
            calls.append(step.result)

        def debugged() -> None:
            # An error that a test has set in a thread that is blocked would stop any debugger.
            absorb(Oops)
            sys.settrace(trace)
            try:
                returned(works.enqueue())
                calls.append(sys.gettrace() is trace)
            finally:
                sys.settrace(None)

        debugged()

        assert calls == ["a", 7, True]
        if is_local:
            # The line behind the skipped block is traced again.
            assert [line for event, line in lines if event == "line"][-1] == 6

    def test_is_skipped_where_other_threads_run(self) -> None:
        results = []

        def works(run: DurableContext) -> None:
            with run.atomic("block"):
                write("a")
            run.sleep(0)

        task = durable(works)
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        results.append(returned(task.enqueue()))
        stop.set()
        thread.join()

        assert calls == ["a"]
        assert sys.gettrace() is None


def test_atomic_and_durable_exclude_each_other() -> None:
    with pytest.raises(Exception, match="a durable task is not one transaction"):
        durable(lambda_task, atomic=True)


def lambda_task(run: DurableContext) -> None:
    raise NotImplementedError


def test_names_of_blocks_are_counted() -> None:
    @durable
    def works(run: DurableContext) -> None:
        for _ in range(2):
            with run.atomic("block"):
                pass
        run.wait_for("go")

    result = works.enqueue()
    run(result)

    assert names(result) == ["block", "block#2", "wait:go"]


def test_a_block_is_skipped_while_an_asynchronous_error_is_pending_in_another_thread() -> None:
    """Python 3.11 looks for such errors at the beginning of each function, and did so for ever."""
    ending = threading.Event()

    def wait() -> None:
        with suppress(Oops):
            ending.wait()

    blocked = threading.Thread(target=wait)
    blocked.start()

    @durable
    def works(run: DurableContext) -> str:
        with run.atomic("first") as first:
            first.result = "kept"
        run.sleep(0)
        return str(first.result)

    result = works.enqueue()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(blocked.ident or 0), ctypes.py_object(Oops)
    )
    try:
        assert returned(result) == "kept"
    finally:
        ending.set()
        blocked.join()
