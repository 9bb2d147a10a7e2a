"""Claims of one kind of lanes, as a worker's claimer makes them: from tables or from a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg

from pgqueue.claiming.claimer import Claimant, Claimed, Claimer
from pgqueue.claiming.free_lanes import ClaimLanes, FindChannels, FreeLanes
from pgqueue.engine.claim import Answer
from pgqueue.engine.values import Claim

LEASE = timedelta(seconds=30)


class _Session:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection


class _Ids:
    def register(self, connection: psycopg.Connection[Any]) -> UUID:
        return uuid4()


def claimer(connection: psycopg.Connection[Any], **options: Any) -> Claimer:
    """Return a claimer on this connection, of all channels if the options don't say otherwise."""
    given: dict[str, Any] = {"channels": None, "excluded": (), "lease": LEASE, **options}
    return Claimer(_Session(connection), _Ids(), **given)  # type: ignore[arg-type]


class FreeClaims:
    """The free lanes of one worker on this connection."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        channels: Sequence[str] | None = None,
        excluded: Sequence[str] = (),
        lease: timedelta = LEASE,
    ) -> None:
        self._claimer = claimer(connection, channels=channels, excluded=excluded, lease=lease)

    def claim(self, limit: int, *, thoroughly: bool = True) -> list[Claim]:
        claimed: list[Claimed] = []
        self._claimer.claim_free(self._claimer.connect(), claimed, limit, thoroughly)
        return [each.claim for each in claimed]

    def forget(self) -> None:
        self._claimer._free.forget()


class GovernedClaims:
    """The governed lanes of one worker on this connection."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        excluded: Sequence[str] = (),
        lease: timedelta = LEASE,
    ) -> None:
        self._claimer = claimer(connection, excluded=excluded, lease=lease)
        self._claimant: Claimant = self._claimer.connect()

    @property
    def wake_in(self) -> timedelta | None:
        return self._claimer.wake_in

    def claim(self, limit: int) -> list[Claim]:
        claimed: list[Claimed] = []
        self._claimer.claim_governed(self._claimer.connect(), claimed, limit)
        return [each.claim for each in claimed]


class PlannedClaims:
    """The steps of `FreeLanes`, done by functions, by a clock of the test's own."""

    def __init__(
        self,
        find_channels: Callable[[], Sequence[str]],
        take: Callable[[ClaimLanes], Answer],
        clock: Callable[[], float],
    ) -> None:
        self.lanes = FreeLanes()
        self._find_channels = find_channels
        self._take = take
        self._clock = clock

    @property
    def wake_in(self) -> timedelta | None:
        return self.lanes.wake_in

    def forget(self) -> None:
        self.lanes.forget()

    def claim(self, limit: int, *, thoroughly: bool = True) -> list[Claim]:
        self.lanes.begin(self._clock(), thoroughly=thoroughly)
        claims: list[Claim] = []
        while not claims and (step := self.lanes.plan(limit)) is not None:
            if isinstance(step, FindChannels):
                self.lanes.found(self._find_channels())
            else:
                answer = self._take(step)
                self.lanes.learn(step, answer)
                claims = answer.claims
        self.lanes.end(self._clock(), len(claims))
        return claims
