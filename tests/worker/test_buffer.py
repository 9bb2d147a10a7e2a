"""How much is claimed ahead of those who run it: what they will soon have begun, and no more."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any
from unittest.mock import Mock

import pytest

from pgqueue.models import Message
from pgqueue.states import State
from pgqueue.worker import buffer as module
from pgqueue.worker.buffer import LARGEST, STANDSTILL, Buffer
from tests import jobs
from tests.eventually import eventually
from tests.processes import worker

SLOTS = 8
MESSAGE: Any = object()


class Clock:
    """Time that passes as a test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def lows() -> list[str]:
    """A line for each time that there was room again."""
    return []


@pytest.fixture
def buffer(lows: list[str]) -> Buffer:
    return Buffer(SLOTS, Mock(make_room=lambda: lows.append("low")))


def begin(buffer: Buffer, count: int) -> None:
    """Have something put in, and taken at once."""
    buffer.put([MESSAGE] * count)
    for _ in range(count):
        buffer.take()


def end(buffer: Buffer, count: int) -> None:
    for _ in range(count):
        buffer.done()


class TestRoom:
    def test_is_a_message_for_each_slot_at_first(self, buffer: Buffer) -> None:
        assert buffer.room(10_000) == SLOTS

    def test_is_for_free_slots_only_while_nothing_ends(self, buffer: Buffer) -> None:
        begin(buffer, 5)
        assert buffer.room(10_000) == SLOTS - 5

        begin(buffer, SLOTS - 5)
        assert buffer.room(10_000) == 0

    def test_is_what_ended_in_the_last_second(self, buffer: Buffer, clock: Clock) -> None:
        for _ in range(30):
            begin(buffer, 100)
            end(buffer, 100)
            clock.now += 0.1
            buffer.room(10_000)

        assert buffer.room(10_000) == pytest.approx(1000, rel=0.1)

    def test_is_never_more_than_hides_anything(self, buffer: Buffer) -> None:
        begin(buffer, 50_000)
        end(buffer, 50_000)

        assert buffer.room(10_000) == LARGEST

    def test_is_no_more_than_asked_for(self, buffer: Buffer) -> None:
        assert buffer.room(3) == 3

    def test_is_not_inflated_by_long_runs_that_end_at_once(
        self, buffer: Buffer, clock: Clock
    ) -> None:
        buffer.room(10_000)
        begin(buffer, SLOTS)
        clock.now += 20
        buffer.room(10_000)
        clock.now += 0.001
        end(buffer, SLOTS)

        assert buffer.room(10_000) == SLOTS

    def test_is_said_again_when_half_is_used_up(self, buffer: Buffer, lows: list[str]) -> None:
        buffer.put([MESSAGE] * 5)
        assert buffer.room(10_000) == 0
        assert lows == []

        buffer.take()
        buffer.take()

        assert lows == ["low"]
        assert buffer.room(10_000) == SLOTS - 2

    def test_is_said_again_when_a_run_ended_meanwhile(
        self, buffer: Buffer, lows: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin(buffer, SLOTS)

        def per_second(ended: int) -> int:
            buffer.done()  # as a thread does just now
            return 0

        monkeypatch.setattr(buffer._pace, "per_second", per_second)

        assert buffer.room(10_000) == 1 or lows == ["low"]

    def test_may_be_there_although_all_are_busy(self) -> None:
        buffer = Buffer(SLOTS, Mock(), least=SLOTS)
        begin(buffer, SLOTS)

        assert buffer.room(10_000) == SLOTS


class TestStale:
    def test_is_what_waits_while_nothing_is_taken(self, buffer: Buffer, clock: Clock) -> None:
        begin(buffer, SLOTS)
        buffer.put([MESSAGE] * 100)
        assert buffer.stale() == []
        clock.now += STANDSTILL

        assert buffer.stale() == [MESSAGE] * 100
        assert len(buffer) == 0

    def test_is_nothing_as_long_as_now_and_then_one_is_taken(
        self, buffer: Buffer, clock: Clock
    ) -> None:
        begin(buffer, SLOTS)
        buffer.put([MESSAGE] * 100)
        for _ in range(10):
            clock.now += STANDSTILL - 1
            buffer.take()
            assert buffer.stale() == []

    def test_is_nothing_that_has_only_just_come(self, buffer: Buffer, clock: Clock) -> None:
        clock.now += 10 * STANDSTILL  # in which there was nothing to take
        buffer.put([MESSAGE])
        assert buffer.stale() == []
        clock.now += STANDSTILL

        assert buffer.stale() == [MESSAGE]

    def test_leaves_the_least(self, clock: Clock) -> None:
        buffer = Buffer(SLOTS, Mock(), least=SLOTS)
        begin(buffer, SLOTS)
        buffer.put([MESSAGE] * 100)
        buffer.stale()
        clock.now += STANDSTILL

        assert len(buffer.stale()) == 100 - SLOTS


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
class TestWorkers:
    def test_keep_what_comes_after_they_were_idle(self) -> None:
        with worker("--threads", "4"):
            time.sleep(STANDSTILL + 1)
            jobs.sleep.enqueue_many([(60,)] * 4)
            eventually(lambda: Message.objects.filter(state=State.RUNNING).count() == 4)

            # One claim each: none was handed back in between.
            assert set(Message.objects.values_list("attempt", flat=True)) == {1}

    def test_leave_to_others_what_would_wait_for_long_runs(self) -> None:
        jobs.sleep.enqueue_many([(60,)] * 50)

        with worker("--threads", "4"):
            eventually(lambda: Message.objects.filter(state=State.RUNNING).count() == 4)
            with worker("--threads", "4"):
                eventually(lambda: Message.objects.filter(state=State.RUNNING).count() >= 8)

                assert Message.objects.filter(state=State.RUNNING).count() == 8

    def test_hand_back_what_came_to_wait_behind_long_runs(self) -> None:
        # Fast ones first: so more is claimed ahead than will begin soon.
        jobs.add.enqueue_many([(1,)] * 3000)
        jobs.sleep.enqueue_many([(60,)] * 500)

        with worker("--threads", "4"):
            eventually(lambda: Message.objects.filter(state=State.RUNNING).count() > 4)

            eventually(
                lambda: Message.objects.filter(state=State.RUNNING).count() == 4,
                within=STANDSTILL + 10,
            )
        untouched = Message.objects.filter(state=State.READY)
        assert set(untouched.values_list("failures", "lost")) == {(0, 0)}


def test_who_wakes_more_threads_is_woken_where_one_is_not_enough(buffer: Buffer) -> None:
    buffer.put([MESSAGE])
    assert not buffer.crowded.is_set()

    buffer.put([MESSAGE])
    assert buffer.crowded.is_set()


def test_who_was_woken_goes_first(buffer: Buffer) -> None:
    # A thread that puts something in keeps the interpreter, unless it lets go of it.
    at_ease = sys.getswitchinterval()
    sys.setswitchinterval(60)
    taker = threading.Thread(target=lambda: [*iter(buffer.take, None)], daemon=True)
    taker.start()
    went_first = 0
    try:
        for count in range(20):
            eventually(lambda: buffer.has_idle)
            buffer.put([MESSAGE])
            went_first += buffer.taken > count
            eventually(lambda count=count: buffer.taken > count)
    finally:
        buffer.shut()
        sys.setswitchinterval(at_ease)
        taker.join()

    assert went_first > 10
