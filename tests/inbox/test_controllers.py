"""pg-transactional-outbox's concurrency controllers, as policies of a subscription's channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pgqueue import Channel, publish_many
from pgqueue.events import subscriptions
from pgqueue.models import Message
from tests.claims import FreeClaims, GovernedClaims
from tests.factories import Connection

MUTEX: dict[str, Any] = {"max_running": 1}
SEMAPHORE: dict[str, Any] = {"max_running": 2}
OF_SEGMENTS: dict[str, Any] = {"max_running": 1, "each_key": True}


@pytest.mark.parametrize(
    ("policy", "ordered", "most"),
    [
        pytest.param(None, False, 6, id="full"),
        pytest.param(MUTEX, False, 1, id="mutex"),
        pytest.param(SEMAPHORE, False, 2, id="semaphore"),
        pytest.param(OF_SEGMENTS, False, 3, id="segment mutex"),
        pytest.param(None, True, 3, id="segments in order"),
        pytest.param(SEMAPHORE, True, 2, id="a semaphore of segments in order"),
    ],
)
def test_a_controller_lets_so_many_run_at_once(
    dispatch: Callable[[], None],
    connection: Connection,
    policy: dict[str, Any] | None,
    ordered: bool,
    most: int,
) -> None:
    subscriptions.create("s", topics="n", channel="orders", key="{key}", ordered=ordered)
    if policy:
        Channel("orders").policy(**policy)
    publish_many([("n", n, f"segment {n % 3}") for n in range(6)])
    dispatch()
    assert Message.objects.count() == 6

    claims = FreeClaims(connection).claim(100) + GovernedClaims(connection).claim(100)

    assert len(claims) == most


def test_several_are_channels_with_a_policy_each(
    dispatch: Callable[[], None], connection: Connection
) -> None:
    for kind, most in (("a", 1), ("b", 3)):
        subscriptions.create(kind, topics=f"{kind}.*", channel=kind)
        Channel(kind).policy(max_running=most)
    publish_many([(f"{kind}.n", n) for n in range(5) for kind in "ab"])
    dispatch()

    claims = GovernedClaims(connection).claim(100)

    assert sorted(each.channel for each in claims) == ["a", "b", "b", "b"]
