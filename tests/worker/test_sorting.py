"""Which messages go to the event loop, and how many are claimed for it."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import Mock
from uuid import uuid4

import pytest

from pgqueue.engine.values import Claim
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.thread_or_loop import Sorting
from tests import jobs

NOW = datetime.now(UTC)


def leased(task: str, options: bytes | None = None) -> LeasedMessage:
    return LeasedMessage(
        Claim(
            *(1, "default", "", task, b"{}", None, b"{}", options, 0, NOW, 1, 0, 0, 5),
            *(None, False, None, NOW, NOW, uuid4()),
        ),
        0.0,
    )


@pytest.fixture
def buffers() -> tuple[Buffer, Buffer]:
    return Buffer(8, Mock()), Buffer(1000, Mock())


@pytest.mark.parametrize(
    ("task", "options", "awaits"),
    [
        (jobs.double.name, None, True),
        (jobs.add.name, None, False),
        (jobs.leave_atomically_async.name, None, False),
        (jobs.double.name, b'{"atomic": true}', False),
        ("tests.nowhere.gone", None, False),
        ("", None, False),
    ],
)
def test_what_awaits_goes_to_the_loop_and_all_else_to_threads(
    buffers: tuple[Buffer, Buffer], task: str, options: bytes | None, awaits: bool
) -> None:
    Sorting(*buffers).put([leased(task, options)])

    assert [len(each) for each in buffers] == ([0, 1] if awaits else [1, 0])


def test_so_many_are_claimed_as_fit_if_they_are_as_before(buffers: tuple[Buffer, Buffer]) -> None:
    sorting = Sorting(*buffers)
    rooms = []
    for _ in range(20):
        rooms.append(sorting.room(10_000))
        sorting.put([leased(jobs.double.name)])
        sorting._loop.take()  # as the loop does

    # Half of them might be for threads, of which there are eight; then nearly none.
    assert rooms[0] == 16
    assert rooms[-1] > 900


def test_none_is_claimed_while_one_of_the_two_has_no_room(buffers: tuple[Buffer, Buffer]) -> None:
    sorting = Sorting(*buffers)
    sorting.put([leased(jobs.add.name) for _ in range(8)])

    assert sorting.room(10_000) == 0


def test_what_no_thread_has_begun_is_returned_by_closing(buffers: tuple[Buffer, Buffer]) -> None:
    sorting = Sorting(*buffers)
    sorting.put([leased(jobs.add.name), leased(jobs.double.name)])

    left = sorting.close()

    assert [each.claim.task for each in left] == [jobs.add.name, jobs.double.name]
    assert [each.take() for each in buffers] == [None, None]
