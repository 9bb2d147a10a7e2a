"""What a worker makes of raw messages."""

from __future__ import annotations

from time import monotonic
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from pgqueue import receive, send, send_many, signals
from pgqueue.connections import connect
from pgqueue.models import Channel, History, Message
from pgqueue.states import Outcome, State
from pgqueue.worker import handlers
from pgqueue.worker.handlers import ASK_AGAIN, Handlers
from tests.factories import claim

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

    def test_without_a_handler_is_handed_back_uncharged_each_time_for_longer(self) -> None:
        heard = []
        signals.handler_missing.connect(
            hear := lambda **kwargs: heard.append((kwargs["channel"], kwargs["delay"]))
        )
        Channel.objects.create(name="chat", paused=False)
        send("mail", 1)
        Message.objects.create(channel="chat", task="", state="ready", max_attempts=1, attempt=3)

        drain()

        signals.handler_missing.disconnect(hear)
        first, later = Message.objects.order_by("pk")
        assert (first.state, first.failures, first.attempt) == (State.SCHEDULED, 0, 1)
        assert 25 < (first.run_at - first.claimed_at).total_seconds() < 35
        assert 200 < (later.run_at - later.claimed_at).total_seconds() < 260
        assert sorted(heard) == [("chat", 240), ("mail", 30)]

    def test_whose_handler_nobody_knows_is_handed_back_too(self) -> None:
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

    def test_that_was_handed_back_can_be_received(self) -> None:
        id = send("mail", 1)
        drain()
        Message.objects.all().run_now()

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
