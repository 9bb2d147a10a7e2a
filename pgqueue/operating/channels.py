"""Channels, as code and operators meet them: configured, limited, looked at and emptied."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack

from django.db import connections, transaction
from django.db.models import Q, QuerySet
from django.db.transaction import TransactionManagementError

from pgqueue import models
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import channels, workers
from pgqueue.engine import purge as purging
from pgqueue.engine.live_counts import Stats, measure, measure_all
from pgqueue.engine.operate import Operated
from pgqueue.engine.purge import PurgeBounds
from pgqueue.exceptions import ChannelPaused, InvalidChannel, InvalidPolicy
from pgqueue.models import Message, Policy
from pgqueue.models.fields import StatementTimestamp
from pgqueue.models.message import MessageQuerySet
from pgqueue.options.policies import checked as checked_limits
from pgqueue.options.retention import as_retention
from pgqueue.states import Outcome, State
from pgqueue.values.error_words import checked_option, hint, shown
from pgqueue.values.names import as_channel, as_key, as_path
from pgqueue.values.number_checks import (
    as_age,
    as_count,
    as_duration,
    as_flag,
    as_timedelta,
)

WAITING = (State.HELD, State.SCHEDULED, State.READY)
LAST_ID = 2**63 - 1
SHORTEST_NAP, LONGEST_NAP = 0.01, 0.5  # seconds


P = ParamSpec("P")
T = TypeVar("T")


class Configuration(TypedDict, total=False):
    """What `Channel.configure()` takes, and documents."""

    on_dead: str
    on_full: str
    handler: Any
    watched: bool
    retention: timedelta | float | Mapping[str, timedelta | float] | None
    dead_retention: timedelta | float | None


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

    Its verbs are transactions of their own, or part of one that is open; those on many
    messages take 1 000 at a time.

    Args:
        name: of the channel.
        database: the alias of the queue's database; None: as `PGQUEUE` says.

    Raises:
        InvalidChannel: this can't be a channel's name.
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
        key: str | None = None,
        each_key: bool = False,
    ) -> None:
        """Limit the channel as a whole, or each of its keys, or one.

        This states the whole policy of that scope: what is left out is not limited. The same call
        again changes nothing, so it may be made whenever the project starts. A claim that begins
        after it is committed obeys it.

        Args:
            max_running: messages that run at once, on all workers together.
            rate: messages started in the time `per`.
            per: that time, in seconds or as a timedelta.
            burst: starts that may follow each other at once after a pause; None: those of 100 ms,
                and at least 1.
            max_size: messages that wait or run, beyond which none is accepted.
            weight: messages of a key for each turn, 1 to 100, where other keys have one.
            key: it is for this key alone, and replaces what holds for each.
            each_key: it is for each key. A message without a key belongs to no key.

        Raises:
            InvalidPolicy: an option has a value that can't be, or nothing is limited.
        """
        scope = _scope(key, each_key)
        if weight is not None and scope["scope"] == Policy.Scope.CHANNEL:
            raise InvalidPolicy(f"weight={weight!r}: it is for keys: give key or each_key.")
        limits = checked_limits(
            max_running=max_running,
            rate=rate,
            per=per,
            burst=burst,
            max_size=max_size,
            weight=weight,
        )
        self._policies.bulk_create(
            [Policy(channel=self.name, **scope, **limits)],
            update_conflicts=True,
            unique_fields=["channel", "scope", "key"],
            update_fields=list(limits),
        )

    @_needs_tables
    def policies(self) -> list[Policy]:
        """Return its policies: the channel's, the one for each key, those for one key."""
        return list(self._policies.order_by("scope", "key"))

    @_needs_tables
    def policy_of(self, key: str | None = None) -> Policy | None:
        """Return the policy that holds for a key, its own or the one for each; None: there is none.

        Without a key, that of the channel as a whole, which holds beside it.
        """
        if key is None:
            return self._policies.filter(scope=Policy.Scope.CHANNEL).first()
        if key == "":
            return None
        either = Q(scope=Policy.Scope.KEY, key=key) | Q(scope=Policy.Scope.EACH)
        return self._policies.filter(either).order_by("-scope").first()

    @_needs_tables
    def remove_policy(self, *, key: str | None = None, each_key: bool = False) -> bool:
        """Lift the limits of one scope; say whether there were any.

        Raises:
            InvalidPolicy: these don't name a scope.
        """
        removed, _ = self._policies.filter(**_scope(key, each_key)).delete()
        return bool(removed)

    @_needs_tables
    def pause(self) -> bool:
        """Have workers start none of its messages; say whether it wasn't paused before."""
        self._rows.get_or_create(name=self.name)
        return self._rows.pause() > 0

    @_needs_tables
    def resume(self) -> bool:
        """Have workers start its messages again; say whether it was paused before."""
        return self._rows.resume() > 0

    @_needs_tables
    def configure(self, **options: Unpack[Configuration]) -> None:
        """Change how the channel works, as far as options are given.

        Args:
            on_dead: what a dead message does to those behind it in an ordered lane: "block", or
                have them "skip" it.
            on_full: what becomes of a message beyond a policy's max_size: "refuse" it, so that its
                producer gets ChannelFull, or "drop" it.
            handler: the task that raw messages are given to, or its import path; "": none.
            watched: notify `watch()` of what happens to its messages.
            retention: how long its history is kept: seconds or a timedelta, or a dict of those by
                outcome, of which the others are kept as all are; None: as all.
            dead_retention: how long its dead letters are kept before they are discarded, in seconds
                or as a timedelta; None: as all.

        Raises:
            InvalidChannel: an option is unknown, or has a value that can't be.
        """
        columns: dict[str, Any] = {}
        for name, value in options.items():
            columns |= _configured(name, value)
        self._rows.update_or_create(name=self.name, defaults=columns)

    @_needs_tables
    def configured(self) -> models.Channel:
        """Return how the channel is configured: by the defaults, if it was not."""
        return self._rows.first() or models.Channel(name=self.name)

    def stats(self) -> Stats:
        """Return what it has now: in a tenth of a second, however much that is."""
        with borrow(self.alias) as connection:
            return measure(connection, [self.name])[self.name]

    @staticmethod
    def all_stats(*, database: str | None = None) -> dict[str, Stats]:
        """Return what each channel has that is configured or has a message, by its name.

        The first 10 000 by name; each is counted the less exactly the more they are.
        """
        with borrow(database or settings().database) as connection:
            return measure_all(connection, channels.in_use(connection, limit=channels.MOST))

    def drain(self, timeout: timedelta | float | None = None) -> bool:
        """Wait until nothing is ready, running or waiting for a retry; say whether it came to that.

        What is merely delayed does not count, nor what is held or dead, or what the channel keeps
        back while it is paused. Workers do the work: this only waits.

        Args:
            timeout: how long, in seconds or as a timedelta; None: for ever.

        Raises:
            ValueError: the timeout is no duration.
            TransactionManagementError: in a transaction, whose messages no worker can see.
        """
        if connections[self.alias].in_atomic_block:
            raise TransactionManagementError(
                "A channel is not drained in a transaction: workers can't see its messages yet."
            )
        until = None
        if timeout is not None:
            until = time.monotonic() + _argument("timeout", timeout, as_timedelta).total_seconds()
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
        """Drain the channel, and forget how it was configured and limited; say whether it drained.

        Messages that are delayed, held or dead stay, and are under no policy from then on. Workers
        forget its lanes once they are empty.

        Args:
            timeout: as `drain()` has it. If it is over, nothing is forgotten.

        Raises:
            ChannelPaused: it is paused.
            TransactionManagementError: as `drain()` has it.
        """
        if self._rows.filter(paused=True).exists():
            raise ChannelPaused(f"The channel {self.name!r} is paused: resume it first.")
        if not self.drain(timeout):
            return False
        with transaction.atomic(using=self.alias):
            self._policies.delete()
            self._rows.delete()
        return True

    def purge(self, states: Collection[str] = (*WAITING, State.DEAD)) -> int:
        """End what is in these states as discarded; return how many messages were.

        What came meanwhile stays, and so does what another transaction has locked. It reads the
        table once, however few of its messages are this channel's.

        Args:
            states: any but running; those are asked to stop by `cancel()`.

        Raises:
            ValueError: a state is unknown, or running.
        """
        bounds = self._bounds(keep=None, older_than=None)
        return self._discard(_purged(states), bounds, up_to=bounds.newest or 0)

    def purgeable(self, states: Collection[str] = (*WAITING, State.DEAD)) -> MessageQuerySet:
        """Return the messages that `purge()` would end now.

        Raises:
            ValueError: as `purge()` has it.
        """
        return self._messages.filter(state__in=_purged(states))

    def trim(self, *, older_than: timedelta | float | None = None, keep: int | None = None) -> int:
        """End as discarded what waits for too long, or is too much; return how many messages.

        The oldest go. What runs is let alone, and so are dead letters. It reads the table once, as
        `purge()` does.

        Args:
            older_than: what was enqueued longer ago goes: seconds or a timedelta.
            keep: no more than so many stay, those that were enqueued last.

        Raises:
            ValueError: there is neither, or one has a value that can't be.
        """
        bounds = self._trimmed(older_than, keep)
        return self._discard(WAITING, bounds, up_to=bounds.surplus or 0)

    def trimmable(
        self, *, older_than: timedelta | float | None = None, keep: int | None = None
    ) -> MessageQuerySet:
        """Return the messages that `trim()` would end now.

        Raises:
            ValueError: as `trim()` has it.
        """
        bounds = self._trimmed(older_than, keep)
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
        """End messages that wait, and ask running ones to stop. Dead letters are left as they are.

        Args:
            ids: of this channel; none: all of its messages, as far as the others don't say less.
            task: the import path of their task.
            key: theirs.
            older_than: enqueued longer ago, in seconds or as a timedelta.

        Returns:
            By ids, which were cancelled, which were asked to stop, and which another
            transaction has locked.

        Raises:
            ValueError: an argument has a value that can't be.
        """
        return self._chosen(ids, task, key, older_than).cancel()

    def replay(
        self,
        *ids: int,
        task: str | None = None,
        key: str | None = None,
        older_than: timedelta | float | None = None,
    ) -> Operated:
        """Make dead letters ready, with all attempts before them; as `cancel()` chooses them.

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
        """End dead letters for good; as `cancel()` chooses them."""
        return self._chosen(ids, task, key, older_than).dead().discard()

    @property
    def alias(self) -> str:
        """The database that it is in."""
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
        wanted: dict[str, Any] = {"pk__in": _argument("id", ids, _ids)} if ids else {}
        if task is not None:
            wanted["task"] = _argument("task", task, as_path)
        if key is not None:
            wanted["key"] = _argument("key", key, as_key)
        if older_than is not None:
            age = _argument("older_than", older_than, as_age)
            wanted["created_at__lt"] = StatementTimestamp() - age
        return self._messages.filter(**wanted)

    @property
    def _messages(self) -> MessageQuerySet:
        return Message.objects.using(self.alias).in_channel(self.name)

    def _trimmed(self, older_than: timedelta | float | None, keep: int | None) -> PurgeBounds:
        """Return what is too old, or too much.

        Raises:
            ValueError: there is neither, or one has a value that can't be.
        """
        if older_than is None and keep is None:
            raise ValueError("Give older_than, or keep, or both.")
        age = None if older_than is None else _argument("older_than", older_than, as_age)
        keep = None if keep is None else _argument("keep", keep, partial(as_count, least=0))
        return self._bounds(keep=keep, older_than=age)

    def _is_unfinished(self) -> bool:
        with borrow(self.alias) as connection:
            return workers.unfinished(connection, channels=[self.name], excluded=[])

    def _bounds(self, *, keep: int | None, older_than: timedelta | None) -> PurgeBounds:
        with borrow(self.alias) as connection:
            return purging.bounds(connection, self.name, keep=keep, older_than=older_than)

    def _discard(self, states: Collection[State], bounds: PurgeBounds, *, up_to: int) -> int:
        total, newest = 0, bounds.newest or 0
        last: int | None = 0
        while last is not None and last < newest:
            with borrow(self.alias) as connection:
                step = purging.discard(
                    connection,
                    self.name,
                    states=states,
                    after=last,
                    up_to=up_to,
                    before=bounds.before,
                )
            total, last = total + step.ended, step.last
        return total


def _purged(states: Collection[str]) -> set[State]:
    """Return the states that are purged.

    Raises:
        ValueError: one is unknown, or running.
    """
    meant = {State(state) for state in states}
    if State.RUNNING in meant:
        raise ValueError("What runs can't be purged: cancel() asks it to stop.")
    return meant


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


def _argument(name: str, value: Any, check: Callable[[Any], T]) -> T:
    """Return what `check` makes of an argument.

    Raises:
        ValueError: it has a value that can't be.
    """
    return checked_option(check, name, value)


def _ids(values: Collection[Any]) -> list[int]:
    try:
        return [id for id in map(int, values) if id <= LAST_ID]
    except OverflowError as error:
        raise ValueError(str(error)) from error


def _configured(name: str, value: Any) -> dict[str, Any]:
    """Return the columns that an option is kept in."""
    if name not in _OPTIONS:
        raise InvalidChannel(f"A channel has no option {name!r}. {hint(name, _OPTIONS)}")
    try:
        checked = _OPTIONS[name](value)
    except (TypeError, ValueError) as error:
        raise InvalidChannel(f"{name}={shown(value)}: {error}") from error
    return checked if isinstance(checked, dict) else {name: checked}


def _one_of(words: Collection[str]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"it must be {' or '.join(map(repr, words))}.")
        return str(value)

    return check


def _handler(value: Any) -> str:
    if getattr(value, "encrypted", False):
        raise ValueError("it is encrypted, and raw messages are stored as they are sent.")
    path = getattr(value, "name", value)
    if not isinstance(path, str):
        raise TypeError("it must be a task, or the import path of one.")
    return as_path(path)


def _keep(value: Any) -> timedelta | None:
    return None if value is None else as_duration(value)


def _retention(value: Any) -> dict[str, timedelta | None]:
    """Return the columns, all of them: it is stated as a whole."""
    is_by_outcome = isinstance(value, Mapping)
    by_outcome = as_retention(value) if is_by_outcome else {}
    return {
        "retention": None if is_by_outcome else _keep(value),
        **{f"retention_{outcome}": by_outcome.get(outcome) for outcome in Outcome.values},
    }


_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "on_dead": _one_of(models.Channel.OnDead.values),
    "on_full": _one_of(models.Channel.OnFull.values),
    "handler": _handler,
    "watched": as_flag,
    "retention": _retention,
    "dead_retention": _keep,
}
