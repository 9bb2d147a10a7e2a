"""How the messages of batch tasks are gathered, without a database."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from unittest.mock import Mock
from uuid import uuid4

import pytest

from pgqueue.engine.values import Claim
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.collector import Collector
from pgqueue.worker.leased_batch import LeasedBatch
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.thread_or_loop import Sorting
from tests import batch_jobs, jobs

NOW = datetime.now(UTC)
ids = count(1)


def leased(
    task: str, *, key: str = "", options: bytes | None = None, lost: int = 0
) -> LeasedMessage:
    return LeasedMessage(
        Claim(
            *(next(ids), "default", key, task, b"{}", None, b"{}", options, 0, NOW, 1, 0, lost, 5),
            *(None, False, None, NOW, NOW, uuid4()),
        ),
        0.0,
    )


def of(task: str, number: int) -> list[LeasedMessage]:
    return [leased(task) for _ in range(number)]


@pytest.fixture
def buffer() -> Buffer:
    return Buffer(8, Mock())


@pytest.fixture
def collector(buffer: Buffer) -> Collector:
    return Collector(buffer)


def sizes(buffer: Buffer) -> list[int]:
    """Return the number of messages of each item in the buffer."""
    items = [buffer.take() for _ in range(len(buffer))]
    return [len(each.messages) if isinstance(each, LeasedBatch) else 1 for each in items if each]


class TestAPut:
    def test_hands_on_full_batches_and_keeps_the_rest(
        self, collector: Collector, buffer: Buffer
    ) -> None:
        collector.put(of(batch_jobs.of_three.name, 7))

        assert sizes(buffer) == [3, 3]
        assert len(collector) == 1
        assert 59 < collector.due_in() <= 60

    def test_adds_to_what_came_before(self, collector: Collector, buffer: Buffer) -> None:
        collector.put(of(batch_jobs.of_three.name, 2))
        collector.put(of(batch_jobs.of_three.name, 1))

        assert sizes(buffer) == [3]

    def test_passes_on_other_tasks(self, collector: Collector, buffer: Buffer) -> None:
        collector.put([*of(jobs.add.name, 2), *of("tests.nowhere.gone", 1), leased("")])

        assert sizes(buffer) == [1, 1, 1, 1]
        assert collector.due_in() == float("inf")

    def test_passes_on_what_has_lost_a_lease(self, collector: Collector, buffer: Buffer) -> None:
        collector.put([leased(batch_jobs.of_three.name, lost=1) for _ in range(3)])

        assert sizes(buffer) == [1, 1, 1]

    def test_keeps_options_and_keys_apart(self, collector: Collector, buffer: Buffer) -> None:
        collector.put([leased(batch_jobs.of_three.name, options=b'{"a": 1}'), *of("x", 0)])
        collector.put(of(batch_jobs.of_three.name, 2))
        collector.put([leased(batch_jobs.by_key.name, key=key) for key in "ab"])

        assert sizes(buffer) == []
        assert len(collector) == 5

    def test_of_a_task_without_a_wait_is_handed_on_at_once(
        self, collector: Collector, buffer: Buffer
    ) -> None:
        collector.put(of(batch_jobs.without_a_wait.name, 4))

        assert sizes(buffer) == [4]

    def test_sends_a_batch_of_an_async_task_to_the_loop(self) -> None:
        buffers = Buffer(8, Mock()), Buffer(8, Mock())
        collector = Collector(Sorting(*buffers))

        collector.put(of(batch_jobs.await_cancel.name, 2))

        assert [len(each) for each in buffers] == [0, 1]


class TestAFlush:
    def test_hands_on_what_has_waited(self, collector: Collector, buffer: Buffer) -> None:
        collector.put(of(batch_jobs.of_three.name, 2))
        collector.flush()
        assert sizes(buffer) == []
        [gathering] = collector._gathered.values()
        gathering.due_at -= 60

        collector.flush()

        assert sizes(buffer) == [2]


class TestRoom:
    def test_is_that_of_the_buffer_without_batches(
        self, collector: Collector, buffer: Buffer
    ) -> None:
        collector.put(of(jobs.add.name, 1))
        buffer.take()

        assert collector.room(10_000) == buffer.room(10_000) == 7

    def test_fills_a_batch_for_each_free_slot(self, collector: Collector, buffer: Buffer) -> None:
        for _ in range(20):
            collector.put(of(batch_jobs.wait_a_minute.name, 100))
            buffer.take()
            buffer.done()

        assert collector.room(10_000) > 700

    def test_is_at_least_the_rest_of_a_batch(self, collector: Collector) -> None:
        collector.put([*of(batch_jobs.wait_a_minute.name, 1), *of(jobs.add.name, 1)])
        collector._a_run = 1

        assert collector.room(10_000) == 99

    def test_is_none_while_all_slots_run(self, collector: Collector, buffer: Buffer) -> None:
        collector.put(of(batch_jobs.of_three.name, 3 * 8 + 1))
        assert sizes(buffer) == [3] * 8

        assert collector.room(10_000) == 0


class TestAClose:
    def test_returns_gathered_messages_and_batches_that_no_thread_took(
        self, collector: Collector, buffer: Buffer
    ) -> None:
        messages = [*of(batch_jobs.of_three.name, 4), leased(jobs.add.name)]
        collector.put(messages)

        left = collector.close()

        assert {each.claim.id for each in left} == {each.claim.id for each in messages}
        assert not any(isinstance(each, LeasedBatch) for each in left)
        assert buffer.is_closed

    def test_ends_the_flushes(self, collector: Collector, buffer: Buffer) -> None:
        collector.put(of(batch_jobs.of_three.name, 1))
        collector.close()

        collector.flush()

        assert len(collector) == 0
