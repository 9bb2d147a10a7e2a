"""What the fetcher claims ahead of the threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock, patch

import pytest
from django.db import connection

from pgqueue.claiming import claimer
from pgqueue.claiming.claimer import Claimer
from pgqueue.claiming.idle import LISTENING_NAP
from pgqueue.claiming.registration import Registration
from pgqueue.database.connections import Session, connect
from pgqueue.engine import claim, notifications
from pgqueue.engine.values import Claim
from pgqueue.engine.workers import WorkerInfo
from pgqueue.models import Message
from pgqueue.states import State
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.collector import Collector
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.fetcher import PAYLOADS, Fetcher
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.settler import Settler
from pgqueue.worker.wakeups import FetcherWakeup, Wakeups
from pgqueue.worker.worker import Worker
from tests.factories import Connection, store

pytestmark = pytest.mark.django_db(transaction=True)

MEGABYTE = 1024 * 1024
SHORT = 10.0
"""Seconds: half of a nap that nothing ends."""


@contextmanager
def a_fetcher(
    buffer: Buffer,
    leases: Leases,
    *,
    listens: bool = False,
    excluded: Sequence[str] = (),
    wakeups: Wakeups | None = None,
    settler: Settler | None = None,
) -> Iterator[Fetcher]:
    """One that ticks when told to."""
    wakeups = wakeups or Wakeups(FetcherWakeup())
    info = WorkerInfo(
        host="here", pid=1, started_at=datetime.now(UTC), channels=None, excluded=[], info={}
    )
    fetcher = Fetcher(
        Claimer(
            Session("default", name="fetcher"),
            Registration(info, notify_for=timedelta(seconds=20)),
            channels=None,
            excluded=excluded,
            lease=timedelta(seconds=30),
            is_overtaken=wakeups.fetcher.is_set,
        ),
        Collector(buffer),
        leases,
        settler or Mock(is_connected=True, put=lambda leased, ending: leases.drop(leased)),
        wakeups,
        slots=8,
        poll_interval=timedelta(seconds=60),
        listens=listens,
    )
    try:
        yield fetcher
    finally:
        fetcher.finish()


def claims(buffer: Buffer, leases: Leases) -> Iterator[list[LeasedMessage]]:
    """Yield what each tick of a fetcher brings, as threads would take it at once."""
    with a_fetcher(buffer, leases) as fetcher:
        while not fetcher.is_idle:
            fetcher.tick()
            taken = [leased for _ in range(len(buffer)) if (leased := buffer.take())]
            for leased in taken:
                buffer.done()
                leases.drop(leased)
            if taken:
                yield taken


@pytest.mark.slow
def test_large_payloads_are_claimed_a_few_at_a_time() -> None:
    text = '"' + "x" * MEGABYTE + '"'
    for _ in range(10):
        store(connection, payloads=[text] * 20)

    sizes = [len(taken) for taken in claims(Buffer(8, Mock()), Leases())]

    assert sum(sizes) == 200
    # The threads would have run more, but no more fits.
    assert PAYLOADS // MEGABYTE // 4 <= max(sizes) <= PAYLOADS // MEGABYTE


def test_small_ones_are_claimed_by_the_thousand() -> None:
    store(connection, payloads=["{}"] * 5000)

    sizes = [len(taken) for taken in claims(Buffer(8, Mock()), Leases())]

    assert sum(sizes) == 5000
    assert max(sizes) == 1000


def test_naps_double_while_there_is_nothing_and_begin_again_behind_a_message() -> None:
    with a_fetcher(Buffer(8, Mock()), Leases()) as fetcher:
        idle = [fetcher.tick().total_seconds() for _ in range(8)]
        store(connection)
        found, after = fetcher.tick(), fetcher.tick()

    assert idle == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    assert (found, after) == (timedelta(), timedelta(seconds=0.01))


def test_room_that_is_made_while_it_is_looked_for_is_not_missed() -> None:
    buffer = Buffer(8, Mock())
    with a_fetcher(buffer, Leases()) as fetcher:

        def room(most: int) -> int:
            fetcher._wakeups.fetcher.make_room()  # as a thread does that takes just now
            return 0

        buffer.room = room  # type: ignore[method-assign]
        fetcher.tick()

        assert rested(fetcher) < SHORT


def test_news_that_comes_while_it_claims_ends_the_nap_and_it_is_not_idle() -> None:
    """A step of a flow ended, and a claim has to route its bell."""
    with a_fetcher(Buffer(8, Mock()), Leases()) as fetcher:
        fetcher.wake()

        nap = fetcher.tick()

        assert not fetcher.is_idle
        assert nap > timedelta()  # a nap of 0 would leave the news for one more claim
        assert rested(fetcher) < SHORT
        fetcher.tick()
        assert fetcher.is_idle


def test_a_worker_tells_its_claims_of_news() -> None:
    worker = Worker(WorkerConfig(database="default", threads=1, grace=timedelta()))
    pipeline = worker._pipeline
    assert pipeline
    is_overtaken = pipeline.fetcher._claimer._is_overtaken

    before = is_overtaken()
    pipeline.fetcher.wake()
    after = is_overtaken()
    pipeline.settler.finish()
    pipeline.fetcher.finish()
    worker._main_session.close()
    worker._requests.close()

    assert (before, after) == (False, True)


class TestListening:
    """On the connection that it claims on."""

    @pytest.fixture
    def fetcher(self) -> Iterator[Fetcher]:
        promoter = Mock(look_early=lambda: self.said.append("due earlier"))
        with a_fetcher(
            Buffer(8, Mock()),
            Leases(),
            listens=True,
            excluded=["not ours"],
            wakeups=Wakeups(FetcherWakeup(), promoter),
        ) as fetcher:
            self.said: list[str] = []
            while not fetcher.is_idle:
                fetcher.tick()
            yield fetcher

    def test_naps_at_most_until_a_dead_connection_should_be_noticed(self, fetcher: Fetcher) -> None:
        naps = [fetcher.tick() for _ in range(15)]

        assert naps[-1] == LISTENING_NAP

    def test_a_message_ends_the_nap(self, fetcher: Fetcher) -> None:
        with in_a_while(lambda: notify("default")):
            assert rested(fetcher) < SHORT

    def test_one_that_came_with_an_answer_does_too(self, fetcher: Fetcher) -> None:
        notify("default")
        fetcher._session.connection.execute("SELECT 1")

        assert rested(fetcher) < SHORT

    def test_what_is_not_ours_does_not(self, fetcher: Fetcher) -> None:
        with in_a_while(lambda: notify("not ours")):
            assert rested(fetcher, nap=0.5) >= 0.5

    def test_what_is_due_earlier_is_passed_on(self, fetcher: Fetcher) -> None:
        with in_a_while(lambda: notify(notifications.DUE_EARLIER)):
            assert rested(fetcher, nap=0.5) >= 0.5

        assert self.said == ["due earlier"]

    def test_a_connection_that_breaks_ends_the_nap_and_another_listens(
        self, fetcher: Fetcher
    ) -> None:
        with in_a_while(fetcher.cut):
            assert rested(fetcher) < SHORT
        fetcher.tick()

        with in_a_while(lambda: notify("default")):
            assert rested(fetcher) < SHORT

    def test_a_stop_ends_the_nap(self, fetcher: Fetcher) -> None:
        with in_a_while(fetcher.stop):
            assert rested(fetcher) < SHORT


class TestARequestToCancel:
    """The heartbeat looks for it; no claim is made because of it."""

    @pytest.fixture
    def wakeups(self) -> Wakeups:
        return Wakeups(FetcherWakeup())

    @pytest.fixture
    def fetcher(self, wakeups: Wakeups) -> Iterator[Fetcher]:
        with a_fetcher(Buffer(8, Mock()), Leases(), listens=True, wakeups=wakeups) as fetcher:
            while not fetcher.is_idle:
                fetcher.tick()
            yield fetcher

    def test_wakes_the_heartbeat_and_does_not_end_the_nap(
        self, fetcher: Fetcher, wakeups: Wakeups
    ) -> None:
        with in_a_while(lambda: notify(own_id(fetcher), notifications.CANCELS)):
            assert rested(fetcher, nap=0.5) >= 0.5

        assert wakeups.heartbeat.nudge.is_set()
        assert wakeups.heartbeat.take_request()

    def test_of_an_earlier_id_of_the_worker_does_too(
        self, fetcher: Fetcher, wakeups: Wakeups
    ) -> None:
        before = own_id(fetcher)
        fetcher.cut()
        rested(fetcher)
        fetcher.tick()

        notify(before, notifications.CANCELS)
        fetcher._session.connection.execute("SELECT 1")

        assert own_id(fetcher) != before
        assert wakeups.heartbeat.take_request()

    @pytest.mark.parametrize(
        "text", ["", "default", "no id", "8a14d929-d3ff-4bb3-88b0-a2fb09b55f3a"]
    )
    def test_of_another_worker_is_left_alone(
        self, text: str, fetcher: Fetcher, wakeups: Wakeups
    ) -> None:
        notify(text, notifications.CANCELS)
        fetcher._session.connection.execute("SELECT 1")

        assert rested(fetcher, nap=0.1) >= 0.1
        assert not wakeups.heartbeat.take_request()

    def test_that_comes_with_a_claim_has_the_heartbeat_look_behind_it(
        self, fetcher: Fetcher, wakeups: Wakeups, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The heartbeat does not know the message before."""
        fetcher._claimer._governed_first = True  # the next claim begins with free lanes
        store(connection)
        claim_free = claimer.Claimer.claim_free

        def claim_and_hear(self: Claimer, claimant: Any, *given: Any) -> None:
            claim_free(self, claimant, *given)
            notify(own_id(fetcher), notifications.CANCELS)
            claimant.connection.execute("SELECT 1")
            assert wakeups.heartbeat.take_request()
            assert len(fetcher._leases) == 0

        monkeypatch.setattr(claimer.Claimer, "claim_free", claim_and_hear)
        fetcher.tick()

        assert len(fetcher._leases) == 1
        assert wakeups.heartbeat.take_request()


def own_id(fetcher: Fetcher) -> str:
    return str(fetcher._claimer.connect().worker_id)


class TestWhereALookIsExpensive:
    """See `turns`: a claim may leave fronts unseen, and says when it is time for them."""

    def test_a_nap_ends_when_it_is_time_for_one(self, looks_are_expensive: None) -> None:
        buffer = Buffer(8, Mock())
        with a_fetcher(buffer, Leases(), listens=True) as fetcher:
            while fetcher.tick() < timedelta(seconds=1):
                pass
            # A plain row notifies no worker.
            Message.objects.create(
                channel="default", task="tests.task", state=State.READY, max_attempts=1, payload={}
            )
            nap = fetcher.tick()
            nothing = len(buffer)
            fetcher.rest(nap)
            fetcher.tick()

        assert (nothing, len(buffer)) == (0, 1)
        assert nap <= timedelta(seconds=1)


def rested(fetcher: Fetcher, *, nap: float = 20) -> float:
    """How many seconds it did, if it was to for so many."""
    began = time.monotonic()
    fetcher.rest(timedelta(seconds=nap))
    return time.monotonic() - began


@contextmanager
def in_a_while(do: Callable[[], object]) -> Iterator[None]:
    """Have something happen amid what is done meanwhile."""
    timer = threading.Timer(0.1, do)
    timer.start()
    yield
    timer.join()


def notify(text: str, channel: str = notifications.NEW) -> None:
    with connect("default", name="notifier") as other:
        other.execute("SELECT pg_notify(pgqueue_notifications_v1() || %s, %s)", [channel, text])


def test_what_a_claim_brings_once_it_is_to_stop_is_given_back() -> None:
    store(connection, payloads=["{}"] * 3)
    buffer, leases = Buffer(8, Mock()), Leases()
    with a_fetcher(buffer, leases) as fetcher:
        fetcher._stopping.set()  # while the answer is on its way
        fetcher.tick()

    assert (len(buffer), len(leases)) == (0, 0)
    assert not Message.objects.filter(state=State.READY).exists()  # it was claimed


class TestHearingOfAChannel:
    """What is claimed after a notification, which is what an idle worker's latency is made of."""

    @pytest.fixture
    def heard(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The channels that were claimed from before anything was looked at."""
        heard: list[str] = []
        claim_at_once = claim.claim_at_once

        def note(connection: Connection, channel: str, **options: Any) -> list[Claim]:
            heard.append(channel)
            return claim_at_once(connection, channel, **options)

        monkeypatch.setattr(claim, "claim_at_once", note)
        return heard

    def test_claims_from_it_before_looking(self, heard: list[str]) -> None:
        buffer = Buffer(8, Mock())
        with a_fetcher(buffer, Leases()) as fetcher:
            fetcher.tick()
            store(connection)
            with patch.object(fetcher._claimer, "claim_free") as look:
                fetcher.hear("default")
                fetcher.tick()

            look.assert_not_called()
        assert heard == ["default"]
        assert len(buffer) == 1

    def test_looks_further_where_there_is_nothing(self, heard: list[str]) -> None:
        buffer = Buffer(8, Mock())
        with a_fetcher(buffer, Leases()) as fetcher:
            fetcher.tick()
            store(connection, channel="other")
            fetcher.hear("default")
            fetcher.tick()

        assert heard == ["default"]
        assert len(buffer) == 1

    def test_goes_on_with_its_turns_where_it_is_at_them(self, heard: list[str]) -> None:
        buffer = Buffer(8, Mock())
        store(connection, payloads=["{}"] * 20)
        with a_fetcher(buffer, Leases()) as fetcher:
            fetcher.tick()
            fetcher.hear("default")
            fetcher.tick()

        assert heard == []

    def test_looks_when_it_hears_of_several(self, heard: list[str]) -> None:
        buffer = Buffer(8, Mock())
        with a_fetcher(buffer, Leases()) as fetcher:
            fetcher.tick()
            for channel in ("one", "two"):
                store(connection, channel=channel)
                fetcher.hear(channel)
            fetcher.tick()

        assert heard == []
        assert len(buffer) == 2

    def test_is_not_tried_at_once_again_where_it_took_long(
        self, heard: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(claimer, "LOOK_AGAIN_COST", 1e6)
        with a_fetcher(Buffer(8, Mock()), Leases()) as fetcher:
            fetcher.tick()
            for _ in range(2):
                fetcher.hear("default")
                fetcher.tick()

        assert heard == ["default"]
