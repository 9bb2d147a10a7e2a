"""When a heartbeat beats, and when it only looks which runs to cancel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import psycopg
import pytest

from pgqueue.claiming.registration import Registration
from pgqueue.claiming.run_counts import Tally
from pgqueue.database.connections import Session
from pgqueue.engine import cancel, lease
from pgqueue.engine.workers import WorkerInfo
from pgqueue.models import Message
from pgqueue.worker import heartbeat as module
from pgqueue.worker.heartbeat import Heartbeat
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.wakeups import HeartbeatWakeup
from tests.factories import Connection, run

pytestmark = pytest.mark.django_db(transaction=True)

EVERY = timedelta(minutes=20)


@pytest.fixture
def leases() -> Leases:
    return Leases()


@pytest.fixture
def wakeup() -> HeartbeatWakeup:
    return HeartbeatWakeup()


@pytest.fixture
def heartbeat(leases: Leases, wakeup: HeartbeatWakeup) -> Iterator[Heartbeat]:
    info = WorkerInfo(
        host="here", pid=1, started_at=datetime.now(UTC), channels=None, excluded=[], info={}
    )
    heartbeat = Heartbeat(
        Session("default", name="heartbeat"),
        leases,
        Registration(info, notify_for=EVERY),
        Tally(),
        lease=3 * EVERY,
        every=EVERY,
        wakeup=wakeup,
    )
    yield heartbeat
    heartbeat.finish()


@pytest.fixture
def leased(queue: Connection, leases: Leases) -> list[LeasedMessage]:
    leased = [LeasedMessage(each, time.monotonic()) for each in run(queue, 2)]
    leases.add(leased)
    return leased


def lease_of(leased: LeasedMessage) -> datetime:
    until = Message.objects.get(pk=leased.claim.id).lease_until
    assert until
    return until


class TestALook:
    def test_cancels_and_renews_nothing(
        self,
        queue: Connection,
        heartbeat: Heartbeat,
        wakeup: HeartbeatWakeup,
        leased: list[LeasedMessage],
    ) -> None:
        first, second = leased
        heartbeat.tick()
        before = lease_of(first), heartbeat.silence

        cancel.cancel(queue, [first.claim.id])
        wakeup.request_look()
        nap = heartbeat.tick()

        assert (first.cancelled, second.cancelled) == (True, False)
        assert (first.lost, second.lost) == (False, False)
        assert lease_of(first) == before[0]
        assert heartbeat.silence > before[1]
        assert nap < EVERY

    def test_notices_a_lease_that_was_taken_away(
        self,
        queue: Connection,
        heartbeat: Heartbeat,
        wakeup: HeartbeatWakeup,
        leased: list[LeasedMessage],
    ) -> None:
        first, second = leased
        heartbeat.tick()

        lease.release(queue, [first.claim.id])
        wakeup.request_look()
        heartbeat.tick()

        assert (first.lost, second.lost) == (True, False)

    def test_that_is_due_soon_after_another_is_shared(
        self,
        heartbeat: Heartbeat,
        wakeup: HeartbeatWakeup,
        leased: list[LeasedMessage],
    ) -> None:
        heartbeat.tick()
        began = time.monotonic()
        for _ in range(3):
            wakeup.request_look()
            wakeup.request_look()
            heartbeat.tick()

        assert time.monotonic() - began >= 2 * module.LOOK_EVERY

    def test_is_a_beat_if_one_is_due(
        self, heartbeat: Heartbeat, wakeup: HeartbeatWakeup, leased: list[LeasedMessage]
    ) -> None:
        before = lease_of(leased[0])
        wakeup.request_look()

        heartbeat.tick()

        assert lease_of(leased[0]) > before

    def test_that_fails_is_followed_by_a_beat(
        self, heartbeat: Heartbeat, wakeup: HeartbeatWakeup, leased: list[LeasedMessage]
    ) -> None:
        heartbeat.tick()
        before = lease_of(leased[0])
        wakeup.request_look()
        with (
            patch.object(lease, "valid", side_effect=psycopg.OperationalError),
            pytest.raises(psycopg.OperationalError),
        ):
            heartbeat.tick()

        heartbeat.tick()

        assert lease_of(leased[0]) > before


def test_a_request_ends_the_nap(
    queue: Connection,
    heartbeat: Heartbeat,
    wakeup: HeartbeatWakeup,
    leased: list[LeasedMessage],
) -> None:
    heartbeat.tick()
    cancel.cancel(queue, [leased[0].claim.id])
    wakeup.request_look()

    heartbeat.rest(EVERY)  # or the test never ends
