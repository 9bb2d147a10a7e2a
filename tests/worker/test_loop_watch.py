"""An event loop that one of its tasks blocks: nothing else tells."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from unittest.mock import Mock

import pytest

from pgqueue import signals
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.eventloop import LOOKS, EventLoop, LoopWatch
from tests.eventually import eventually
from tests.hearing import heard


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    buffer = Buffer(1, Mock())
    loop = EventLoop(1, buffer, Mock(), Mock())
    loop.start()
    yield loop
    buffer.close()
    assert loop.stopped(timedelta(seconds=10))


def test_it_is_said_once_each_time(loop: EventLoop) -> None:
    watch = LoopWatch(loop)
    with heard(signals.loop_blocked, "stack") as stacks:
        for _ in range(2):
            has_begun, go = threading.Event(), threading.Event()

            def block(has_begun: threading.Event = has_begun, go: threading.Event = go) -> None:
                has_begun.set()
                go.wait()

            loop._loop.call_soon_threadsafe(block)
            has_begun.wait()
            for _ in range(3 * LOOKS):
                watch.tick()
            before = loop.turns
            go.set()
            eventually(lambda before=before: loop.turns > before)

    assert len(stacks) == 2
    assert all("in block" in stack for stack in stacks)


def test_one_that_goes_on_is_not_blocked_nor_one_that_has_ended(loop: EventLoop) -> None:
    watch = LoopWatch(loop)
    with heard(signals.loop_blocked, "stack") as stacks:
        for _ in range(2):
            for _ in range(LOOKS - 1):
                watch.tick()
            before = loop.turns
            eventually(lambda before=before: loop.turns > before)
        loop._buffer.close()
        eventually(lambda: loop.stopped(timedelta()))
        for _ in range(2 * LOOKS):
            watch.tick()

    assert stacks == []
