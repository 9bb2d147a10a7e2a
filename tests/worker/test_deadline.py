"""The end of a process whose time is over."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from unittest.mock import Mock

import pytest

from pgqueue import signals
from pgqueue.worker import deadline
from pgqueue.worker.deadline import Deadline
from tests.eventually import eventually

SOON, LATER = timedelta(seconds=0.1), timedelta(hours=1)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    return ends


def test_it_ends_the_process_when_its_time_is_over(ends: list[int]) -> None:
    Deadline().shorten(SOON)

    eventually(lambda: ends == [1])


def test_it_does_so_though_saying_that_takes_for_ever(
    ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "LOGGING", 0.05)
    heard = threading.Event()

    def listen(**kwargs: object) -> None:
        heard.wait(10)

    signals.worker_cut_short.connect(listen)
    Deadline().shorten(SOON)

    try:
        eventually(lambda: ends == [1])
    finally:
        heard.set()
        # Or it would end the tests themselves, once they have their own `_exit` back.
        eventually(lambda: ends == [1, 1])
        signals.worker_cut_short.disconnect(listen)


@pytest.mark.parametrize("stream", [None, Mock(flush=Mock(side_effect=BrokenPipeError))])
def test_a_process_exits_at_once_though_its_output_is_broken(
    ends: list[int], monkeypatch: pytest.MonkeyPatch, stream: Mock | None
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(sys, "stdout", stream)
        with suppress(BaseException):
            deadline.exit_at_once(75)

    assert ends == [75]


def test_it_is_never_made_longer(ends: list[int]) -> None:
    one = Deadline()
    one.shorten(SOON)

    one.shorten(LATER)

    eventually(lambda: ends == [1])


def test_it_can_be_made_shorter(ends: list[int]) -> None:
    one = Deadline()
    one.shorten(LATER)

    one.shorten(SOON)

    eventually(lambda: ends == [1])


def test_it_asks_by_itself_how_long_there_is(ends: list[int]) -> None:
    # Who would say it may be waiting for the database.
    left: list[timedelta] = []
    one = Deadline(shutdown=Mock(time_left=lambda: left[0] if left else None))
    one.shorten(LATER)

    left.append(SOON)

    eventually(lambda: ends == [1])


def test_it_can_be_let_go(ends: list[int]) -> None:
    one = Deadline()
    one.shorten(SOON)
    one.cancel()
    until = monotonic() + 3 * SOON.total_seconds()

    eventually(lambda: monotonic() > until)

    assert ends == []


def test_it_needs_no_thread_in_the_end(ends: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    one = Deadline()
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no room")))

    one.shorten(SOON)

    eventually(lambda: ends == [1])
