"""The main thread's session: handing back to a server that does not answer ends."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from pgqueue import signals
from pgqueue.database.connections import connect
from pgqueue.worker import main_session, watchdog
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.worker import Worker
from tests.eventually import eventually
from tests.factories import Connection, run
from tests.hearing import heard
from tests.processes import own_connections

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other() -> Iterator[Connection]:
    with closing(connect("default", name="test")) as other:
        yield other


def test_who_hands_back_as_he_retires_does_not_wait_for_ever(
    other: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_session, "LONGEST_STEP", 0.1)
    monkeypatch.setattr(watchdog, "CUT_AFTER", 1)
    worker = Worker(WorkerConfig(database="default", threads=1, grace=timedelta(seconds=1)))
    (claim,) = run(other)

    with (
        other.transaction(),
        ThreadPoolExecutor(1) as threads,
        heard(signals.service_stuck, "service") as stuck,
        heard(signals.service_failed, "service") as failures,
    ):
        other.execute("LOCK TABLE pgqueue_message IN ACCESS EXCLUSIVE MODE")
        handing_back = threads.submit(worker._releaser.try_to_release, [LeasedMessage(claim, 0.0)])
        eventually(lambda: worker._main_session.is_stuck)
        worker._watchdog.tick()
        has_done_so = handing_back.result(10)
        # The server has not noticed, and would carry out what it was asked for.
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [own_connections()["supervisor"]])

    assert (has_done_so, stuck, failures) == (False, ["supervisor"], ["worker"])
    assert not worker._main_session.is_stuck
    worker.stop()
    worker.run()  # which closes what it has opened
