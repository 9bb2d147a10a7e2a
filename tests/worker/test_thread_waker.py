"""How many threads are awake: no more than have something to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import Mock

import pytest

from pgqueue.worker.buffer import Buffer
from pgqueue.worker.threads import ThreadWaker
from tests.eventually import eventually


@contextmanager
def at_work(seconds: float, *, count: int) -> Iterator[tuple[Buffer, set[int]]]:
    """Have eight threads take; yield what they take from, and who took something."""
    buffer = Buffer(8, Mock())
    waker = ThreadWaker(buffer)
    took: set[int] = set()

    def take() -> None:
        while buffer.take() is not None:
            took.add(threading.get_ident())
            if seconds:
                time.sleep(seconds)
            buffer.done()

    for _ in range(8):
        threading.Thread(target=take, daemon=True).start()
    eventually(lambda: buffer._idle == 8)
    waker.start()
    buffer.put([object()] * count)  # type: ignore[list-item]
    yield buffer, took
    buffer.close()
    waker.stop()
    waker.stopped(timedelta(seconds=5))


@pytest.mark.parametrize("seconds", [0.001, 0.05])
def test_all_are_awake_where_tasks_wait(seconds: float) -> None:
    with at_work(seconds, count=500) as (_, took):
        eventually(lambda: len(took) == 8)


def test_few_are_awake_where_tasks_take_nothing() -> None:
    with at_work(0, count=50_000) as (buffer, took):
        eventually(lambda: not len(buffer))

    assert len(took) < 8


def test_one_is_woken_at_once() -> None:
    with at_work(60, count=1) as (_, took):
        eventually(lambda: len(took) == 1)
