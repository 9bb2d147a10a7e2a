"""These commit, as the engine's tests do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgqueue.engine import event_partitions, partitions
from pgqueue.events import subscriptions
from tests.breaking import broken_by
from tests.engine.conftest import (
    _every_test_commits,
    broom,
    connect,
    connection,
    transactional_db,
)
from tests.factories import Connection, limit
from tests.interleaving.interleaver import SESSIONS, Interleaver
from tests.interleaving.witness import LIMITS

__all__ = ["_every_test_commits", "broom", "connect", "connection", "transactional_db"]


@pytest.fixture
def interleaver(connect: Callable[..., Connection]) -> Interleaver:
    """Sessions, limits, breakers and a subscription of all events."""
    connections = [connect() for _ in range(SESSIONS + 2)]
    partitions.ensure(connections[0])
    event_partitions.ensure(connections[0])
    limit("limited", "channel", max_running=LIMITS[""])
    limit("limited", max_running=LIMITS["a"])
    broken_by(3, scope="channel", channel="fragile")
    broken_by(1, scope="each", channel="fragile")
    subscriptions.create("all", topics="**", channel="events")
    for each in connections:
        each.execute("SET deadlock_timeout = '50ms'")
    return Interleaver(connections)
