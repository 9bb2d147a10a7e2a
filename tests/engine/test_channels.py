"""Channels as they are configured, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pgqueue.models import Channel
from tests.factories import Connection, Listening, claim, enqueue, register


def resume() -> object:
    return Channel.objects.all().resume()


def save() -> object:
    return Channel(pk="default", paused=False).save()


def delete() -> object:
    return Channel.objects.get(pk="default").delete()


def test_a_channel_is_paused_and_resumed(connection: Connection) -> None:
    Channel.objects.create(name="default")
    Channel.objects.create(name="other")
    enqueue(connection)

    counts = [Channel.objects.filter(name="default").pause(), Channel.objects.all().pause()]
    while_paused = claim(connection)
    counts += [Channel.objects.filter(name="default").resume(), Channel.objects.all().resume()]

    assert counts == [1, 1, 1, 1]
    assert (len(while_paused), len(claim(connection))) == (0, 1)


@pytest.mark.parametrize("change", [resume, save, delete])
def test_who_waits_for_a_paused_channel_is_told_when_it_is_no_longer(
    connection: Connection, other: Connection, change: Callable[[], object]
) -> None:
    Channel.objects.create(name="default", paused=True)
    register(connection, notify_for=timedelta(minutes=1))
    listening = Listening(other)

    change()

    assert listening.heard() == ["default"]


def test_no_worker_is_told_of_a_channel_that_was_not_paused(
    connection: Connection, other: Connection
) -> None:
    Channel.objects.create(name="default")
    register(connection, notify_for=timedelta(minutes=1))
    listening = Listening(other)

    assert Channel.objects.all().resume() == 0
    assert listening.heard() == []
