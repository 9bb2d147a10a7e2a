"""An event that ends the process of its group's reader is found, and given up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from pgqueue import consumer, publish_many
from pgqueue.events import consumers, groups, suspects
from pgqueue.events.consumers import Consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.models import Cursor, Message
from tests.eventually import eventually

KILLS = "kills"


class Readers:
    """Readers whose processes "end" as they handle an event of the payload "kills".

    The handler never returns, and the lease of its reader is ended. Others take over as they would
    from a process that has died.
    """

    def __init__(self) -> None:
        self.handled: list[Any] = []
        self.calls: list[list[int]] = []
        self._gone = threading.Event()
        self._threads: list[threading.Thread] = []
        self._left: list[GroupReader] = []

    def handle(self, given: Any) -> None:
        events = given if isinstance(given, list) else [given]
        self.calls.append([each.position for each in events])
        if any(each.payload == KILLS for each in events):
            threading.current_thread().is_dead = True  # type: ignore[attr-defined]
            self._gone.wait(60)
            raise SystemExit
        self.handled += [each.position for each in events]

    def declare(self, **options: Any) -> Consumer:
        given = {"start": "beginning", "backoff": [0], **options}
        return consumer("billing", **given)(self.handle)

    def live(self, billing: Consumer, *, upto: int) -> bool:
        """Have a reader read until it has come so far, or its process ends; tell if it did."""
        reader = GroupReader(billing)

        def tick() -> None:
            while not reader._stopping.is_set():
                reader._try_tick()
            reader.finish()
            connections.close_all()

        thread = threading.Thread(target=tick, daemon=True)
        thread.is_dead = False  # type: ignore[attr-defined]
        self._threads.append(thread)
        self._left.append(reader)
        thread.start()

        def is_over() -> bool:
            at = Cursor.objects.filter(group="billing", position__gte=upto, lost=0)
            return thread.is_dead or at.exists()  # type: ignore[attr-defined]

        eventually(is_over, within=20)
        if not thread.is_dead:  # type: ignore[attr-defined]
            reader.stop()
            thread.join(20)
            return False
        reader._stopping.set()
        Cursor.objects.filter(reader_id=reader.id).update(lease_until=timezone.now())
        return True

    def end(self) -> None:
        self._gone.set()
        for reader in self._left:
            reader.stop()
        for thread in self._threads:
            thread.join(20)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[Readers]:
    monkeypatch.setattr(consumers, "_consumers", {})
    # A thread whose process has "ended" holds the lock of this process still.
    monkeypatch.setattr(suspects, "PATIENCE", 0.01)
    made = Readers()
    yield made
    made.end()


def publish(*payloads: Any) -> None:
    publish_many([("order.paid", each) for each in payloads])


WAYS = [{}, {"batch": 3}, {"atomic": True}, {"atomic": True, "batch": 3}]


class TestAnEventThatEndsItsProcess:
    @pytest.mark.parametrize("options", WAYS, ids=str)
    def test_is_parked_after_as_many_as_may_be_lost_and_it_alone(
        self, readers: Readers, options: dict[str, Any]
    ) -> None:
        publish(*range(4), KILLS, *range(4))
        billing = readers.declare(**options)

        deaths = 0
        while readers.live(billing, upto=9):
            deaths += 1
            assert deaths <= 3

        assert deaths == 3
        (letter,) = Message.objects.dead()
        assert letter.channel == "group:billing"
        assert letter.errors[-1]["class"] == "pgqueue.exceptions.ReaderLost"
        assert set(readers.handled) == {1, 2, 3, 4, 6, 7, 8, 9}
        cursor = Cursor.objects.get()
        assert (cursor.position, cursor.begun_at) == (9, None)

    def test_is_parked_as_its_consumer_says(self, readers: Readers) -> None:
        publish(KILLS, 1)
        billing = readers.declare(max_lost=5)

        deaths = 0
        while readers.live(billing, upto=2):
            deaths += 1

        assert deaths == 5

    def test_stops_its_partition_where_the_group_says_so(
        self, readers: Readers, caplog: pytest.LogCaptureFixture
    ) -> None:
        publish(1, KILLS, 2)
        billing = readers.declare(on_failure="stop")
        for _ in range(3):
            assert readers.live(billing, upto=3)

        reader = GroupReader(billing)
        for _ in range(3):
            reader.tick()
        reader.finish()

        cursor = Cursor.objects.get()
        assert (cursor.is_stopped, cursor.position) == (True, 1)
        assert "ReaderLost" in cursor.error
        assert "has lost its reader 3 times: the partition stops there" in caplog.text
        assert not Message.objects.dead().exists()

        groups.resume("billing")
        assert readers.live(billing, upto=3)
        assert not Cursor.objects.get().is_stopped

    def test_holds_one_of_few_that_match_too(self, readers: Readers) -> None:
        """A stretch of the log without an event for the group acquits none."""
        publish_many([("other", n) for n in range(5000)])
        publish(KILLS, 1)
        billing = readers.declare(topics="order.*")

        deaths = 0
        while readers.live(billing, upto=5002):
            deaths += 1
            assert deaths <= 3

        assert deaths == 3

    def test_is_named_in_the_list_of_groups_meanwhile(self, readers: Readers) -> None:
        publish(KILLS)
        billing = readers.declare()
        for _ in range(2):
            readers.live(billing, upto=1)
        reader = GroupReader(billing)
        reader._rebalance(reader._session.connection)

        (state,) = groups.states()
        reader.finish()

        assert state.error == "ReaderLost: a process ended while it handled event 1"


class TestSuspectedEvents:
    @pytest.mark.parametrize("options", WAYS, ids=str)
    def test_are_handled_one_by_one_until_they_are_passed(
        self, readers: Readers, options: dict[str, Any]
    ) -> None:
        publish(*range(3))
        billing = readers.declare(**options)
        groups.make("billing", start="beginning")
        Cursor.objects.update(
            reader_id="00000000-0000-0000-0000-000000000001", lease_until=timezone.now()
        )

        assert not readers.live(billing, upto=3)

        assert readers.calls[0] == [1]
        assert readers.handled == [1, 2, 3]
        cursor = Cursor.objects.get()
        assert (cursor.position, cursor.lost, cursor.suspect) == (3, 0, None)

    def test_that_fail_are_not_charged_with_a_loss_while_they_wait(self, readers: Readers) -> None:
        def fails(event: Any) -> None:
            raise ValueError("not yet")

        publish(1)
        billing = consumer("billing", start="beginning", backoff=[60])(fails)
        groups.make("billing", start="beginning")
        for number in range(1, 6):
            # Its reader is lost as the event waits for its next try.
            Cursor.objects.update(
                reader_id=f"00000000-0000-0000-0000-00000000000{number}",
                lease_until=timezone.now(),
                retry_at=None,
            )
            reader = GroupReader(billing)
            reader.tick()
            reader._session.close()

        assert Cursor.objects.get().lost == 1
        assert Cursor.objects.get().failures == 4 or Message.objects.dead().exists()
        assert all(
            each["class"] == "builtins.ValueError"
            for letter in Message.objects.dead()
            for each in letter.errors
        )

    def test_that_a_stop_cut_off_are_not_charged(self, readers: Readers) -> None:
        publish(KILLS)
        billing = readers.declare()
        for _ in range(6):
            assert readers.live(billing, upto=1)
            readers._left[-1].excuse()

        assert Cursor.objects.get().lost == 1

    def test_of_a_reader_that_gives_its_partition_back_are_none(self, readers: Readers) -> None:
        publish(1, 2)
        billing = readers.declare(batch=2)

        assert not readers.live(billing, upto=2)

        assert readers.calls == [[1, 2]]
        assert Cursor.objects.get().lost == 0
