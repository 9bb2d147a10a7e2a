"""The interface of channels for code and operators: configure, limit, measure and empty them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from django.db import connections, transaction
from django.db.models import Q, QuerySet
from django.db.transaction import TransactionManagementError

from pgqueue import models
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import breakers, channels, workers
from pgqueue.engine.breakers import BreakerSeen
from pgqueue.engine.live_counts import Stats, measure, measure_all
from pgqueue.engine.operate import Operated
from pgqueue.exceptions import ChannelPaused, InvalidChannel, InvalidPolicy
from pgqueue.models import Message, Policy
from pgqueue.models.channel import IS_PAUSED
from pgqueue.models.fields import StatementTimestamp
from pgqueue.models.message import MessageQuerySet
from pgqueue.operating import purges
from pgqueue.operating.channel_options import Configuration, columns_of
from pgqueue.options.policies import checked as checked_limits
from pgqueue.states import State
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.instants import as_instant
from pgqueue.values.names import as_channel, as_key, as_path
from pgqueue.values.number_checks import as_age, as_duration, as_timedelta

WAITING = (State.HELD, State.SCHEDULED, State.READY)
LAST_ID = 2**63 - 1
NEED_A_POLICY = ("urgent_first", "age_after")
SHORTEST_NAP, LONGEST_NAP = 0.01, 0.5  # seconds

P = ParamSpec("P")
T = TypeVar("T")


def _needs_tables(
    method: Callable[Concatenate[Channel, P], T],
) -> Callable[Concatenate[Channel, P], T]:
    """Have a method that uses Django's queries raise NotMigrated where tables are missing."""

    @wraps(method)
    def wrapper(channel: Channel, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with needing_tables(channel.alias):
            return method(channel, *args, **kwargs)

    return wrapper


@dataclass(frozen=True)
class Channel:
    """A named stream of messages. It exists as soon as its name is used.

    Each method is a transaction of its own, or part of an open one. Methods that change many
    messages take 1 000 at a time.

    Args:
        name: the name of the channel.
        database: the alias of the queue's database; None: the one of `PGQUEUE`.

    Raises:
        InvalidChannel: the name is invalid.
        NotMigrated: (its methods) the database lacks our tables, or has old ones.
    """

    name: str
    database: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        try:
            as_channel(self.name)
        except (TypeError, ValueError) as error:
            raise InvalidChannel(f"The channel {shown(self.name)}: {error}") from error

    @_needs_tables
    def policy(
        self,
        *,
        max_running: int | None = None,
        rate: float | None = None,
        per: timedelta | float = 1,
        burst: int | None = None,
        max_size: int | None = None,
        weight: int | None = None,
        breaker: tuple[int, timedelta | float, timedelta | float] | None = None,
        key: str | None = None,
        each_key: bool = False,
    ) -> None:
        """Limit the channel as a whole, or each of its keys, or one.

        The call states the whole policy of its scope: an option that is left out sets no limit. The
        same call again changes nothing, so a project may make it at each start. Every claim that
        begins after its commit obeys the policy.

        Args:
            max_running: messages that run at once, on all workers together.
            rate: messages started in the time `per`.
            per: the time of `rate`, in seconds or as a timedelta.
            burst: starts that may follow each other at once after a pause; None: the starts of
                100 ms, and at least 1.
            max_size: messages that wait or run; no further ones are accepted.
            weight: messages of a key for each turn, 1 to 100, where other keys have one.
            breaker: a circuit breaker, as (failures, within, pause): after so many failed runs, 1
                to 1000, within the time `within`, no message of the scope starts for the time
                `pause`. Then one message is tried: its success lets the others start, and its
                failure begins the next pause. The times are seconds or timedeltas.
            key: limit this key alone; this replaces the policy for each key.
            each_key: limit each key. A message without a key belongs to no key.

        Raises:
            InvalidPolicy: an option has an invalid value, or no option sets a limit.
        """
        scope = _scope(key, each_key)
        if weight is not None and scope["scope"] == Policy.Scope.CHANNEL:
            raise InvalidPolicy(f"weight={weight!r}: only keys have one. Give key or each_key.")
        limits = checked_limits(
            max_running=max_running,
            rate=rate,
            per=per,
            burst=burst,
            max_size=max_size,
            weight=weight,
            breaker=breaker,
        )
        self._policies.bulk_create(
            [Policy(channel=self.name, **scope, **limits)],
            update_conflicts=True,
            unique_fields=["channel", "scope", "key"],
            update_fields=list(limits),
        )

    @_needs_tables
    def policies(self) -> list[Policy]:
        """Return the policies: for the channel as a whole, for each key, and for single keys."""
        return list(self._policies.order_by("scope", "key"))

    @_needs_tables
    def policy_of(self, key: str | None = None) -> Policy | None:
        """Return the policy of a key, its own or the one for each key; None: it has none.

        Without a key, return the policy of the channel as a whole, which holds as well.
        """
        if key is None:
            return self._policies.filter(scope=Policy.Scope.CHANNEL).first()
        if key == "":
            return None
        either = Q(scope=Policy.Scope.KEY, key=key) | Q(scope=Policy.Scope.EACH)
        return self._policies.filter(either).order_by("-scope").first()

    @_needs_tables
    def remove_policy(self, *, key: str | None = None, each_key: bool = False) -> bool:
        """Lift the limits of one scope; return whether there were any.

        Raises:
            InvalidPolicy: the arguments name no scope.
        """
        removed, _ = self._policies.filter(**_scope(key, each_key)).delete()
        return bool(removed)

    @_needs_tables
    def pause(self, *, until: datetime | timedelta | None = None) -> bool:
        """Stop workers from starting its messages; return whether it was not paused before.

        No claim that begins after its commit takes a message of the channel. A message that a
        worker has claimed before still runs.

        Args:
            until: when the pause ends by itself, as a time or as a timedelta from now, a hundred
                years at most; None: `resume()` ends it. A channel that is paused already gets this
                end in place of its own.

        Raises:
            InvalidChannel: until is neither, or has passed.
        """
        end = checked_option(_pause_end, "until", until, InvalidChannel)
        self._rows.get_or_create(name=self.name)
        return self._rows.pause(end) > 0

    @_needs_tables
    def resume(self) -> bool:
        """Let workers start its messages again; return whether something stopped them before.

        A pause with an end is over, too, and each circuit breaker is closed that was open.
        """
        with borrow(self.alias) as connection:
            closed = breakers.close(connection, self.name)
        return self._rows.resume() + closed > 0

    def breakers(self) -> list[BreakerSeen]:
        """Return the circuit breakers of the channel and its keys that have counted a failure.

        The first ones are not closed. There are 100 at most, and no others than of policies with a
        breaker.
        """
        with borrow(self.alias) as connection:
            return breakers.seen(connection, self.name)

    @_needs_tables
    def configure(self, **options: Unpack[Configuration]) -> None:
        """Change the given options of the channel, and leave its others as they are.

        Args:
            on_dead: the effect of a dead message in an ordered lane: it must "block" the later
                messages, or they "skip" it.
            on_full: the treatment of a message beyond a policy's max_size. "refuse": its producer
                gets ChannelFull. "drop": it is not stored.
            handler: the task that handles raw messages, or its import path. "": none.
            watched: notify `watch()` of each change of its messages.
            urgent_first: messages of priority 50 and more pass over the turns of the channel's
                keys. The channel must have a policy: only such channels have turns in a table.
            age_after: seconds or a timedelta. A message that has waited for so long passes over
                turns, too, as one of priority 50. None: none does. The channel must have a
                policy.
            retention: how long its history is kept: seconds or a timedelta, or a dict of times by
                outcome. Outcomes that the dict lacks have the setting `RETENTION`. None: all
                outcomes have this setting.
            dead_retention: how long its dead letters are kept before they are discarded, in seconds
                or as a timedelta; None: as the setting `DEAD_RETENTION` says.

        Raises:
            InvalidChannel: an option is unknown, has an invalid value, or needs a policy.
        """
        columns: dict[str, Any] = {}
        for name, value in options.items():
            columns |= columns_of(name, value)
            if value and name in NEED_A_POLICY:
                self._check_for_a_policy(name, value)
        self._rows.update_or_create(name=self.name, defaults=columns)

    def _check_for_a_policy(self, name: str, value: Any) -> None:
        of_keys = Q(weight__isnull=False) | ~Q(scope=Policy.Scope.KEY)
        if not self._policies.filter(of_keys, governs=True).exists():
            raise InvalidChannel(
                f"{name}={shown(value)}: it needs a policy for the channel or for each key. "
                "One that limits nothing is policy(weight=1, each_key=True)."
            )

    @_needs_tables
    def configured(self) -> models.Channel:
        """Return the configuration of the channel, or the defaults if it has none."""
        return self._rows.first() or models.Channel(name=self.name)

    def stats(self) -> Stats:
        """Return the present counts of the channel, in a tenth of a second for any size."""
        with borrow(self.alias) as connection:
            return measure(connection, [self.name])[self.name]

    @staticmethod
    def all_stats(*, database: str | None = None) -> dict[str, Stats]:
        """Return the counts of each channel that is configured or has a message, by its name.

        Only the first 10 000 channels by name are counted. The more channels there are, the less
        exact is each count.
        """
        with borrow(database or settings().database) as connection:
            return measure_all(connection, channels.in_use(connection, limit=channels.MOST))

    def drain(self, timeout: timedelta | float | None = None) -> bool:
        """Wait until no message is ready, running or due for a retry; return whether this was so.

        Delayed, held and dead messages do not count, nor do the messages of a paused channel.
        Workers do the work: this method only waits.

        Args:
            timeout: the longest wait, in seconds or as a timedelta; None: no limit.

        Raises:
            ValueError: the timeout is no duration.
            TransactionManagementError: a transaction is open, whose messages no worker sees.
        """
        if connections[self.alias].in_atomic_block:
            raise TransactionManagementError(
                "drain() is refused in a transaction: workers do not see its messages yet."
            )
        until = None
        if timeout is not None:
            until = (
                time.monotonic() + checked_option(as_timedelta, "timeout", timeout).total_seconds()
            )
        nap = SHORTEST_NAP
        while self._is_unfinished():
            left = LONGEST_NAP if until is None else until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(nap, left))
            nap = min(2 * nap, LONGEST_NAP)
        return True

    @_needs_tables
    def release(self, timeout: timedelta | float | None = None) -> bool:
        """Drain the channel, and delete its configuration and policies; return whether it drained.

        Messages that are delayed, held or dead stay, and are under no policy from then on. Workers
        forget its lanes once they are empty.

        Args:
            timeout: see `drain()`. If the channel does not drain in time, nothing is deleted.

        Raises:
            ChannelPaused: the channel is paused, or was paused while it drained.
            TransactionManagementError: see `drain()`.
        """
        self._check_for_a_pause(self._rows.paused())
        if not self.drain(timeout):
            return False
        with transaction.atomic(using=self.alias):
            self._policies.delete()
            # drain() waits for no paused channel: somebody may have paused it meanwhile.
            self._rows.exclude(IS_PAUSED).delete()
            self._check_for_a_pause(self._rows)
        return True

    def _check_for_a_pause(self, paused: models.channel.ChannelQuerySet) -> None:
        if paused.exists():
            raise ChannelPaused(f"The channel {self.name!r} is paused: resume it first.")

    def purge(self, states: Collection[str] = (*WAITING, State.DEAD)) -> int:
        """Discard the messages in these states; return how many there were.

        Messages that arrive meanwhile stay, and so do messages that another transaction has locked.
        It reads the whole table once, however few messages the channel has.

        Args:
            states: any states but running; `cancel()` asks running messages to stop.

        Raises:
            ValueError: a state is unknown, or running.
        """
        bounds = purges.bounds(self.alias, self.name)
        chosen = purges.purgeable_states(states)
        return purges.discard(self.alias, self.name, chosen, bounds, up_to=bounds.newest or 0)

    def purgeable(self, states: Collection[str] = (*WAITING, State.DEAD)) -> MessageQuerySet:
        """Return the messages that `purge()` would end now.

        Raises:
            ValueError: see `purge()`.
        """
        return self._messages.filter(state__in=purges.purgeable_states(states))

    def trim(self, *, older_than: timedelta | float | None = None, keep: int | None = None) -> int:
        """Discard waiting messages that are too old or too many; return how many there were.

        The oldest go first. Running messages and dead letters stay. It reads the whole table once,
        as `purge()` does.

        Args:
            older_than: discard messages that were enqueued longer ago: seconds or a timedelta.
            keep: discard all waiting messages but the newest `keep`.

        Raises:
            ValueError: neither is given, or one has an invalid value.
        """
        bounds = purges.bounds_of_surplus(self.alias, self.name, older_than=older_than, keep=keep)
        return purges.discard(self.alias, self.name, WAITING, bounds, up_to=bounds.surplus or 0)

    def trimmable(
        self, *, older_than: timedelta | float | None = None, keep: int | None = None
    ) -> MessageQuerySet:
        """Return the messages that `trim()` would end now.

        Raises:
            ValueError: see `trim()`.
        """
        bounds = purges.bounds_of_surplus(self.alias, self.name, older_than=older_than, keep=keep)
        meant = Q(pk__lte=bounds.surplus or 0)
        if bounds.before is not None:
            meant |= Q(pk__lte=bounds.newest or 0, created_at__lt=bounds.before)
        return self._messages.filter(meant, state__in=WAITING)

    def cancel(
        self,
        *ids: int,
        task: str | None = None,
        key: str | None = None,
        older_than: timedelta | float | None = None,
    ) -> Operated:
        """Cancel waiting messages, and ask running ones to stop. Dead letters stay as they are.

        Only messages that meet all given conditions are chosen.

        Args:
            ids: messages of this channel; none: all of its messages.
            task: the import path of the messages' task.
            key: the messages' key.
            older_than: choose messages that were enqueued longer ago: seconds or a timedelta.

        Returns:
            The ids of the cancelled messages, of the messages that were asked to stop, and of the
            messages that another transaction has locked.

        Raises:
            ValueError: an argument has an invalid value.
        """
        return self._chosen(ids, task, key, older_than).cancel()

    def replay(
        self,
        *ids: int,
        task: str | None = None,
        key: str | None = None,
        older_than: timedelta | float | None = None,
    ) -> Operated:
        """Make dead letters ready, with all their attempts; for the arguments see `cancel()`.

        Each keeps its id, which its metadata has as `replayed_from`, too.
        """
        return self._chosen(ids, task, key, older_than).dead().replay()

    def discard(
        self,
        *ids: int,
        task: str | None = None,
        key: str | None = None,
        older_than: timedelta | float | None = None,
    ) -> Operated:
        """Discard dead letters; for the arguments see `cancel()`."""
        return self._chosen(ids, task, key, older_than).dead().discard()

    @property
    def alias(self) -> str:
        """The alias of the channel's database."""
        return self.database or settings().database

    @property
    def _rows(self) -> models.channel.ChannelQuerySet:
        return models.Channel.objects.using(self.alias).filter(name=self.name)

    @property
    def _policies(self) -> QuerySet[Policy]:
        return Policy.objects.using(self.alias).filter(channel=self.name)

    def _chosen(
        self,
        ids: Collection[int],
        task: str | None,
        key: str | None,
        older_than: timedelta | float | None,
    ) -> MessageQuerySet:
        wanted: dict[str, Any] = {"pk__in": checked_option(_ids, "id", ids)} if ids else {}
        if task is not None:
            wanted["task"] = checked_option(as_path, "task", task)
        if key is not None:
            wanted["key"] = checked_option(as_key, "key", key)
        if older_than is not None:
            age = checked_option(as_age, "older_than", older_than)
            wanted["created_at__lt"] = StatementTimestamp() - age
        return self._messages.filter(**wanted)

    @property
    def _messages(self) -> MessageQuerySet:
        return Message.objects.using(self.alias).in_channel(self.name)

    def _is_unfinished(self) -> bool:
        with borrow(self.alias) as connection:
            return workers.unfinished(connection, channels=[self.name], excluded=[])


def _scope(key: str | None, each_key: bool) -> dict[str, str]:
    if each_key and key is not None:
        raise InvalidPolicy(f"key={key!r}: a policy for each key names none.")
    if each_key:
        return {"scope": Policy.Scope.EACH, "key": ""}
    if key is None:
        return {"scope": Policy.Scope.CHANNEL, "key": ""}
    if key == "":
        raise InvalidPolicy("key='': a message without a key belongs to the channel alone.")
    try:
        return {"scope": Policy.Scope.KEY, "key": as_key(key)}
    except (TypeError, ValueError) as error:
        raise InvalidPolicy(f"key={shown(key)}: {error}") from error


def _pause_end(value: Any) -> datetime | timedelta | None:
    if value is None:
        return None
    if isinstance(value, timedelta):
        return as_duration(value)
    if not isinstance(value, datetime):
        raise TypeError("it must be a datetime or a timedelta.")
    if (end := as_instant(value)) <= datetime.now(UTC):
        raise ValueError("it must be later than now.")
    return end


def _ids(values: Collection[Any]) -> list[int]:
    try:
        return [id for id in map(int, values) if id <= LAST_ID]
    except OverflowError as error:
        raise ValueError(str(error)) from error
