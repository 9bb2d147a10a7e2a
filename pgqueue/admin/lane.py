"""The page of one key of a channel: its messages, and the reasons that hold them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from pgqueue.admin import breakers
from pgqueue.admin.links import to_page, to_row
from pgqueue.conf import settings
from pgqueue.engine import live_counts
from pgqueue.engine.breakers import BreakerSeen
from pgqueue.engine.live_counts import KeySeen
from pgqueue.listing import index
from pgqueue.listing.index import NEWEST_FIRST, NOT_IN_ORDER, without
from pgqueue.models import Gate, History, Lane, Message, Policy, TaskPause, Worker
from pgqueue.operating.channels import Channel
from pgqueue.states import State
from pgqueue.tasks.options import weight_of
from pgqueue.templatetags.pgqueue_admin import grouped
from pgqueue.values.instants import local
from pgqueue.values.readable import reading

SATURATED, THROTTLED = Lane.State.SATURATED, Lane.State.THROTTLED
SHOWN = 10
KINDS = 5
"""The number of kinds of messages that are counted, each by its own index."""


@dataclass(frozen=True)
class KeyState:
    """The current state of a key.

    Attributes:
        counted: The counts of its messages, up to a bound.
        is_all: Whether the counts include all of its messages.
        policy, of_channel: The limits of the key, and the limits of the channel as a whole.
        breakers: The breakers of both that have counted a failure.
    """

    channel: Channel
    key: str
    counted: KeySeen
    is_all: bool
    dead: int
    lane: Lane | None
    gate: Gate | None
    policy: Policy | None
    of_channel: Policy | None
    breakers: list[BreakerSeen]

    @classmethod
    def of(cls, name: str, key: str) -> KeyState:
        """Read the state of a key."""
        alias, channel = settings().database, Channel(name)
        bound = index.REACH // KINDS
        with without(alias, *NOT_IN_ORDER):
            found = live_counts.by_key(connections[alias], name, bound=bound, first=key, last=key)
            dead = len(_rows(name, key, State.DEAD)[:bound])
        counted = found[0] if found else KeySeen(key, 0, 0, 0)
        return cls(
            channel=channel,
            key=key,
            counted=counted,
            is_all=max(counted.running, counted.ready, counted.waiting, dead) < bound,
            dead=dead,
            lane=Lane.objects.using(alias).filter(channel=name, key=key).first(),
            gate=Gate.objects.using(alias).filter(channel=name).first(),
            policy=channel.policy_of(key),
            of_channel=channel.policy_of(),
            breakers=breakers.seen(name, keys=["", key]),
        )

    def why(self, request: HttpRequest) -> list[str]:
        """Return the reasons that hold its messages back, the strongest first; []: no reason."""
        stopped = self._breakers(request)
        return [
            *self._nobody(request),
            *stopped,
            *self._limits(),
            *self._order(request),
            *self._later(),
        ]

    def _nobody(self, request: HttpRequest) -> Iterator[str]:
        name = self.channel.name
        if self.channel.configured().is_paused:
            link = to_page("channel_page", name, name=name)
            yield format_html(_("The channel {} is paused: none of its messages is started."), link)
        yield from self._tasks()
        if not serving(name):
            yield format_html(
                _("No worker is alive that serves this channel: {}."),
                to_page("worker_changelist", _("workers")),
            )

    def _tasks(self) -> Iterator[str]:
        rows = TaskPause.objects.using(settings().database).filter(until__gt=timezone.now())
        if pauses := list(rows.order_by("task")[:SHOWN]):
            ready = _rows(self.channel.name, self.key, State.READY)[: index.REACH // KINDS]
            tasks = set(ready.values_list("task", flat=True))
            for each in pauses:
                if each.task in tasks:
                    yield format_html(
                        _("The task {} is paused: it was told to wait until {}."),
                        each.task,
                        _moment(each.until),
                    )

    def _breakers(self, request: HttpRequest) -> Iterator[str]:
        for each in self.breakers:
            if each.state != "closed":
                yield format_html(
                    _("The circuit breaker of {}: {}."),
                    breakers.scope_of(each),
                    breakers.in_words(request, each),
                )

    def _limits(self) -> Iterator[str]:
        yield from self._limits_of_channel()
        yield from self._limits_of_key()

    def _limits_of_channel(self) -> Iterator[str]:
        if self.of_channel and (most := self.of_channel.max_running):
            weights = _weights(most, channel=self.channel.name)
            running = len(weights)
            if running >= most:
                yield _(
                    "The channel as a whole is saturated: %(running)s of its messages run, and "
                    "%(most)s may (max_running)."
                ) % {"running": running, "most": most}
            elif sum(weights) >= most:
                yield _(
                    "The channel as a whole is saturated: its running messages count for "
                    "%(weight)s, and %(most)s may run (max_running)."
                ) % {"weight": sum(weights), "most": most}
        if self.gate and self.gate.wake_at and self.gate.wake_at > timezone.now():
            yield format_html(
                _("The rate of the channel as a whole lets the next one start at {}."),
                _moment(self.gate.wake_at),
            )

    def _limits_of_key(self) -> Iterator[str]:
        policy = self.policy
        if policy and policy.max_running and self.counted.running >= policy.max_running:
            yield _(
                "The key is saturated: %(running)s of its messages run, and %(most)s may "
                "(max_running)."
            ) % {"running": self.counted.running, "most": policy.max_running}
        elif policy and policy.max_running and self.lane and self.lane.state == SATURATED:
            weights = _weights(policy.max_running, channel=self.channel.name, key=self.counted.key)
            yield _(
                "The key has no room for the weight of its next message: its running messages "
                "count for %(weight)s, and %(most)s may run (max_running)."
            ) % {"weight": sum(weights), "most": policy.max_running}
        lane = self.lane
        if lane and lane.paused_until and lane.paused_until > timezone.now():
            yield format_html(
                _("The key is paused: a task was told to wait until {}."),
                _moment(lane.paused_until),
            )
        elif lane and self._is_throttled and lane.wake_at:
            yield format_html(
                _("The key is throttled: its rate lets the next one start at {}."),
                _moment(lane.wake_at),
            )
        if policy and policy.max_size and self.counted.size >= policy.max_size:
            yield _(
                "The key is full: %(size)s of its messages wait or run, and %(most)s may "
                "(max_size). New ones are not accepted."
            ) % {"size": self.counted.size, "most": policy.max_size}

    @property
    def _is_throttled(self) -> bool:
        """Whether the key waits for its rate, and not for its breaker."""
        is_stopped = any(each.key and each.stops for each in self.breakers)
        return self.lane is not None and self.lane.state == THROTTLED and not is_stopped

    def _order(self, request: HttpRequest) -> Iterator[str]:
        name, alias = self.channel.name, settings().database
        with without(alias, *NOT_IN_ORDER):
            rows = Message.objects.using(alias).filter(channel=name, key=self.key, ordered=True)
            live = rows.filter(state__in=[*State.values][:4]).order_by("id")
            first = live.values_list("id", "state").first()
            dead = rows.filter(state=State.DEAD).order_by("id").values_list("id", flat=True).first()
        if first is None:
            return
        blocks = self.channel.configured().on_dead == "block"
        if dead is not None and dead < first[0] and blocks:
            yield format_html(
                _("Its messages run in their order, and {} before them is dead: replay or end it."),
                to_row(request, "message", dead, f"#{dead}"),
            )
        elif first[1] != State.READY:
            yield format_html(
                _("Its messages run in their order, one at a time: the next ones wait for {}."),
                to_row(request, "message", first[0], f"#{first[0]} ({State(first[1]).label})"),
            )

    def _later(self) -> Iterator[str]:
        rows = _rows(self.channel.name, self.key, State.SCHEDULED)[: index.REACH // KINDS]
        with without(settings().database, *NOT_IN_ORDER), reading(connections[rows.db]):
            pairs = list(rows.values_list("run_at", "failures"))
        retries = [run_at for run_at, failures in pairs if failures]
        if retries:
            text = ngettext(
                "{count} message has failed, and waits for its next attempt, at {first}.",
                "{count} messages have failed, and wait for their next attempts, the first at "
                "{first}.",
                len(retries),
            )
            yield format_html(text, count=len(retries), first=_moment(min(retries)))
        if self.dead:
            yield (
                ngettext(
                    "%d message failed too often: it is dead, and waits for a replay.",
                    "%d messages failed too often: they are dead, and wait for a replay.",
                    self.dead,
                )
                % self.dead
            )

    @property
    def backlog(self) -> str:
        """Return the number of ready messages, here and of other keys, as a text."""
        ready = self.counted.ready
        if not ready:
            return _("Nothing of this key is ready.")
        text = ngettext("%s message is ready", "%s messages are ready", ready) % grouped(ready)
        others = self.channel.stats().ready - ready
        if others <= 0:
            return _("%s, and no other key of the channel has one.") % text
        return _("%(ready)s. About %(others)s of other keys are, too; keys take turns.") % {
            "ready": text,
            "others": grouped(others),
        }

    def tables(self) -> list[tuple[str, Any]]:
        """Return the first messages of each state, and the last ended ones."""
        name, key = self.channel.name, self.key
        with without(settings().database, *NOT_IN_ORDER):
            found = [
                (_("Running"), list(_rows(name, key, State.RUNNING)[:SHOWN])),
                (_("Ready, the next ones"), _next(name, key)),
                (_("Scheduled or held"), list(_waiting(name, key)[:SHOWN])),
                (_("Dead"), list(_rows(name, key, State.DEAD).order_by("id")[:SHOWN])),
            ]
        return [*found, (_("Ended lately"), ended({"channel": name, "key": key}))]


def serving(name: str) -> list[Worker]:
    """Return the living workers that serve a channel."""
    alive = Worker.objects.using(settings().database).alive(settings().lease)
    return [worker for worker in alive.order_by("host", "pid") if serves(worker, name)]


def serves(worker: Worker, channel: str) -> bool:
    """Return whether a worker takes messages of a channel."""
    own = worker.channels
    return (own is None or channel in own) and channel not in worker.excluded


def ended(wanted: dict[str, Any], shown: int = SHOWN) -> list[History]:
    """Return the last ended messages, among the newest ids that a page reads."""
    rows = History.objects.using(settings().database)
    found = NEWEST_FIRST.listing(rows, wanted).stretch().ids[:shown]
    with without(rows.db, "seqscan"):
        light = rows.defer("payload", "body", "metadata", "options", "errors", "progress", "result")
        return list(light.filter(pk__in=found).order_by("-pk"))


def _rows(channel: str, key: str, state: State) -> Any:
    rows = Message.objects.using(settings().database).filter(
        channel=channel, key=key, state=state.value
    )
    return rows.only(
        "task", "state", "run_at", "created_at", "started_at", "failures", "claimed_at"
    )


def _waiting(channel: str, key: str) -> Any:
    rows = Message.objects.using(settings().database)
    return rows.filter(channel=channel, key=key, state__in=["held", "scheduled"]).only(
        "task", "state", "run_at", "created_at", "started_at", "failures", "claimed_at"
    )


def _next(channel: str, key: str) -> list[Message]:
    """Return the first ready messages of each index."""
    ready = _rows(channel, key, State.READY)
    free = ready.filter(governed=False).order_by("rank", "run_at", "id")[:SHOWN]
    governed = ready.filter(governed=True, ordered=False).order_by("rank", "run_at", "id")[:SHOWN]
    live = [*State.values][:4]
    in_order = Message.objects.using(settings().database).filter(
        channel=channel, key=key, ordered=True, state__in=live
    )
    ordered = [each for each in in_order.order_by("id")[:SHOWN] if each.state == State.READY]
    found = {each.pk: each for each in (*free, *governed, *ordered)}
    return sorted(found.values(), key=lambda each: (each.run_at, each.pk))[:SHOWN]


def _weights(most: int, **where: str) -> list[int]:
    """Return the weights of running messages, of so many at most."""
    rows = Message.objects.using(settings().database).filter(state="running", **where)
    bound = min(most, index.REACH)
    with without(rows.db, *NOT_IN_ORDER):
        found = rows.order_by("channel", "key").values_list("options__weight", flat=True)[:bound]
        return [weight_of({"weight": each}) for each in found]


def _moment(moment: Any) -> str:
    return format_html("<time>{}</time>", f"{local(moment):%Y-%m-%d %H:%M:%S %Z}")
