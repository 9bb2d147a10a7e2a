"""Circuit breakers that open, and pauses that end, without a wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pgqueue.engine import settle
from pgqueue.engine.values import Claim
from pgqueue.models import Breaker, Lane, Policy
from tests.claims import GovernedClaims
from tests.factories import Connection, enqueue, failure, limit

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
PAST = datetime(2001, 1, 1, tzinfo=UTC)
SCOPES = pytest.mark.parametrize("scope", ["channel", "each"])


def broken_by(failures: int, *, scope: str = "channel", key: str = "", **other: Any) -> Policy:
    """Save a policy with a breaker that pauses for an hour."""
    return limit(
        scope=scope,
        key=key,
        breaker_failures=failures,
        breaker_within=MINUTE,
        breaker_pause=HOUR,
        **other,
    )


def fail(connection: Connection, *claims: Claim, delay: timedelta = HOUR) -> set[int]:
    return settle.retry(connection, [failure(each, delay=delay) for each in claims])


def take(connection: Connection, limit: int = 100) -> list[Claim]:
    return GovernedClaims(connection).claim(limit)


def let_the_pause_end() -> None:
    Breaker.objects.filter(open_until__isnull=False).update(open_until=PAST)
    Lane.objects.filter(wake_at__isnull=False).update(wake_at=PAST)


def open_it(connection: Connection, *, failures: int = 2) -> None:
    """Fail two runs of the key a, which must open a breaker."""
    enqueue(connection, failures, key="a")
    fail(connection, *take(connection, failures))
    assert Breaker.objects.filter(open_until__isnull=False).exists()


def half_open(connection: Connection, scope: str) -> None:
    """Have a breaker whose pause is over, and nine messages of the key a that wait."""
    broken_by(2, scope=scope)
    open_it(connection)
    enqueue(connection, 9, key="a")
    let_the_pause_end()
