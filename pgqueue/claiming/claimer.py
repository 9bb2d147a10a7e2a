"""Claim messages on one connection, from free lanes and from governed ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from psycopg import Error

from pgqueue.claiming.free_lanes import (
    EXPENSIVE,
    LOOK_AGAIN_AT_LATEST,
    LOOK_AGAIN_COST,
    FindChannels,
    FreeLanes,
)
from pgqueue.claiming.governed_lanes import GovernedLanes
from pgqueue.claiming.registration import Registration
from pgqueue.database.connections import Session
from pgqueue.engine import claim as engine
from pgqueue.engine import claim_governed, route
from pgqueue.engine.notifications import DUE_EARLIER
from pgqueue.engine.values import Claim, Connection

FEW = 10
"""The limit of a claim right after a notification. If more messages are ready, turns count."""


def never() -> bool:
    """Return False: no news overtakes a claim."""
    return False


class Claimant(NamedTuple):
    """A connection to claim on, and the worker id to claim under."""

    connection: Connection
    worker_id: UUID


class Claimed(NamedTuple):
    """A message that was claimed, and when that was asked for, by the monotonic clock."""

    claim: Claim
    asked_at: float

    @property
    def size(self) -> int:
        """The bytes of its payload and its body."""
        return len(self.claim.payload or b"") + len(self.claim.body or b"")


def size_left(claimed: Sequence[Claimed]) -> int:
    """Return how many more bytes a claim may bring after these messages; 0 or less: none."""
    return engine.BYTES - sum(each.size for each in claimed)


class Claimer:
    """Claims on the connection of its session, under a new id with each new connection.

    Args:
        session: Its connection is used for nothing else.
        registration: Gives the ids.
        channels: The channels to claim from; None: all, also future ones.
        excluded: Channels not to claim from.
        lease: The time for which each message is leased.
        takes_raw: Whether it claims raw messages whose channel names no handler, as consumers do.
        is_overtaken: Returns whether there is news for a new claim. Then a claim that has found
            nothing yet ends early. A step of a flow often ends while the claim after it still
            looks.
    """

    def __init__(
        self,
        session: Session,
        registration: Registration,
        *,
        channels: Sequence[str] | None,
        excluded: Sequence[str],
        lease: timedelta,
        takes_raw: bool = True,
        is_overtaken: Callable[[], bool] = never,
    ) -> None:
        self.session = session
        self._registration = registration
        self._channels = channels
        self._excluded = excluded
        self._lease = lease
        self._takes_raw = takes_raw
        self._is_overtaken = is_overtaken
        self._free = FreeLanes()
        self._governed = GovernedLanes()
        self._governed_first = False
        self._notified: set[str] = set()
        self._freed: set[str] = set()
        self._notified_claims_from = 0.0
        self._is_cheap_at_once = True
        self._claimant: Claimant | None = None

    @property
    def wake_in(self) -> timedelta | None:
        """How long until a rate, another worker or the cost of a look allows a new claim."""
        return min(
            (each for each in (self._free.wake_in, self._governed.wake_in) if each is not None),
            default=None,
        )

    def claim(self, limit: int, *, thoroughly: bool = True) -> list[Claimed]:
        """Claim up to `limit` messages, from free lanes and from governed ones.

        The claim ends early where more messages would exceed `engine.BYTES`, but takes at least
        one.

        Each kind of lane has a share of `limit` by the number of its channels, and the rest that
        the other kind leaves. The kinds begin in turn.

        Args:
            thoroughly: an empty result means that no message is ready. If False, it may also mean
                that a full look is too expensive at the moment; see `wake_in`.

        Raises:
            psycopg.Error: the database refused a statement, or is out of reach.
        """
        claimed: list[Claimed] = []
        claimant = self.connect()
        try:
            self._claim_notified(claimant, claimed, limit)
            if not claimed:
                self._claim_in_turn(claimant, claimed, limit, thoroughly)
        except Error:
            # Messages that were claimed before the error must run. If the error lasts, the next
            # claim raises it.
            if not claimed:
                raise
        return claimed

    def _claim_in_turn(
        self, claimant: Claimant, claimed: list[Claimed], limit: int, thoroughly: bool
    ) -> None:
        free, governed = max(1, self._free.channels), max(1, self._governed.channels)
        self._governed_first = not self._governed_first
        if self._governed_first:
            share = max(1, limit * governed // (free + governed)) if self._free.channels else limit
            self.claim_governed(claimant, claimed, share)
            if not claimed and self._is_overtaken():
                return
            if len(claimed) < limit and size_left(claimed) > 0:
                self.claim_free(claimant, claimed, limit - len(claimed), thoroughly)
        else:
            share = max(1, limit * free // (free + governed)) if self._governed.channels else limit
            self.claim_free(claimant, claimed, share, thoroughly)
            if len(claimed) < limit and size_left(claimed) > 0:
                self.claim_governed(claimant, claimed, limit - len(claimed))

    @property
    def wants_notice(self) -> bool:
        """Whether producers should notify this worker of new messages."""
        return self._registration.wants_notice

    def want_notice(self, wanted: bool) -> None:
        """Ask producers to notify this worker from now on, or no longer."""
        self._registration.want_notice(self.connect().connection, wanted)

    def serves(self, channel: str) -> bool:
        """Return whether it claims from a channel, by its name as notified."""
        if channel == DUE_EARLIER:
            return False
        is_included = self._channels is None or channel in self._channels
        return is_included and channel not in self._excluded

    def is_own(self, worker_id: str) -> bool:
        """Return whether it claims, or has claimed, under this id; the text as notified."""
        return self._registration.is_own(worker_id)

    def expect(self, channel: str) -> None:
        """Begin the next claim with this channel, of which a notification came."""
        self._notified.add(channel)

    def connect(self) -> Claimant:
        """Return the connection and the id to claim with; a new connection gets a new id.

        A claim on a new connection begins at the front of every lane.
        """
        connection = self.session.connection
        if self._claimant is None or self._claimant.connection is not connection:
            self._claimant = Claimant(connection, self._registration.register(connection))
            self._free.forget()
            self._governed.forget()
        return self._claimant

    def _claim_notified(self, claimant: Claimant, claimed: list[Claimed], limit: int) -> None:
        """Claim from a notified channel: it had no ready message before."""
        notified, self._notified = self._notified, set()
        if time.monotonic() >= self._notified_claims_from:
            self._claim_at_once(claimant, claimed, limit, notified)

    def _claim_freed(self, claimant: Claimant, claimed: list[Claimed], limit: int) -> None:
        """Claim messages of flows that this claim has released since it looked at their lane.

        They are there, so a cheap claim needs no pause after the last one.
        """
        freed, self._freed = self._freed, set()
        if self._is_cheap_at_once or time.monotonic() >= self._notified_claims_from:
            self._claim_at_once(claimant, claimed, limit, freed)

    def _claim_at_once(
        self, claimant: Claimant, claimed: list[Claimed], limit: int, channels: Collection[str]
    ) -> None:
        """Claim from a channel without planning, if it is the only one and no lane is known."""
        if len(channels) != 1 or self._free.channels:
            return
        asked_at = time.monotonic()
        claims = engine.claim_at_once(
            claimant.connection,
            *channels,
            limit=min(limit, FEW),
            worker_id=claimant.worker_id,
            lease=self._lease,
            takes_raw=self._takes_raw,
        )
        # The claim began at the front, where a long transaction may keep dead index entries.
        took = time.monotonic() - asked_at
        self._is_cheap_at_once = took < EXPENSIVE
        self._notified_claims_from = asked_at + min(LOOK_AGAIN_COST * took, LOOK_AGAIN_AT_LATEST)
        claimed += [Claimed(claim, asked_at) for claim in claims]

    def claim_free(
        self, claimant: Claimant, claimed: list[Claimed], limit: int, thoroughly: bool
    ) -> None:
        """Claim from free lanes; claim again where other workers had all lanes locked."""
        connection, worker_id = claimant
        lanes = self._free
        lanes.begin(time.monotonic(), thoroughly=thoroughly)
        found = 0
        while not found and (step := lanes.plan(limit)) is not None:
            if isinstance(step, FindChannels):
                lanes.found(self._free_channels(connection))
                continue
            asked_at = time.monotonic()
            result = engine.claim(
                connection,
                known=step.known,
                searched=step.searched,
                limit=step.limit,
                worker_id=worker_id,
                lease=self._lease,
                size=size_left(claimed),
                takes_raw=self._takes_raw,
            )
            claimed += [Claimed(claim, asked_at) for claim in result.claims]
            found = len(result.claims)
            lanes.learn(step, result)
        lanes.end(time.monotonic(), found)

    def _free_channels(self, connection: Connection) -> Sequence[str]:
        if self._channels is not None:
            return [name for name in self._channels if name not in self._excluded]
        return engine.channels(connection, excluded=self._excluded, takes_raw=self._takes_raw)

    def claim_governed(self, claimant: Claimant, claimed: list[Claimed], limit: int) -> None:
        """Claim from governed lanes; look at each round's beginning before returning nothing."""
        lanes, before = self._governed, len(claimed)
        has_asked = self._go_round(claimant, claimed, limit)
        if not claimed and self._is_overtaken():
            return
        if len(claimed) == before and not lanes.is_from_the_front:
            lanes.forget()
            has_asked |= self._go_round(claimant, claimed, limit)
        if len(claimed) == before:
            wake_in = lanes.wake_in
            if has_asked or lanes.must_route:
                wake_in = route.look(claimant.connection, after=lanes.bell).wake_in
            lanes.ended_with_nothing(wake_in)

    def _bring_lanes_up_to_date(self, connection: Connection) -> None:
        lanes = self._governed
        lanes.begin(time.monotonic())
        lanes.looked(route.look(connection, after=lanes.bell))
        if lanes.must_adopt:
            lanes.adopted(route.adopt(connection))
        if lanes.must_route:
            lanes.routed(routed := route.route(connection, after=lanes.bell, ripens=lanes.is_ripe))
            if routed is not None:
                self._freed |= {name for name in routed.channels if self.serves(name)}
        if lanes.must_find_channels:
            found = route.channels(connection, excluded=self._excluded)
            lanes.found(name for name in found if self._channels is None or name in self._channels)
        lanes.is_up_to_date(time.monotonic())

    def _go_round(self, claimant: Claimant, claimed: list[Claimed], limit: int) -> bool:
        """Look at the lanes, and claim by turns; return whether there was a turn."""
        connection, worker_id = claimant
        self._bring_lanes_up_to_date(connection)
        lanes, most, has_asked = self._governed, len(claimed) + limit, False
        while size_left(claimed) > 0 and (turn := lanes.plan(most - len(claimed))) is not None:
            asked_at = time.monotonic()
            served = claim_governed.claim(
                connection,
                turn.channel,
                turn.after,
                turn.limit,
                until=turn.until,
                worker_id=worker_id,
                lease=self._lease,
                size=size_left(claimed),
                takes_raw=self._takes_raw,
            )
            claimed += [Claimed(claim, asked_at) for claim in served.claims]
            lanes.learn(turn, served)
            has_asked = True
        if not claimed:
            # Before any other look: the next step of a chain is ready in its free lane.
            self._claim_freed(claimant, claimed, limit)
        return has_asked
