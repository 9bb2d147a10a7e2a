"""Plan which channels the next claim takes from among governed lanes, and from which turn.

The order of the lanes is in their table. `GovernedLanes` remembers how far the round of each
channel has come. Claims leave dead index entries at the round's beginning, which a long transaction
may keep alive. Some turns come late: their router committed late, or another worker had them
locked. The worker finds them by a look from the beginning again, as in `free_lanes`.

This file asks no database. For one claim, its caller first brings the lanes up to date.

    lanes.begin(now)
    lanes.looked(…)
    if lanes.must_adopt:
        lanes.adopted(…)
    if lanes.must_route:
        lanes.routed(…)
    if lanes.must_find_channels:
        lanes.found(…)
    lanes.is_up_to_date(now)

Then the caller does the turns that `plan` returns:

    while turn := lanes.plan(limit):
        lanes.learn(turn, …)
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from pgqueue.claiming.free_lanes import pause_after
from pgqueue.engine.claim_governed import EVERY_TURN, GovernedClaims
from pgqueue.engine.route import Look, Routed

BESIDE_ANOTHER = timedelta(milliseconds=10)
"""How soon to look again at lanes that another worker has locked: it does not notify when it
leaves messages."""


class Turn(NamedTuple):
    """A step: claim up to `limit` messages of a channel, from lanes whose turn is in this range."""

    channel: str
    after: datetime
    limit: int
    until: datetime | None


class GovernedLanes:
    """Remembers the channels with governed lanes of one worker, and how far each was served."""

    def __init__(self) -> None:
        self.bell = 0
        """The last bell that was routed; bells up to this one are known."""
        self.wake_in: timedelta | None = None
        """How long until a rate or another worker may let a message start, as far as is known."""
        self._after: dict[str, datetime] = {}
        self._look_at = 0.0
        # The state of the latest claim.
        self._began = 0.0
        self._look: Look | None = None
        self._is_from_the_front = False
        self._is_beside_another = False
        self._has_new_turns = False
        self._waiting: list[str] = []
        self._until: datetime | None = None

    @property
    def channels(self) -> int:
        """How many channels are known to have a lane to take from."""
        return len(self._after)

    @property
    def is_from_the_front(self) -> bool:
        """Whether the claim sees every round from its beginning."""
        return self._is_from_the_front

    def forget(self) -> None:
        """Begin every round at its beginning again."""
        self._look_at = 0.0

    def begin(self, now: float) -> None:
        """Begin a claim, at this time of a monotonic clock."""
        self._began = now
        self._is_from_the_front = now >= self._look_at
        if self._is_from_the_front:
            self.bell = 0
        self._is_beside_another = self._has_new_turns = False

    def looked(self, look: Look) -> None:
        """Take the result of a look for bells and policies after `bell`."""
        self._look = look
        self.wake_in = look.wake_in

    @property
    def must_adopt(self) -> bool:
        """Whether messages may be older than their policy."""
        return self._is_from_the_front and self._look is not None and self._look.has_policies

    def adopted(self, count: int | None) -> None:
        """Take the number of adopted messages; None: another worker is routing."""
        self._is_beside_another = count is None

    @property
    def must_route(self) -> bool:
        """Whether there are bells, or a throttled lane whose time has come."""
        return self._look is not None and (self._look.has_rung or self.is_ripe)

    @property
    def is_ripe(self) -> bool:
        """Whether the time of a throttled lane has come."""
        return self.wake_in is not None and self.wake_in <= timedelta()

    def routed(self, routed: Routed | None) -> None:
        """Take the result of routing; None: another worker is routing, look again soon."""
        self._is_beside_another |= routed is None
        self._has_new_turns = routed is None or routed.has_marked
        if routed is not None:
            self.bell = routed.after

    @property
    def must_find_channels(self) -> bool:
        """Whether the channels may have changed."""
        return self._has_new_turns or self._is_from_the_front

    def found(self, channels: Iterable[str]) -> None:
        """Take the channels that have a lane to take from."""
        known = {} if self._is_from_the_front else self._after
        self._after = {name: known.get(name, EVERY_TURN) for name in channels}

    def is_up_to_date(self, now: float) -> None:
        """End the look, and begin to plan turns; the longest waiting channels come first."""
        if self._is_from_the_front:
            self._look_at = now + pause_after(now - self._began)
        self._waiting = list(self._after)
        self._until = None

    def plan(self, limit: int) -> Turn | None:
        """Return the next turn; None: no channel is left, or no room.

        Args:
            limit: how many messages the claim may still take. Each channel gets an equal share.
        """
        if not self._waiting or limit <= 0:
            return None
        share = max(1, limit // len(self._waiting))
        channel = self._waiting[0]
        return Turn(channel, self._after[channel], share, self._until)

    def learn(self, turn: Turn, served: GovernedClaims) -> None:
        """Remember the answer to a turn."""
        channel = turn.channel
        self._is_beside_another |= served.is_beside_another
        if served.turn_at is None:
            del self._after[channel]
            self._go_on()
            return
        self._after[channel] = served.turn_at
        if served.claims:
            self._after[channel] = self._after.pop(channel)  # to the end: it was served
            self._go_on()
        else:  # the lanes that were reached have no room: try the lanes behind them
            self._until = self._until or served.looked_at

    def _go_on(self) -> None:
        self._waiting.pop(0)
        self._until = None

    def ended_with_nothing(self, wake_in: timedelta | None) -> None:
        """Take how long a rate delays the next start; other workers may have used the rate up."""
        self.wake_in = wake_in
        if self._is_beside_another:
            self.wake_in = min(wake_in or BESIDE_ANOTHER, BESIDE_ANOTHER)
