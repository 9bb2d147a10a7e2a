"""A wake-up: it ends a wait, whichever thread sets it and whatever else is waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pgqueue.threads.wakeup import Wakeup

WITHIN = 30.0


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    """An open one."""
    wakeup = Wakeup()
    yield wakeup
    wakeup.close()


def test_another_thread_ends_a_wait(wakeup: Wakeup) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wakeup.wait, WITHIN)

        wakeup.set()

        assert waiting.result(WITHIN) == [wakeup]


def test_a_signal_handler_ends_a_wait(wakeup: Wakeup) -> None:
    previous = signal.signal(signal.SIGALRM, lambda number, frame: wakeup.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)

        assert wakeup.wait(WITHIN) == [wakeup]
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_one_that_is_set_before_a_wait_ends_that_one_and_no_later_one(wakeup: Wakeup) -> None:
    for _ in range(1000):
        wakeup.set()

    assert wakeup.wait(WITHIN) == [wakeup]
    assert wakeup.wait(0) == []


def test_a_wait_ends_when_its_time_is_over(wakeup: Wakeup) -> None:
    began = time.monotonic()

    assert wakeup.wait(0.02) == []
    assert 0.02 <= time.monotonic() - began < WITHIN


def test_a_wait_returns_those_that_are_readable(wakeup: Wakeup) -> None:
    reader, writer = os.pipe()
    silent, held_open = os.pipe()
    try:
        os.write(writer, b".")

        assert wakeup.wait(WITHIN, reader, silent) == [reader]
    finally:
        for each in (reader, writer, silent, held_open):
            os.close(each)


def test_setting_it_never_waits_though_nothing_reads(wakeup: Wakeup) -> None:
    for _ in range(100_000):
        wakeup.set()

    assert wakeup.wait(0) == [wakeup]


def test_setting_a_closed_one_does_nothing(wakeup: Wakeup) -> None:
    wakeup.close()

    wakeup.set()
