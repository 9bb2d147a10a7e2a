"""Claim on one connection, of free lanes and of governed ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from pgqueue.claiming.presence import Presence
from pgqueue.claiming.rounds import Rounds
from pgqueue.claiming.turns import LOOK_AGAIN_AT_LATEST, LOOK_AGAIN_COST, Turns
from pgqueue.connections import Session
from pgqueue.engine import claim as engine
from pgqueue.engine import claim_governed, route
from pgqueue.engine.claim import Claimed, Known, Search
from pgqueue.engine.claim_governed import Served
from pgqueue.engine.notifications import DUE_EARLIER
from pgqueue.engine.values import Claim, Connection

FEW = 10
"""Messages that are claimed at once when somebody says that there are some: if there are more, it
matters whose turn it is."""


class Claimant(NamedTuple):
    """A connection to claim on, and the id that this is done under."""

    connection: Connection
    worker_id: UUID


class Claimer:
    """Claims on the connection of its session, under a new id each time that is a new one.

    Args:
        session: whose connection nobody else claims on.
        presence: where it takes its ids from.
        channels: the ones to claim from; None: all, also those yet to come.
        excluded: ones not to claim from.
        lease: how long each message is leased.
        on_claimed: takes what each statement claimed, and when that was asked for, by the
            monotonic clock.
    """

    def __init__(
        self,
        session: Session,
        presence: Presence,
        *,
        channels: Sequence[str] | None,
        excluded: Sequence[str],
        lease: timedelta,
        on_claimed: Callable[[Sequence[Claim], float], None],
    ) -> None:
        self._session = session
        self._presence = presence
        self._channels = channels
        self._excluded = excluded
        self._lease = lease
        self._on_claimed = on_claimed
        self._turns = Turns(find_channels=self._find_channels, take=self._take)
        self._rounds = Rounds(
            look=lambda after: route.look(self._session.connection, after=after),
            route=lambda after: route.route(self._session.connection, after=after),
            adopt=lambda: route.adopt(self._session.connection),
            find_channels=self._find_governed_channels,
            take=self._take_governed,
        )
        self._governed_first = False
        self._expected: set[str] = set()
        self._expects_from = 0.0
        self._claimant: Claimant | None = None

    @property
    def wake_in(self) -> timedelta | None:
        """How long until a rate, another worker, or what a look costs lets something go on."""
        return min(
            (each for each in (self._turns.wake_in, self._rounds.wake_in) if each is not None),
            default=None,
        )

    def claim(self, limit: int, *, thoroughly: bool = True) -> int:
        """Claim up to `limit`, of free lanes and of governed ones; return how many.

        Each kind has a share by its channels, and what the other leaves; they begin in turn.

        Args:
            thoroughly: none means that nothing is there. Else it may also mean that looking
                everywhere is too expensive for now; see `wake_in`.
        """
        if claimed := self._claim_at_once(self.connect(), limit):
            return claimed
        free, governed = max(1, self._turns.channels), max(1, self._rounds.channels)
        self._governed_first = not self._governed_first
        if self._governed_first:
            share = max(1, limit * governed // (free + governed)) if self._turns.channels else limit
            claimed = len(self._rounds.claim(share))
            return claimed + self._claim_free(limit - claimed, thoroughly)
        share = max(1, limit * free // (free + governed)) if self._rounds.channels else limit
        claimed = self._claim_free(share, thoroughly)
        return claimed + (len(self._rounds.claim(limit - claimed)) if claimed < limit else 0)

    def _claim_free(self, limit: int, thoroughly: bool) -> int:
        return len(self._turns.claim(limit, thoroughly=thoroughly)) if limit else 0

    def serves(self, channel: str) -> bool:
        """Whether it claims from a channel, by its name as notified."""
        if channel == DUE_EARLIER:
            return False
        ours = self._channels is None or channel in self._channels
        return ours and channel not in self._excluded

    def expect(self, channel: str) -> None:
        """Begin the next claim with a channel that has something ready."""
        self._expected.add(channel)

    def _claim_at_once(self, claimant: Claimant, limit: int) -> int:
        """Claim what is expected, without looking whose turn it is: there was nothing before."""
        expected, self._expected = self._expected, set()
        if len(expected) != 1 or self._turns.channels or time.monotonic() < self._expects_from:
            return 0
        asked_at = time.monotonic()
        [channel] = expected
        claims = engine.claim_at_once(
            claimant.connection,
            channel,
            limit=min(limit, FEW),
            worker_id=claimant.worker_id,
            lease=self._lease,
        )
        # From the front, where a long transaction elsewhere may keep what is dead in the way.
        took = time.monotonic() - asked_at
        self._expects_from = asked_at + min(LOOK_AGAIN_COST * took, LOOK_AGAIN_AT_LATEST)
        if claims:
            self._on_claimed(claims, asked_at)
        return len(claims)

    def connect(self) -> Claimant:
        """Return what to claim with: a new connection takes a new id, and begins afresh."""
        connection = self._session.connection
        if self._claimant is None or self._claimant.connection is not connection:
            self._claimant = Claimant(connection, self._presence.register(connection))
            self._turns.forget()
            self._rounds.forget()
        return self._claimant

    def _find_channels(self) -> Sequence[str]:
        if self._channels is not None:
            return [name for name in self._channels if name not in self._excluded]
        return engine.channels(self._session.connection, excluded=self._excluded)

    def _take(self, known: Sequence[Known], searches: Sequence[Search], limit: int) -> Claimed:
        connection, worker_id = self._claimant or self.connect()
        asked_at = time.monotonic()
        claimed = engine.claim(
            connection,
            known=known,
            searched=searches,
            limit=limit,
            worker_id=worker_id,
            lease=self._lease,
        )
        self._on_claimed(claimed.claims, asked_at)
        return claimed

    def _find_governed_channels(self) -> Sequence[str]:
        found = route.channels(self._session.connection, excluded=self._excluded)
        return [name for name in found if self._channels is None or name in self._channels]

    def _take_governed(
        self, channel: str, after: datetime, limit: int, *, until: datetime | None
    ) -> Served:
        connection, worker_id = self._claimant or self.connect()
        asked_at = time.monotonic()
        served = claim_governed.claim(
            connection,
            channel,
            after,
            limit,
            until=until,
            worker_id=worker_id,
            lease=self._lease,
        )
        self._on_claimed(served.claims, asked_at)
        return served
