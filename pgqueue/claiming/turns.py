"""Whose turn it is: which lanes the next claim takes from, and from where in each.

Channels take turns, and the keys within each: a claim's messages are divided over the
channels, and a channel's share over its lanes.

A channel with few lanes keeps them all in mind, each with a mark: the last message taken.
The next claim goes on from there, so it never walks the dead index entries that claims
leave behind. Latecomers before the mark (a higher priority, a retry, a transaction that
committed late) are found by looking from the front again, at most every 250 ms, and less
often where that is expensive.

Where it is, a lane that was emptied rests with its mark, and who finds nothing else goes on from
there: what is new mostly comes behind it, and none of what is dead is in the way. Even an idle
worker then spends no more than a part of its time on looks.

A channel with more lanes than a claim can take from is gone through like a wheel: one
message of each lane, on to the next lanes, and at the end to the front again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from pgqueue.engine.claim import Claimed, Known, Met, Search
from pgqueue.engine.values import Claim

LOOK_AGAIN = 0.25  # seconds
LOOK_AGAIN_COST = 20  # times what looking cost
LOOK_AGAIN_COST_WHEN_IDLE = 5  # times what a look in vain cost
LOOK_AGAIN_AT_LATEST = 10.0  # seconds: one look that hung is no measure
EXPENSIVE = 0.02  # seconds; for each message that it found, so many more are not in vain
RESTING = 100  # lanes
OVERLAP = timedelta(seconds=1)  # before a mark: transactions that committed late
EARLIEST = datetime.min.replace(tzinfo=UTC) + OVERLAP
REMEMBERED = 10_000  # channels, of which it is known when they were served


class Mark(NamedTuple):
    """The last message that was taken of a lane."""

    rank: int
    run_at: datetime
    id: int


@dataclass(slots=True)
class _Channel:
    """How far a channel was taken."""

    marks: dict[str, Mark] = field(default_factory=dict)
    searching: bool = True
    after: str | None = None

    def is_done(self) -> bool:
        """Whether nothing is known to be left in it."""
        return not self.searching and not self.marks


LANE = attrgetter("channel", "key")
Take = Callable[[Sequence[Known], Sequence[Search], int], Claimed]


class Turns:
    """Decides what each claim asks for, and remembers what came of it.

    Args:
        find_channels: returns the channels to serve that may have something ready.
        take: claims; given lanes, searches and the limit.
    """

    def __init__(self, *, find_channels: Callable[[], Sequence[str]], take: Take) -> None:
        self._find_channels = find_channels
        self._take = take
        self._channels: dict[str, _Channel] = {}
        self._resting: dict[tuple[str, str], Mark] = {}
        self._look_at = 0.0
        self._idle_look_at = 0.0
        self._is_expensive = False
        self._claims = 0
        self._served: dict[str, int] = {}
        self.wake_in: timedelta | None = None
        """After a claim that found nothing, and left fronts unseen: how long until it is time."""

    def claim(self, limit: int, *, thoroughly: bool = True) -> list[Claim]:
        """Claim up to `limit` messages.

        Args:
            thoroughly: none means that every front was seen to be empty. Else it may also mean
                that a look is too expensive for now; see `wake_in`.
        """
        began = time.monotonic()
        self.wake_in = None
        spares = not thoroughly and self._is_expensive
        if spares and not self._channels:
            self._recall()
        looking = began >= self._look_at or not (self._channels or spares)
        if looking:
            self._look_from_the_front()
        is_from_the_front = looking and all(
            state.after is None for state in self._channels.values()
        )
        claims = self._go_on(limit)
        if not claims and not is_from_the_front:
            # A claim that resumed, and came back empty, proves nothing.
            if spares and began < self._idle_look_at:
                self.wake_in = timedelta(seconds=self._idle_look_at - began)
                return []
            looking = True
            self._look_from_the_front()
            claims = self._go_on(limit)
        if looking:
            self._note_look(began, len(claims))
        return claims

    def _note_look(self, began: float, found: int) -> None:
        now = time.monotonic()
        took = now - began
        self._look_at = now + pause_after(took)
        self._is_expensive = took >= EXPENSIVE
        was_in_vain = took >= EXPENSIVE * (1 + found)
        pause = LOOK_AGAIN_COST_WHEN_IDLE * took if was_in_vain else 0
        self._idle_look_at = now + min(pause, LOOK_AGAIN_AT_LATEST)

    @property
    def channels(self) -> int:
        """How many channels have something in a free lane, as far as is known."""
        return len(self._channels)

    def forget(self) -> None:
        """Begin at every front again."""
        self._channels.clear()
        self._resting.clear()
        self._is_expensive = False

    def _recall(self) -> None:
        """Go on with the lanes that rest."""
        for (name, key), mark in self._resting.items():
            state = self._channels.setdefault(name, _Channel(searching=False))
            state.marks[key] = mark

    def _rest(self, name: str, key: str, mark: Mark) -> None:
        """Keep the mark of a lane that nothing is known to be left in."""
        lane = (name, key)
        if self._resting.get(lane) != mark:  # else nothing came since it was recalled
            self._resting.pop(lane, None)
            # Behind a pooler it is in the session's zone, where a second before may be an hour off.
            began = max(mark.run_at, EARLIEST).astimezone(UTC) - OVERLAP
            self._resting[lane] = Mark(mark.rank, began, 0)
        _forget_first(self._resting, RESTING)

    def _look_from_the_front(self) -> None:
        """Find the channels, and search those anew that keep their lanes in mind."""
        before = self._channels
        for name, state in before.items():
            for key, mark in state.marks.items():
                self._rest(name, key, mark)
        self._channels = {
            name: before[name] if name in before and before[name].after is not None else _Channel()
            for name in self._find_channels()
        }

    def _go_on(self, limit: int) -> list[Claim]:
        """Claim once, or again where all that was met was locked by others, or used up."""
        ended: set[str] = set()
        while self._channels:
            known, searches = self._ask(limit)
            claimed = self._take(known, searches, limit)
            self._learn(known, searches, claimed, ended)
            if claimed.claims:
                return claimed.claims
        return []

    def _ask(self, limit: int) -> tuple[list[Known], list[Search]]:
        # As many channels as there is room for, those first that waited longest: so none is
        # asked for more than fits, and none that was asked loses its turn.
        names = sorted(self._channels, key=lambda name: self._served.get(name, 0))[:limit]
        share = limit // len(names)
        known, searches = [], []
        for name in names:
            state = self._channels[name]
            # More lanes than share: those first that waited longest, here too.
            marks = list(state.marks.items())[:share]
            known += [Known(name, key, *mark, share // len(marks)) for key, mark in marks]
            if state.searching:
                # On a wheel each lane gives one; from the front, few lanes share what there is.
                each = share if state.after is None else 1
                searches.append(Search(name, state.after, share, each))
        return known, searches

    def _learn(
        self,
        known: Sequence[Known],
        searches: Sequence[Search],
        claimed: Claimed,
        ended: set[str],
    ) -> None:
        taken = Counter(map(LANE, claimed.claims))
        # Claims come in the order of (rank, run_at, id): a lane's last one is its mark.
        last = dict(zip(map(LANE, claimed.claims), claimed.claims, strict=True))
        self._claims += 1
        for (name, key), claim in last.items():
            self._served.pop(name, None)  # to the end: it was served
            self._served[name] = self._claims
            marks = self._channels[name].marks
            marks.pop(key, None)  # to the end: it was served
            marks[key] = Mark(-claim.priority, claim.run_at, claim.id)
        for lane in known:
            if taken[lane.channel, lane.key] < lane.quota:
                mark = self._channels[lane.channel].marks.pop(lane.key)
                self._rest(lane.channel, lane.key, mark)
        for search in searches:
            self._learn_of(search, claimed.met.get(search.channel), ended)
        _forget_first(self._served, REMEMBERED)
        for name in [name for name, state in self._channels.items() if state.is_done()]:
            del self._channels[name]

    def _learn_of(self, search: Search, met: Met | None, ended: set[str]) -> None:
        state = self._channels[search.channel]
        if met is not None and met.lanes >= search.room:
            # More lanes than it could take from: on from the last one.
            state.after = met.last_key
            state.marks.clear()
        elif search.after is not None and search.channel not in ended:
            # The end of the wheel: to the front, but not round and round in one call, since
            # all that is met may be locked by others.
            ended.add(search.channel)
            state.after = None
            state.marks.clear()
        else:
            state.searching = False


def pause_after(took: float) -> float:
    """Return how many seconds to go on before the next look, after one that took so many."""
    return min(max(LOOK_AGAIN, LOOK_AGAIN_COST * took), LOOK_AGAIN_AT_LATEST)


def _forget_first(memory: dict[Any, Any], most: int) -> None:
    """Keep no more than so many, the last ones."""
    while len(memory) > most:
        del memory[next(iter(memory))]
