"""What a worker makes of raw messages."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

import pgqueue
from pgqueue import receive, send, send_many, signals
from pgqueue.database.connections import connect
from pgqueue.engine import claim as engine
from pgqueue.models import Channel, History, Message
from pgqueue.states import Outcome, State
from pgqueue.worker import handlers
from pgqueue.worker.handlers import ASK_AGAIN, Handlers
from tests import jobs
from tests.factories import claim
from tests.processes import worker

pytestmark = pytest.mark.django_db(transaction=True)


def drain() -> None:
    call_command("runworker", "--drain", verbosity=1)


class TestARawMessage:
    def test_is_given_to_its_channels_handler_as_the_payload(self) -> None:
        Channel.objects.create(name="groups", handler="tests.jobs.name_group")
        id = send("groups", "editors")

        drain()

        assert Group.objects.get().name == "editors"
        ended = History.objects.get()
        assert (ended.pk, ended.task, ended.payload) == (id, "", "editors")
        assert ended.outcome == Outcome.SUCCEEDED

    def test_tells_its_handler_everything_by_the_context(self) -> None:
        Channel.objects.create(name="groups", handler="tests.jobs.name_group_by_body")
        send("groups", body=b"\x00", metadata={"n": 1})

        drain()

        assert Group.objects.get().name == "b'\\x00' None {'n': 1}"
        assert History.objects.get().failures == 1

    def test_that_its_handler_cannot_take_is_dead(self) -> None:
        Channel.objects.create(name="groups", handler="tests.jobs.double")
        send("groups", {"not": "a number"}, max_attempts=1)

        drain()

        message = Message.objects.get()
        assert (message.state, message.task) == (State.DEAD, "")

    @pytest.mark.parametrize("kind", ["free", "limited", "ordered"])
    def test_without_a_handler_is_left_alone(self, kind: str) -> None:
        if kind == "limited":
            pgqueue.Channel("mail").policy(max_running=1, each_key=True)
        sent = send_many("mail", [1, 2], key="a", ordered=kind == "ordered")
        task = jobs.add.using(channel="mail", key="b").enqueue(2, 3)

        drain()

        left = Message.objects.order_by("pk")
        assert [(each.pk, each.state, each.attempt) for each in left] == [
            (id, State.READY, 0) for id in sent
        ]
        task.refresh()
        assert task.return_value == 5

    def test_without_a_handler_keeps_no_task_of_its_key_back(self) -> None:
        [id] = send_many("mail", [1], key="a")
        task = jobs.add.using(channel="mail", key="a").enqueue(2, 3)

        drain()

        task.refresh()
        assert task.return_value == 5
        assert Message.objects.get().pk == id

    def test_that_waits_for_a_retry_by_a_receiver_keeps_no_worker_from_its_end(self) -> None:
        send("mail", 1)
        with receive("mail") as deliveries:
            [delivery] = deliveries
            delivery.retry(delay=3600)

        drain()

        assert Message.objects.get().state == State.SCHEDULED

    def test_without_a_handler_is_found_by_consumers_only(self) -> None:
        send_many("mail", [1, 2])
        send("notes", 1, key="a")
        jobs.add.using(channel="notes", key="b").enqueue(1)
        found: dict[bool, Any] = {}

        with connect("default", name="test") as session:
            for takes_raw in (False, True):
                channels = engine.channels(session, excluded=[], takes_raw=takes_raw)
                searched = [engine.Search(name, None, 10, 0) for name in ("mail", "notes")]
                with session.transaction(force_rollback=True):
                    claimed = engine.claim(
                        session,
                        known=[],
                        searched=searched,
                        limit=10,
                        worker_id=uuid4(),
                        lease=timedelta(seconds=30),
                        takes_raw=takes_raw,
                    )
                found[takes_raw] = (
                    channels,
                    {name: met.lanes for name, met in claimed.met.items()},
                )

        assert found[False] == (["notes"], {"notes": 1})
        assert found[True] == (["mail", "notes"], {"mail": 1, "notes": 2})

    @pytest.mark.parametrize("kind", ["free", "limited", "ordered"])
    def test_is_received_at_once_beside_a_worker_that_serves_every_channel(self, kind: str) -> None:
        if kind == "limited":
            pgqueue.Channel("mail").policy(max_running=1, each_key=True)
        with worker(), receive("mail", wait=10) as deliveries:
            for number in range(20):
                send("mail", number, key=str(number % 3), ordered=kind == "ordered")
                [delivery] = deliveries.take()
                assert (delivery.payload, delivery.attempt) == (number, 1)
                delivery.complete()

    def test_is_run_once_its_channel_names_a_handler(self) -> None:
        send("groups", "editors")
        drain()
        assert not Group.objects.exists()
        Channel.objects.update_or_create(
            name="groups", defaults={"handler": "tests.jobs.name_group"}
        )

        drain()

        assert Group.objects.get().name == "editors"

    def test_whose_handler_was_removed_after_the_claim_is_handed_back(self) -> None:
        heard = []
        signals.handler_missing.connect(hear := lambda **kwargs: heard.append(kwargs["channel"]))
        Channel.objects.create(name="groups", handler="tests.jobs.name_group")
        send("groups", "editors")

        with patch.object(Handlers, "_of", return_value=""):
            drain()

        signals.handler_missing.disconnect(hear)
        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 0)
        assert heard == ["groups"]

    def test_whose_handler_is_unknown_is_handed_back_too(self) -> None:
        heard = []
        signals.task_unknown.connect(hear := lambda **kwargs: heard.append(kwargs["name"]))
        Channel.objects.create(name="mail", handler="shop.of_tomorrow")
        send("mail", 1)

        drain()

        signals.task_unknown.disconnect(hear)
        message = Message.objects.get()
        assert (message.state, message.task) == (State.SCHEDULED, "")
        assert heard == ["shop.of_tomorrow"]

    def test_whose_handler_cannot_be_asked_for_is_handed_back(self) -> None:
        Channel.objects.create(name="groups", handler="tests.jobs.name_group")
        send("groups", "editors")

        with patch.object(Handlers, "_of", side_effect=DatabaseError("gone")):
            drain()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 0)

    def test_that_a_worker_left_alone_can_be_received(self) -> None:
        id = send("mail", 1)
        drain()

        with receive("mail") as deliveries:
            [delivery] = deliveries
            delivery.complete()

        assert (delivery.id, delivery.payload) == (id, 1)


class TestHandlers:
    def test_are_asked_for_once_a_second(self) -> None:
        Channel.objects.create(name="groups", handler="tests.jobs.name_group")
        send_many("groups", ["a", "b"])
        with connect("default", name="test") as worker:
            claims = claim(worker, "groups")
        known = Handlers("default")

        with CaptureQueriesContext(connection) as queries:
            adopted = [known.adopt(each) for each in claims]

        assert [each.task for each in adopted] == ["tests.jobs.name_group"] * 2
        assert len(queries) == 1

    def test_may_change(self) -> None:
        send("groups", "a")
        with connect("default", name="test") as worker:
            [raw] = claim(worker, "groups")
        known = Handlers("default")
        before: Any = known.adopt(raw)
        Channel.objects.create(name="groups", handler="tests.jobs.name_group")

        with patch.object(handlers, "monotonic", lambda: monotonic() + ASK_AGAIN):
            after = known.adopt(raw)

        assert (before.task, after.task) == ("", "tests.jobs.name_group")
