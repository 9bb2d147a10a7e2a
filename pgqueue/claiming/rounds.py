"""Whose turn it is among governed lanes: which channels the next claim takes from.

The order of the lanes is in their table. What is kept here is how far each channel's round was
gone through: claims leave dead index entries at its beginning, which a long transaction elsewhere
may keep alive. Turns that come late (their router committed late, or another worker had them
locked) are found by looking from the beginning again, as `turns` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from pgqueue.claiming.turns import pause_after
from pgqueue.engine.claim_governed import EVERY_TURN, Served
from pgqueue.engine.route import Look
from pgqueue.engine.values import Claim

BESIDE_ANOTHER = timedelta(milliseconds=10)
"""How soon to look again at what another worker has locked: what it leaves, it tells nobody of."""


class Take(Protocol):
    """Claims from a channel, after one turn and until another, up to a limit."""

    def __call__(
        self, channel: str, after: datetime, limit: int, *, until: datetime | None
    ) -> Served:
        """Do it."""


class Rounds:
    """Takes from the channels that have governed lanes, one after the other.

    Args:
        look: says what there is to route, after a bell.
        route: marks the lanes whose bells rang, after a bell; returns the last one.
        adopt: governs what was stored before its policy; None: somebody else is at it.
        find_channels: returns the channels to serve that have a lane to take from.
        take: claims.
    """

    def __init__(
        self,
        *,
        look: Callable[[int], Look],
        route: Callable[[int], int | None],
        adopt: Callable[[], int | None],
        find_channels: Callable[[], Sequence[str]],
        take: Take,
    ) -> None:
        self._look = look
        self._route = route
        self._adopt = adopt
        self._find_channels = find_channels
        self._take = take
        self._bell = 0
        self._turns: dict[str, datetime] = {}
        self._look_at = 0.0
        self._is_beside_another = False
        self.wake_in: timedelta | None = None
        """How long until a rate, or another worker, lets something go on, as far as is known."""

    def claim(self, limit: int) -> list[Claim]:
        """Claim up to `limit`; none means that every round was seen from its beginning."""
        is_from_the_front = self._route_bells()
        claims = self._go_round(limit)
        if not claims and not is_from_the_front:
            self._look_at = 0.0
            self._route_bells()
            claims = self._go_round(limit)
        if not claims:
            self._see_when_to_go_on()
        return claims

    def forget(self) -> None:
        """Begin at every front again."""
        self._look_at = 0.0

    @property
    def channels(self) -> int:
        """How many channels have a lane to take from, as far as is known."""
        return len(self._turns)

    def _route_bells(self) -> bool:
        """Bring the lanes up to date; say whether that was done from the front."""
        began = time.monotonic()
        is_from_the_front = began >= self._look_at
        if is_from_the_front:
            self._bell = 0
        self._is_beside_another = False
        has_rung, has_policies, self.wake_in = self._look(self._bell)
        is_ripe = self.wake_in is not None and self.wake_in <= timedelta()
        if is_from_the_front and has_policies:
            self._is_beside_another = self._adopt() is None
        if has_rung or is_ripe:
            # Somebody else at it leaves this as it is: the next look asks again.
            routed = self._route(self._bell)
            self._is_beside_another |= routed is None
            self._bell = routed or self._bell
        if has_rung or is_ripe or is_from_the_front:
            found = self._find_channels()
            known = {} if is_from_the_front else self._turns
            self._turns = {name: known.get(name, EVERY_TURN) for name in found}
        if is_from_the_front:
            now = time.monotonic()
            self._look_at = now + pause_after(now - began)
        return is_from_the_front

    def _see_when_to_go_on(self) -> None:
        """Say when the next look is worth while; others may have used a rate up since the last."""
        self.wake_in = self._look(self._bell).wake_in
        if self._is_beside_another:
            self.wake_in = min(self.wake_in or BESIDE_ANOTHER, BESIDE_ANOTHER)

    def _go_round(self, limit: int) -> list[Claim]:
        """Take a share from each channel, those first that waited longest."""
        claims: list[Claim] = []
        names = list(self._turns)
        for waiting, name in zip(range(len(names), 0, -1), names, strict=True):
            left = limit - len(claims)
            if left <= 0:
                break
            claims += self._take_from(name, max(1, left // waiting))
        return claims

    def _take_from(self, name: str, limit: int) -> list[Claim]:
        """Take from one channel, going on where lanes have no room after all."""
        until = None
        while True:
            served = self._take(name, self._turns[name], limit, until=until)
            if served.turn_at is None:
                self._is_beside_another |= served.is_beside_another
                del self._turns[name]
                return served.claims
            self._turns[name] = served.turn_at
            if served.claims:
                self._turns[name] = self._turns.pop(name)  # to the end: it was served
                return served.claims
            until = until or served.looked_at
