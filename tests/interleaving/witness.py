"""The operations of sessions, in the order of their commits, and the promises that they break."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pgqueue.engine.values import Claim
from tests.factories import Connection

LIMITS = {"": 2, "a": 1, "b": 1, "c": 1}
"""Of the channel `limited`, and of its keys."""
RUNNING = """
SELECT channel, key, ordered, count(*) FROM pgqueue_message
WHERE state = 'running' AND channel IN ('limited', 'lanes') GROUP BY channel, key, ordered
"""
BREAKERS = """
SELECT key, open_until, open_until > statement_timestamp() FROM pgqueue_breaker
WHERE channel = 'fragile' AND open_until IS NOT NULL
"""
LIVE = "SELECT id FROM pgqueue_message WHERE id = ANY (%s) AND state <> 'dead'"
OVERTAKEN = """
SELECT earlier.id FROM pgqueue_message m JOIN pgqueue_message earlier
    ON earlier.channel = m.channel AND earlier.key = m.key AND earlier.id < m.id AND earlier.ordered
WHERE m.id = ANY (%s) AND m.ordered AND earlier.state <> 'dead'
"""


@dataclass
class Witness:
    """Notes the result of each operation, and finds broken promises.

    Attributes:
        observer: The session that reads committed rows.
        broken: The broken promises. Each sentence begins with the name of its promise.
        stored: The committed messages, in the order of their commits.
        undone: The messages whose transaction was rolled back.
        parents: The messages for which a child waits.
        holders: The claim that has each running message.
        claims: The claims of each session that it has not ended, by its number.
        cancelled: The messages that a cancel ended.
        asked: The running messages that a cancel asked to end.
        ended: How often each message succeeded.
        published: The committed events, each with the turns of its begin and its commit.
        signalled: The messages to which a signal was sent.
        probes: The claims that the breaker of a key of the channel `fragile` let through while it
            was open until a time.
        turn: The number of turns so far.
    """

    observer: Connection
    broken: list[str] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    lanes: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    parents: dict[int, list[int]] = field(default_factory=dict)
    holders: dict[int, Claim] = field(default_factory=dict)
    claims: dict[int, list[Claim]] = field(default_factory=lambda: defaultdict(list))
    cancelled: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    ended: Counter[int] = field(default_factory=Counter)
    published: list[tuple[str, int, int]] = field(default_factory=list)
    unpublished: set[str] = field(default_factory=set)
    signalled: set[int] = field(default_factory=set)
    probes: dict[tuple[str, datetime], list[Claim]] = field(
        default_factory=lambda: defaultdict(list)
    )
    turn: int = 0

    def chosen(self, number: int) -> list[int]:
        """Return one of the committed messages."""
        return [self.stored[number % len(self.stored)]] if self.stored else []

    def note_stored(self, channel: str, key: str, ids: Iterable[int], *, ordered: bool) -> None:
        """Note messages whose transaction has committed."""
        ids = list(ids)
        self.stored += ids
        lane = self.lanes[channel, key]
        if ordered and lane and min(ids) < lane[-1]:
            self.broken.append(f"order: {min(ids)} was committed after {lane[-1]}")
        lane += ids

    def note_claimed(self, session: int, claims: Collection[Claim]) -> None:
        """Note claims; a message that has a holder was claimed twice."""
        for each in claims:
            if each.id in self.holders:
                self.broken.append(f"claim: {each.id} was claimed while another claim held it")
            self.holders[each.id] = each
            self.claims[session].append(each)
        ids = [each.id for each in claims]
        awaited = [parent for id in ids for parent in self.parents.get(id, [])]
        for (parent,) in self.observer.execute(LIVE, [awaited]):
            self.broken.append(f"flow: a child of {parent} runs before {parent} has ended")
        for (earlier,) in self.observer.execute(OVERTAKEN, [ids]):
            self.broken.append(f"lane: {earlier} was overtaken in its lane by one of {ids}")

    def note_ended(self, claims: Iterable[Claim], ids: Collection[int], *, succeeded: bool) -> None:
        """Note which runs were settled."""
        for each in claims:
            if each.id not in ids:
                continue
            if self.holders.get(each.id) is not each:
                self.broken.append(f"fence: {each.id} was settled by a run without its lease")
            self.holders.pop(each.id, None)
            if succeeded:
                self.ended[each.id] += 1

    def breakers(self) -> dict[tuple[str, datetime], bool]:
        """Return until when each breaker is open, and whether this is in the future."""
        rows = self.observer.execute(BREAKERS)
        return {(key, until): is_ahead for key, until, is_ahead in rows}

    def note_let_through(
        self, before: Mapping[tuple[str, datetime], bool], claims: Collection[Claim]
    ) -> None:
        """Note which breakers let claims through.

        Args:
            before: the breakers of the channel before the claims. A breaker that has changed
                meanwhile is left out: the claim may have come before or after the change.
        """
        if not before or not claims:
            return
        for breaker in before.keys() & self.breakers().keys():
            key, _ = breaker
            through = [each for each in claims if key in ("", each.key)]
            if through and before[breaker]:
                self.broken.append(f"breaker: {through[0].id} began while that of {key!r} was open")
            probes = self.probes[breaker]
            probes += through
            now = [each.id for each in probes if self.holders.get(each.id) is each]
            if len(now) > 1:
                self.broken.append(f"breaker: that of {key!r} let {now} through at once")

    def note_failed(self, claims: Iterable[Claim]) -> None:
        """Note runs that failed: one failure opens the breaker of a key."""
        keys = {each.key for each in claims if each.channel == "fragile"}
        if not keys:
            return
        for key in keys - {key for key, _ in self.breakers()}:
            self.broken.append(f"breaker: that of {key!r} is closed after a failure")

    def note_taken_away(self, ids: Iterable[int]) -> None:
        """Note messages whose lease has ended, or that were cancelled."""
        for id in ids:
            self.holders.pop(id, None)

    def look(self) -> None:
        """Check what is promised at every moment."""
        running: Counter[str] = Counter()
        for channel, key, ordered, count in self.observer.execute(RUNNING):
            if channel == "limited":
                running.update({"": count, key: count})
            elif ordered and count > 1:
                self.broken.append(f"lane: {count} messages of lane {key} ran at once")
        for key, count in running.items():
            if count > LIMITS[key]:
                self.broken.append(
                    f"limit: {count} messages of limited {key}".rstrip() + " ran at once"
                )
