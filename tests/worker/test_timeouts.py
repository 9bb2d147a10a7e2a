"""Runs that are over their time, and do not end by that."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import timedelta
from functools import partial
from itertools import count
from time import monotonic
from types import FrameType
from typing import Any
from unittest.mock import Mock

import pytest

from pgqueue import signals
from pgqueue.exceptions import TaskTimeout
from pgqueue.tasks.limits import TimeLimit
from pgqueue.worker import runner
from pgqueue.worker.leases import LeasedMessage, Run
from pgqueue.worker.runner import Runner
from pgqueue.worker.timeouts import CLEANING_UP, Timeouts


@pytest.fixture
def leased() -> LeasedMessage:
    return LeasedMessage(Mock(), monotonic())


def test_a_coroutine_that_goes_on_after_its_time_loses_its_lease(leased: LeasedMessage) -> None:
    timeouts = Timeouts()

    with timeouts.outlived(leased, monotonic() - CLEANING_UP):
        timeouts.tick()

        assert leased.overdue


def test_one_that_ends_in_time_does_not(leased: LeasedMessage) -> None:
    timeouts = Timeouts()

    with timeouts.outlived(leased, monotonic() - CLEANING_UP / 2):
        timeouts.tick()
    timeouts.tick()

    assert not leased.overdue


class TestABound:
    def test_that_is_passed_is_told_once(self, leased: LeasedMessage) -> None:
        timeouts, told = Timeouts(), Mock()

        with timeouts.bounded(leased, monotonic(), told):
            timeouts.tick()
            timeouts.tick()

        told.assert_called_once_with()
        assert leased.overdue

    def test_that_is_kept_is_not_told(self, leased: LeasedMessage) -> None:
        timeouts, told = Timeouts(), Mock()

        with timeouts.bounded(leased, monotonic() + 60, told):
            assert leased.is_bounded
            assert timeouts.tick().total_seconds() == pytest.approx(60, abs=5)
        timeouts.tick()

        told.assert_not_called()
        assert not leased.is_bounded

    def test_tells_where_a_run_is_that_ignores_its_timeout(self, leased: LeasedMessage) -> None:
        timeouts, told = Timeouts(), Mock()
        heard: list[str] = []

        def hear(stack: str, **kwargs: object) -> None:
            heard.append(stack)

        signals.timeout_ignored.connect(hear)
        try:
            with timeouts.bounded(leased, monotonic() + 60, told, due=monotonic() - CLEANING_UP):
                timeouts.tick()
                timeouts.tick()
        finally:
            signals.timeout_ignored.disconnect(hear)

        [stack] = heard
        assert "in test_tells_where_a_run_is_that_ignores_its_timeout" in stack


class Soon(TaskTimeout):
    """A limit before the last."""


def test_a_limit_that_is_not_the_last_leaves_the_lease_alone(leased: LeasedMessage) -> None:
    timeouts = Timeouts()

    with pytest.raises(Soon), timeouts.limit(leased, monotonic(), Soon, is_final=False):
        timeouts.tick()
        sum(range(100_000))
    assert not leased.overdue

    with pytest.raises(TaskTimeout), timeouts.limit(leased, monotonic()):
        timeouts.tick()
        sum(range(100_000))
    assert leased.overdue


def test_of_two_limits_that_are_over_at_once_the_last_is_raised(leased: LeasedMessage) -> None:
    timeouts = Timeouts()
    begun, ticked = threading.Lock(), threading.Lock()

    def tick() -> None:
        begun.acquire()
        timeouts.tick()
        ticked.release()

    for _ in range(20):
        begun.acquire()
        ticked.acquire()
        ticking = threading.Thread(target=tick)
        ticking.start()
        with (
            pytest.raises(TaskTimeout) as raised,
            timeouts.limit(leased, monotonic()),
            timeouts.limit(leased, monotonic(), Soon, is_final=False),
        ):
            begun.release()
            ticked.acquire()  # in C: no error is raised before both are set
            sum(range(100_000))
        ticking.join()
        begun.release()
        ticked.release()
        assert raised.type is TaskTimeout


def test_a_limit_that_is_not_the_last_replaces_no_final_one_that_is_not_raised_yet(
    leased: LeasedMessage,
) -> None:
    timeouts = Timeouts()
    begun, ticked = threading.Lock(), threading.Lock()
    begun.acquire()
    ticked.acquire()

    def tick_twice() -> None:
        begun.acquire()
        timeouts.tick()
        [later] = timeouts._runs
        later.deadline = monotonic()
        timeouts.tick()
        ticked.release()

    ticking = threading.Thread(target=tick_twice)
    ticking.start()
    with (
        pytest.raises(TaskTimeout) as raised,
        timeouts.limit(leased, monotonic()),
        timeouts.limit(leased, monotonic() + 60, Soon, is_final=False),
    ):
        begun.release()
        ticked.acquire()  # in C: no error is raised before the second tick
        sum(range(100_000))
    ticking.join()

    assert raised.type is TaskTimeout


def test_no_limit_outlives_its_run_whose_blocks_an_error_has_kept_from_their_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A soft limit may strike in `ExitStack.__exit__`, before this calls anything."""
    left: list[ExitStack] = []

    class StruckStack(ExitStack):
        def __exit__(self, *raised: object) -> bool:
            left.append(self)
            raise Soon

    monkeypatch.setattr(runner, "ExitStack", StruckStack)
    timeouts, quarantine = Timeouts(), Mock()
    runs = Runner("default", timeouts, Mock(), quarantine, Mock(), grace=timedelta(seconds=60))
    task = Mock(limits=[TimeLimit(timedelta(seconds=60), TaskTimeout)], hard_timeout=None)
    task.hard_limit.return_value = timedelta(seconds=90)
    leased = LeasedMessage(Mock(), monotonic())

    def run(begun: Run) -> None:
        with pytest.raises(Soon), runs.limited(begun):
            assert timeouts._runs

    monkeypatch.setattr(Runner, "_begin", lambda self, each: Run(task, Mock(), each))
    monkeypatch.setattr(Runner, "_run", lambda self, begun: run(begun))
    runs.run(leased)

    assert left
    assert (timeouts._runs, timeouts._bounds, leased.is_bounded) == (set(), set(), False)


def test_a_limit_leaves_no_error_for_which_python_looks(leased: LeasedMessage) -> None:
    """A traced function of Python 3.11 never begins, while an error is pending in any thread."""
    timeouts = Timeouts()

    def traced() -> str:
        return "ended"

    for deadline in (monotonic() + 60, monotonic()):
        with suppress(TaskTimeout), timeouts.limit(leased, deadline):
            timeouts.tick()
        before = sys.gettrace()
        sys.settrace(lambda frame, event, argument: None)
        try:
            assert traced() == "ended"
        finally:
            sys.settrace(before)


@pytest.mark.parametrize("way", ["limit", "bounded", "outlived"])
def test_a_limit_that_strikes_while_another_begins_leaves_the_service_working(
    leased: LeasedMessage, way: str
) -> None:
    timeouts = Timeouts()
    timeouts.start()
    more = {"late": Mock()} if way == "bounded" else {}
    begin = partial(getattr(timeouts, way), leased, monotonic() + 60, **more)

    striking = threading.Thread(target=strike_at_each_step, args=[begin], daemon=True)
    striking.start()
    striking.join(10)

    assert not striking.is_alive()
    assert (timeouts._runs, timeouts._bounds, leased.is_bounded) == (set(), set(), False)
    timeouts.stop()
    assert timeouts.stopped(timedelta(seconds=5))


def strike_at_each_step(begin: Callable[[], AbstractContextManager[None]]) -> None:
    """Enter a block once for each step in `wake()`, and raise Soon at this step."""
    for number in count(1):
        left = number

        def trace(frame: FrameType | None, event: str, argument: object) -> Any:
            nonlocal left
            caller = frame
            while caller and caller.f_code is not Timeouts.wake.__code__:
                caller = caller.f_back
            left -= caller is not None
            if not left:
                raise Soon
            return trace

        sys.settrace(trace)
        try:
            with suppress(Soon), begin():
                sys.settrace(None)
        finally:
            sys.settrace(None)
        if left:
            return
