"""What the engine may do: messages in a dict, and nothing of how they are found, locked or woken.

The model says what is allowed, never what is chosen: which of the messages that may start a
claim takes is the engine's business; that one may start, and that none is missed, is not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple
from uuid import UUID

LIVE = ("held", "scheduled", "ready", "running")
MAX_ATTEMPTS = 3
MAX_LOST = 3


@dataclass(frozen=True)
class Message:
    """One that did not end yet.

    Attributes:
        is_due: its time has come, though it may not be promoted yet.
        is_over: its lease, or its hold, ran out, though it may not be noticed yet.
        is_unwanted: it ran when it was cancelled.
        has_begun: the worker that has it says that it runs.
        weight: how many messages it counts for.
    """

    id: int
    channel: str
    key: str
    state: str
    ordered: bool = False
    is_due: bool = True
    is_over: bool = False
    is_expired: bool = False
    is_unwanted: bool = False
    has_begun: bool = False
    attempt: int = 0
    failures: int = 0
    lost: int = 0
    worker_id: UUID | None = None
    dedupe_key: str | None = None
    debounced: bool = False
    weight: int = 1


@dataclass(frozen=True)
class Policy:
    """Limits; None: none."""

    max_running: int | None = None
    rate: int | None = None
    per: timedelta = timedelta(seconds=1)
    burst: int | None = None
    max_size: int | None = None
    weight: int | None = None


class Given(NamedTuple):
    """What a producer enqueues together.

    Attributes:
        lots: the key of each, and its dedupe key.
        conflict: what becomes of a dedupe key that is taken: existing, replaced or remembered.
    """

    channel: str
    lots: Sequence[tuple[str, str | None]]
    ordered: bool = False
    held: bool = False
    delayed: bool = False
    conflict: str = "existing"
    weight: int = 1


@dataclass
class Stored:
    """What is to come of it.

    Attributes:
        locks: what it needs alone; it waits for an open transaction that has one.
        waits_for: what it waits for likewise, and leaves to others.
        came_of: of each, in the order given; None: a channel is full, and nothing is stored.
        messages: as they are then, new ones under an id of their place in the order given: -1, -2 …
        remembered: dedupe keys, and of which message.
    """

    locks: set[Hashable] = field(default_factory=set)
    waits_for: set[Hashable] = field(default_factory=set)
    came_of: list[tuple[str, int]] | None = None
    messages: dict[int, Message] = field(default_factory=dict)
    remembered: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass
class World:
    """All there is, as one transaction sees it."""

    messages: dict[int, Message] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    policies: dict[tuple[str, str, str], Policy] = field(default_factory=dict)
    paused: dict[str, bool] = field(default_factory=dict)
    skipping: dict[str, bool] = field(default_factory=dict)
    remembered: dict[tuple[str, str], int] = field(default_factory=dict)

    def copy(self) -> World:
        """Return what may be changed without changing this one."""
        return World(**{name: dict(value) for name, value in vars(self).items()})

    def change(self, id: int, **fields: Any) -> None:
        """Change a message."""
        self.messages[id] = replace(self.messages[id], **fields)

    def end(self, id: int, outcome: str) -> None:
        """Move a message into history."""
        del self.messages[id]
        assert id not in self.ended
        self.ended[id] = outcome

    # Who may start

    def obstacle(self, message: Message) -> str | None:
        """Say why a message may not be started now, but for a rate."""
        if message.state != "ready":
            return f"it is {message.state}"
        if message.is_expired:
            return "it is expired"
        if self.paused.get(message.channel):
            return "its channel is paused"
        if message.ordered and (why := self._disorder(message)):
            return why
        for policy, running in (
            (self.policy_of(message.channel, message.key), self.running(message)),
            (self.policy_of(message.channel), self.running(message, whole=True)),
        ):
            weight = sum(self.messages[id].weight for id in running)
            most = policy.max_running
            # One that is heavier than the limit runs alone.
            if most is not None and weight + min(message.weight, most) > most:
                return f"{weight} run, and {policy} holds"
        return None

    def is_behind_a_heavy_one(self, message: Message) -> bool:
        """Say whether a heavy message may keep the room that a lighter one would find."""
        is_whole = self.policy_of(message.channel).max_running is not None
        return any(
            each.state == "ready"
            and each.weight > 1
            and each.id != message.id
            and each.channel == message.channel
            and (is_whole or each.key == message.key)
            and "holds" in (self.obstacle(each) or "")
            for each in self.messages.values()
        )

    def _disorder(self, message: Message) -> str | None:
        lane = [
            each
            for each in self.messages.values()
            if each.ordered and (each.channel, each.key) == (message.channel, message.key)
        ]
        for each in lane:
            if each.state == "running":
                return f"{each.id} runs in its lane"
            if each.id < message.id and each.state in LIVE:
                return f"{each.id} comes before it"
            is_dead = each.id < message.id and each.state == "dead"
            if is_dead and not self.skipping.get(message.channel):
                return f"the dead {each.id} blocks its lane"
        return None

    def running(self, message: Message, *, whole: bool = False) -> list[int]:
        """Return what runs in a message's lane, or in the whole of its channel."""
        return [
            each.id
            for each in self.messages.values()
            if each.state == "running"
            and each.channel == message.channel
            and (whole or each.key == message.key)
        ]

    def policy_of(self, channel: str, key: str | None = None) -> Policy:
        """Return the limits of a key, or of the channel as a whole."""
        if key is None:
            return self.policies.get((channel, "channel", ""), Policy())
        each = self.policies.get((channel, "each", ""), Policy()) if key else Policy()
        return self.policies.get((channel, "key", key), each)

    # What becomes of them

    def store(self, given: Given) -> Stored:
        """Say what is to come of enqueueing; this world is the worse for it."""
        stored = Stored()
        if len(given.lots) > 1:
            for key, _ in given.lots:
                self._has_room(given.channel, key, stored.locks)
        came_of: dict[int, tuple[str, int] | None] = {}
        for place in self._in_order(given.lots):
            came_of[place] = self._store(given, -1 - place, *given.lots[place], stored)
            self.messages |= stored.messages
            self.remembered |= stored.remembered
        if None not in came_of.values():
            stored.came_of = [of for _, of in sorted(came_of.items()) if of]
        return stored

    @staticmethod
    def _in_order(lots: Sequence[tuple[str, str | None]]) -> Iterable[int]:
        """The dedupe keys decide, so that there is no deadlock; those that have none come last."""
        return sorted(range(len(lots)), key=lambda place: (lots[place][1] or "~", place))

    def _store(
        self, given: Given, id: int, key: str, dedupe_key: str | None, stored: Stored
    ) -> tuple[str, int] | None:
        remembers, replaces = given.conflict == "remembered", given.conflict == "replaced"
        live = None
        if given.ordered:
            stored.locks.add(("order", given.channel, key))
        if dedupe_key:
            if (given.channel, dedupe_key) in self.remembered:
                return "existing", self.remembered[given.channel, dedupe_key]
            live = self._live(given.channel, dedupe_key)
            if live and not (remembers or replaces):
                return "existing", live.id
            stored.waits_for.add(("dedupe", given.channel, dedupe_key))
            if remembers:
                stored.locks.add(("memory", given.channel, dedupe_key))
            if live and live.id > 0:  # else it is of the same batch
                is_changed = replaces and live.state != "running"
                (stored.locks if is_changed else stored.waits_for).add(live.id)
        if not live and not self._has_room(given.channel, key, stored.locks):
            return None
        if dedupe_key and remembers:
            stored.remembered[given.channel, dedupe_key] = live.id if live else id
        if live and (not replaces or live.state == "running"):
            return "existing", live.id
        state = "held" if given.held else "scheduled" if given.delayed else "ready"
        new = Message(
            id, given.channel, key, state, given.ordered, dedupe_key=dedupe_key,
            is_due=not given.delayed, debounced=replaces and dedupe_key is not None,
            weight=given.weight,
        )  # fmt: skip
        if live:
            stored.messages[live.id] = replace(
                live, state=state, is_due=new.is_due, is_over=False, is_expired=False,
                debounced=True, weight=given.weight,
            )  # fmt: skip
            return "replaced", live.id
        stored.messages[id] = new
        if dedupe_key:
            stored.locks.add(("dedupe", given.channel, dedupe_key))
        return "stored", id

    def _live(self, channel: str, dedupe_key: str) -> Message | None:
        for each in self.messages.values():
            if (each.channel, each.dedupe_key) == (channel, dedupe_key) and each.state in LIVE:
                return each
        return None

    def _has_room(self, channel: str, key: str, locks: set[Hashable]) -> bool:
        has_room = True
        for scope in (None, key):
            most = self.policy_of(channel, scope).max_size
            if most is not None:
                locks.add(("size", channel, scope))
                live = [
                    each
                    for each in self.messages.values()
                    if each.channel == channel and each.state in LIVE and scope in (None, each.key)
                ]
                has_room = has_room and len(live) < most
        return has_room

    def start(self, id: int, worker_id: UUID) -> None:
        """Claim a message."""
        message = self.messages[id]
        self.change(
            id,
            state="running",
            attempt=message.attempt + 1,
            worker_id=worker_id,
            is_over=False,
            has_begun=False,
            dedupe_key=None if message.debounced else message.dedupe_key,
        )

    def holds(self, id: int, attempt: int, worker_id: UUID) -> bool:
        """Say whether a claim's lease is live: no other worker has run the message since."""
        message = self.messages.get(id)
        return message is not None and (message.state, message.attempt, message.worker_id) == (
            *("running", attempt),
            worker_id,
        )

    def settle(self, id: int, how: str) -> None:
        """End a run: complete, finish, bury, retry, release, or the latter two for later."""
        message = self.messages[id]
        if how == "complete":
            self.end(id, "succeeded")
        elif how == "finish":
            self.end(id, "discarded")
        elif message.is_unwanted:
            self.end(id, "cancelled")
        else:
            is_later = how.endswith("later")
            self.change(
                id,
                state="dead" if how == "bury" else "scheduled" if is_later else "ready",
                is_due=not is_later,
                is_over=False,
                failures=message.failures + (how.startswith("retry") or how == "bury"),
                worker_id=None,
            )

    def rescue(self, id: int) -> str:
        """Take a message from a worker that died; return what became of it."""
        message = self.messages[id]
        if message.is_unwanted:
            self.end(id, "cancelled")
            return "cancelled"
        if message.lost and not message.has_begun:
            self.change(id, state="ready", is_due=True, is_over=False, worker_id=None)
            return "ready"
        lost = message.lost + 1
        state = "dead" if lost >= MAX_LOST else "ready" if lost == 1 else "scheduled"
        self.change(
            id, state=state, lost=lost, is_due=state != "scheduled", is_over=False, worker_id=None
        )
        return state

    def cancel(self, id: int) -> None:
        """End a message, or ask its run to."""
        if self.messages[id].state == "running":
            self.change(id, is_unwanted=True)
        else:
            self.end(id, "cancelled")

    def let_go(self, id: int) -> None:
        """Commit a held message, or promote a delayed one."""
        self.change(id, state="ready" if self.messages[id].is_due else "scheduled", is_over=False)

    def discard(self, id: int) -> None:
        """End a dead letter."""
        self.end(id, "discarded")

    def has_failed_enough(self, ids: Iterable[int]) -> bool:
        """Say whether one of those has no attempt left after this one."""
        return any(self.messages[id].failures + 1 >= MAX_ATTEMPTS for id in ids)

    def run_now(self, id: int) -> None:
        """Make a delayed message ready."""
        self.change(id, state="ready", is_due=True)

    def release(self, id: int) -> None:
        """Take a message from its worker."""
        if self.messages[id].is_unwanted:
            self.end(id, "cancelled")
        else:
            self.change(id, state="ready", is_due=True, is_over=False)

    def replay(self, id: int) -> None:
        """Begin again with a dead letter."""
        self.change(id, state="ready", is_due=True, failures=0, lost=0, dedupe_key=None)

    def those(self, *states: str, **facts: bool) -> Iterator[int]:
        """Yield the ids of messages in some states, for which some facts are so."""
        for message in self.messages.values():
            if message.state in states and all(getattr(message, n) == facts[n] for n in facts):
                yield message.id


class Starts:
    """When messages were started: by the generic cell rate algorithm, counted here once more."""

    ROUNDING = timedelta(microseconds=100)

    def __init__(self) -> None:
        self._paid_until: dict[tuple[str, str | None], datetime] = {}

    def is_within(
        self, policy: Policy, channel: str, key: str | None, at: datetime, weight: int
    ) -> bool:
        """Count a start; say whether the rate allows it."""
        if policy.rate is None:
            return True
        gap = policy.per / policy.rate
        burst = policy.burst or max(1, ceil(0.1 / gap.total_seconds()))
        paid = max(self._paid_until.get((channel, key), at), at)
        self._paid_until[channel, key] = paid + weight * gap
        return paid + min(weight, burst) * gap <= at + burst * gap + self.ROUNDING

    def pass_time(self, passed: timedelta) -> None:
        """Let each start have been so much earlier."""
        self._paid_until = {lane: until - passed for lane, until in self._paid_until.items()}

    def begin_again(self, channel: str) -> None:
        """Forget a channel: its policies changed."""
        self._paid_until = {
            lane: until for lane, until in self._paid_until.items() if lane[0] != channel
        }
