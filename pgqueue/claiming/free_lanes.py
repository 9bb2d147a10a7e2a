"""Plan which free lanes the next claim takes from, and from which position in each.

Channels take turns, and the keys within each channel: the messages of a claim are divided among
the channels, and a channel's share among its lanes.

For a channel with few lanes all of them are remembered, each with a mark: the last message taken
from it. The next claim resumes behind the mark, so it never walks the dead index entries that
claims leave behind. Latecomers before the mark have a higher priority, are retried, or come from a
transaction that committed late. The worker finds them by a look from the front. It looks at most
every 250 ms, and less often if a look is expensive.

While looks are expensive, the mark of an emptied lane is kept. A claim that finds nothing else
resumes there: new messages mostly come behind the mark, and the dead entries are skipped. So even
an idle worker spends only a part of its time on looks.

A channel with more lanes than a claim can take from is served like a wheel. A claim takes one
message from each of some lanes, the next claim from the following lanes, and after the last lane
the first one has its turn again.

This file asks no database. For one claim, its caller does the steps that `plan` returns, and passes
each result back:

    lanes.begin(now)
    while step := lanes.plan(limit):
        lanes.found(…) or lanes.learn(step, …)
    lanes.end(now, count)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from pgqueue.engine.claim import Answer, Known, Met, Search

LOOK_AGAIN = 0.25
"""Seconds from one look to the next, at least."""
LOOK_AGAIN_COST = 20
"""The pause after a look, as a multiple of the look's duration."""
LOOK_AGAIN_COST_WHEN_IDLE = 5
"""The pause after a look that found nothing, as a multiple of its duration."""
LOOK_AGAIN_AT_LATEST = 10.0
"""Seconds of the longest pause: a look may have been slow for another reason."""
EXPENSIVE = 0.02
"""Seconds from which on a look is expensive. Each message that it finds is worth as many again."""
RESTING = 100
"""Emptied lanes whose marks are kept."""
OVERLAP = timedelta(seconds=1)
"""The time before a kept mark that is searched again: transactions may commit late."""
EARLIEST = datetime.min.replace(tzinfo=UTC) + OVERLAP
REMEMBERED = 10_000
"""Channels whose last turn is remembered."""


class LaneMark(NamedTuple):
    """The position of the last message that was taken from a lane."""

    rank: int
    run_at: datetime
    id: int


class FindChannels(NamedTuple):
    """A step: find the channels that may have a ready message in a free lane."""


class ClaimLanes(NamedTuple):
    """A step: claim from known lanes, and from lanes that are searched."""

    known: Sequence[Known]
    searched: Sequence[Search]
    limit: int


@dataclass(slots=True)
class _Channel:
    """How far a channel has been served."""

    marks: dict[str, LaneMark] = field(default_factory=dict)
    searching: bool = True
    after: str | None = None

    def is_done(self) -> bool:
        """Return whether no lane with a message is known, and no search is left to do."""
        return not self.searching and not self.marks


LANE = attrgetter("channel", "key")


class FreeLanes:
    """Remembers the free lanes of one worker, and whose turn it is."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}
        self._resting: dict[tuple[str, str], LaneMark] = {}
        self._look_at = 0.0
        self._idle_look_at = 0.0
        self._is_expensive = False
        self._claims = 0
        self._served: dict[str, int] = {}
        self.wake_in: timedelta | None = None
        """How long until the next look, after a claim that found nothing and put off its look."""
        # The state of the latest claim.
        self._began = 0.0
        self._spares_looks = False
        self._must_look = True
        self._has_looked = False
        self._is_from_the_front = False
        self._wrapped: set[str] = set()

    @property
    def channels(self) -> int:
        """How many channels are known to have a ready message in a free lane."""
        return len(self._channels)

    def forget(self) -> None:
        """Begin at the front of every lane again, for a new connection."""
        self._channels.clear()
        self._resting.clear()
        self._is_expensive = False

    def begin(self, now: float, *, thoroughly: bool = True) -> None:
        """Begin a claim.

        Args:
            now: seconds of a monotonic clock.
            thoroughly: look at the front of every lane before the claim ends with nothing. If not,
                an expensive look may be put off; see `wake_in`.
        """
        self.wake_in = None
        self._began = now
        self._spares_looks = not thoroughly and self._is_expensive
        if self._spares_looks and not self._channels:
            self._recall()
        self._must_look = now >= self._look_at or not (self._channels or self._spares_looks)
        self._has_looked = self._is_from_the_front = False
        self._wrapped.clear()

    def plan(self, limit: int) -> FindChannels | ClaimLanes | None:
        """Return the next step of the claim; None: the claim is over."""
        if self._must_look:
            return FindChannels()
        if self._channels:
            return self._request(limit)
        if self._is_from_the_front:
            return None
        # A claim that resumed behind marks and found nothing may have missed latecomers.
        if self._spares_looks and self._began < self._idle_look_at:
            self.wake_in = timedelta(seconds=self._idle_look_at - self._began)
            self._has_looked = False  # not everywhere: the next claim looks again
            return None
        return FindChannels()

    def found(self, channels: Iterable[str]) -> None:
        """Take the channels that were found, and search each from its front.

        A channel that is served like a wheel goes on where it is, until the wheel has ended.
        """
        before = self._channels
        for name, state in before.items():
            for key, mark in state.marks.items():
                self._rest(name, key, mark)
        self._channels = {
            name: before[name] if name in before and before[name].after is not None else _Channel()
            for name in channels
        }
        is_second = self._has_looked or not self._must_look
        self._is_from_the_front = is_second or all(
            state.after is None for state in self._channels.values()
        )
        self._must_look, self._has_looked = False, True
        self._wrapped.clear()

    def learn(self, request: ClaimLanes, claimed: Answer) -> None:
        """Remember the answer to a request."""
        taken = Counter(map(LANE, claimed.claims))
        # Claims are ordered by (rank, run_at, id): the last one of a lane is its mark.
        last = dict(zip(map(LANE, claimed.claims), claimed.claims, strict=True))
        self._claims += 1
        for (name, key), claim in last.items():
            self._served.pop(name, None)  # to the end: it was served
            self._served[name] = self._claims
            marks = self._channels[name].marks
            marks.pop(key, None)  # to the end: it was served
            marks[key] = LaneMark(-claim.priority, claim.run_at, claim.id)
        for lane in request.known:
            if taken[lane.channel, lane.key] < lane.quota:
                mark = self._channels[lane.channel].marks.pop(lane.key)
                self._rest(lane.channel, lane.key, mark)
        for search in request.searched:
            self._learn_of(search, claimed.met.get(search.channel))
        _keep_last(self._served, REMEMBERED)
        for name in [name for name, state in self._channels.items() if state.is_done()]:
            del self._channels[name]

    def end(self, now: float, found: int) -> None:
        """End the claim, which found `found` messages."""
        if not self._has_looked:
            return
        took = now - self._began
        self._look_at = now + pause_after(took)
        self._is_expensive = took >= EXPENSIVE
        was_in_vain = took >= EXPENSIVE * (1 + found)
        pause = LOOK_AGAIN_COST_WHEN_IDLE * took if was_in_vain else 0
        self._idle_look_at = now + min(pause, LOOK_AGAIN_AT_LATEST)

    def _recall(self) -> None:
        """Go on with the lanes whose marks were kept."""
        for (name, key), mark in self._resting.items():
            state = self._channels.setdefault(name, _Channel(searching=False))
            state.marks[key] = mark

    def _rest(self, name: str, key: str, mark: LaneMark) -> None:
        """Keep the mark of a lane that seems to be empty."""
        lane = (name, key)
        if self._resting.get(lane) != mark:  # else no message came since the lane was recalled
            self._resting.pop(lane, None)
            # Behind a pooler times are in the session's time zone, where "a second before" may be
            # an hour off at the change to summer time.
            began = max(mark.run_at, EARLIEST).astimezone(UTC) - OVERLAP
            self._resting[lane] = LaneMark(mark.rank, began, 0)
        _keep_last(self._resting, RESTING)

    def _request(self, limit: int) -> ClaimLanes:
        # At most `limit` channels, the longest waiting first. So each gets room for a message, and
        # no channel loses its turn by being asked.
        names = sorted(self._channels, key=lambda name: self._served.get(name, 0))[:limit]
        share = limit // len(names)
        known, searched = [], []
        for name in names:
            state = self._channels[name]
            # If there are more lanes than room, the longest waiting come first.
            marks = list(state.marks.items())[:share]
            known += [Known(name, key, *mark, share // len(marks)) for key, mark in marks]
            if state.searching:
                # On a wheel each lane gives one message; at the front, few lanes share all.
                each = share if state.after is None else 1
                searched.append(Search(name, state.after, share, each))
        return ClaimLanes(known, searched, limit)

    def _learn_of(self, search: Search, met: Met | None) -> None:
        state = self._channels[search.channel]
        if met is not None and met.lanes >= search.room:
            # The search met more lanes than it could take from: go on behind the last one.
            state.after = met.last_key
            state.marks.clear()
        elif search.after is not None and search.channel not in self._wrapped:
            # The end of the wheel: go on at the front. A claim does so only once, since other
            # workers may have all lanes locked.
            self._wrapped.add(search.channel)
            state.after = None
            state.marks.clear()
        else:
            state.searching = False


def pause_after(took: float) -> float:
    """Return the seconds until the next look, after one that took `took` seconds."""
    return min(max(LOOK_AGAIN, LOOK_AGAIN_COST * took), LOOK_AGAIN_AT_LATEST)


def _keep_last(memory: dict[Any, Any], most: int) -> None:
    """Delete the oldest entries beyond `most`."""
    while len(memory) > most:
        del memory[next(iter(memory))]
