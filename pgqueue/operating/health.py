"""Check the queue's health for probes and monitors, at little cost: they ask every few seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from operator import itemgetter
from typing import Any

import psycopg
from django.db import Error
from psycopg.errors import InsufficientPrivilege

from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import lack_of
from pgqueue.duties.all import all_duties
from pgqueue.engine import channels, event_retention, exports, health, partitions, replication
from pgqueue.engine.live_counts import Stats, measure_all
from pgqueue.engine.values import Connection
from pgqueue.events import subscribing
from pgqueue.tasks import scheduling

PATIENCE = "10s"
DONE_AT_LEAST_EVERY = timedelta(hours=3)
"""Each duty must be done this often, even one that is postponed again and again after failures."""
SHOWN = 3
"""Stopped webhooks that are named, each with its reason."""
TRANSACTIONS = 10_000_000
"""Transactions that a replication slot may lie behind: the time of its lag is not known."""
MOST_NOTIFIED = 0.9
UNFOLLOWED_WAL = 64
"""Megabytes of WAL that may be kept while no process follows: a restart takes some seconds."""
MAKE_FEED = "see pgqueue_replication --status"
DISPATCH = "the dispatch"
"""The group of the log that makes messages for subscriptions; it has no name."""
OTHERS = {"consumer": "consumers", "driver": "drivers of a cluster", "duties": "for duties alone"}
"""The kinds of workers that run no tasks."""


class Status(StrEnum):
    """The result of a check. "Unknown" means that this role lacks a right: no reason to alarm."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAILING = "failing"


EXIT = {Status.OK: 0, Status.UNKNOWN: 0, Status.WARNING: 1, Status.FAILING: 2}


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """The limits of the checks.

    Args:
        host: count only workers of this host; None: workers of all hosts.
        min_workers: with fewer living workers that run tasks, the check fails.
        max_age: seconds that the oldest message may have been ready; from half of them on it warns.
        max_dead: with more dead letters, the check warns.
        max_late: seconds that a duty may have been due.
        min_days: days after today that need a partition of history. With fewer the check warns;
            with none it fails.
        max_bloat: with more dead rows in the table of live messages, the check warns.
        max_horizon: seconds for which a transaction may keep dead rows from being vacuumed.
        max_connections: the share of the connections that may be in use.
        max_export: seconds since the last export to each target, where retention waits for it.
        max_lag: seconds that a group's next event, or an event without a position, may have waited;
            from half of them on the check warns.
        max_wal: megabytes of WAL that the WAL feed may be behind.
        max_failing: seconds for which a webhook's endpoint may have failed.
        max_locked: seconds for which a session may keep a lock of the queue.
        max_busy: seconds for which a worker may have had no free thread.
        max_notify: the share of the queue of notifications that may be full; at 0.9 it fails.
    """

    host: str | None = None
    min_workers: int = 1
    max_age: float = 300
    max_dead: int = 100
    max_late: float = 300
    min_days: int = 3
    max_bloat: int = 1_000_000
    max_horizon: float = 3600
    max_connections: float = 0.9
    max_export: float = 172_800
    max_lag: float = 300
    max_wal: int = 1024
    max_failing: float = 300
    max_locked: float = 60
    max_busy: float = 3600
    max_notify: float = 0.25


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        said: the result in words.
        figures: the figures that the status depends on, in JSON's types.
    """

    name: str
    status: Status
    said: str
    figures: Mapping[str, Any] = field(default_factory=dict)


Judgement = tuple[Status, str, Mapping[str, Any]]


def examine(
    alias: str, limits: HealthLimits | None = None, names: Collection[str] | None = None
) -> list[Check]:
    """Return the results of all checks, or of the named ones.

    A check is unknown if the role lacks a right for it. It fails if its query fails for any other
    reason.

    Args:
        alias: the alias of the queue's database.
    """
    asked = {name: check for name, check in CHECKS.items() if names is None or name in names}
    try:
        with borrow(alias) as connection:
            queue = _Queue(alias, connection, limits or HealthLimits())
            return [_made(queue, name, check) for name, check in asked.items()]
    except (Error, psycopg.Error) as error:
        return [Check("database", Status.FAILING, f"can't be reached: {error}".strip())]


def worst(checks: Collection[Check]) -> Status:
    """Return the worst status of the checks."""
    order = list(Status)
    return max((check.status for check in checks), key=order.index, default=Status.OK)


@dataclass(frozen=True)
class _Queue:
    """The queue that the checks look at, and the limits."""

    alias: str
    connection: Connection
    limits: HealthLimits

    @cached_property
    def workers(self) -> Sequence[health.WorkerHealth]:
        """The processes with a heartbeat within a lease, on the host of the limits."""
        lease, host = settings().lease.total_seconds(), self.limits.host
        found = health.workers(self.connection)
        return [each for each in found if each.silent_for < lease and host in (None, each.host)]

    @cached_property
    def names(self) -> list[str]:
        """The channels; one more than `channels.MOST` where there are more."""
        return channels.in_use(self.connection, limit=channels.MOST + 1)

    @cached_property
    def stats(self) -> Mapping[str, Stats]:
        return measure_all(self.connection, self.names[: channels.MOST])

    @property
    def beyond(self) -> str:
        """A remark that not all channels were looked at; "": they were."""
        if len(self.names) <= channels.MOST:
            return ""
        return f"; of more channels, {channels.MOST} were looked at, from {self.names[0]}"


def _made(queue: _Queue, name: str, check: _Check) -> Check:
    connection = queue.connection
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT set_config('statement_timeout', %s, true)", [PATIENCE])
            return Check(name, *check(queue))
    except psycopg.Error as error:
        if connection.closed:
            raise
        reason = lack_of(error, queue.alias) or error.diag.message_primary or error
        said = f"the query failed: {reason}"
        is_hidden = isinstance(error, InsufficientPrivilege)
        return Check(name, Status.UNKNOWN if is_hidden else Status.FAILING, said)


def _workers(queue: _Queue) -> Judgement:
    seen = queue.workers
    alive = [each for each in seen if each.kind == "worker"]
    others = [each for each in seen if each.kind != "worker"]
    status = Status.OK if len(alive) >= queue.limits.min_workers else Status.FAILING
    versions = sorted({str(each.version) for each in alive})
    said = f"{len(alive)} alive" + (f", of version {' and '.join(versions)}" if alive else "")
    for kind, count in sorted(Counter(each.kind for each in others).items()):
        said += f"; {OTHERS[kind]}: {count}"
    if busy := [each for each in alive if each.busy_for > queue.limits.max_busy]:
        longest = max(busy, key=lambda each: each.busy_for)
        said += (
            f"; without a free thread: {len(busy)}, for {longest.busy_for:.0f} s the process "
            f"{longest.pid} on {longest.host}: its SIGUSR1 tells where they are"
        )
        status = max(status, Status.WARNING, key=list(Status).index)
    figures = {
        "alive": [each._asdict() for each in alive],
        "others": [each._asdict() for each in others],
    }
    return status, said, figures


def _age(queue: _Queue) -> Judgement:
    ages = {
        name: round(each.oldest_ready_age.total_seconds(), 3)
        for name, each in queue.stats.items()
        if each.oldest_ready_age is not None
    }
    # Messages of a paused channel wait on purpose.
    judged = {name: ages[name] for name in ages.keys() - health.paused(queue.connection)}
    if not judged:
        status = Status.UNKNOWN if queue.beyond else Status.OK
        return status, f"nothing waits{queue.beyond}", {"seconds": ages}
    name = max(judged, key=judged.__getitem__)
    status = _status(judged[name], warning=queue.limits.max_age / 2, failing=queue.limits.max_age)
    if queue.beyond and status == Status.OK:
        status = Status.UNKNOWN
    return status, f"{judged[name]:.0f} s in {name}{queue.beyond}", {"seconds": ages}


def _dead(queue: _Queue) -> Judgement:
    dead = {name: each.dead for name, each in queue.stats.items() if each.dead}
    about = any("dead" in each.estimated for each in queue.stats.values())
    status = _status(sum(dead.values()), warning=queue.limits.max_dead)
    said = f"{'about ' if about else ''}{sum(dead.values())}{queue.beyond}"
    return status, said, {"letters": dead, "is_estimate": about}


def _duties(queue: _Queue) -> Judgement:
    seen = {each.name: each for each in health.duties(queue.connection)}
    figures, overdue, failing, undone = {}, [], list[tuple[str, float]](), []
    for name in _names_of_duties():
        row = seen.get(name)
        done_ago, failing_for = (row.done_ago, row.failing_for) if row else (None, None)
        is_overdue = bool(seen) and (
            row is None
            or row.late > queue.limits.max_late
            or (done_ago is not None and done_ago > DONE_AT_LEAST_EVERY.total_seconds())
        )
        figures[name] = {
            "done_seconds_ago": done_ago,
            "failing_seconds": failing_for,
            "is_overdue": is_overdue,
        }
        overdue += [name] if is_overdue else []
        failing += [] if failing_for is None else [(name, failing_for)]
        undone += [name] if done_ago is None else []
    said = [f"overdue: {', '.join(overdue)}"] if overdue else []
    said += [f"{name} fails for {seconds:.0f} s, as the log says" for name, seconds in failing]
    longest = max((seconds for _, seconds in failing), default=0.0)
    if overdue or longest > queue.limits.max_late:
        return Status.FAILING, "; ".join(said), figures
    if failing:
        return Status.WARNING, "; ".join(said), figures
    if len(undone) == len(figures):
        return Status.UNKNOWN, "none was done yet: no worker has run here", figures
    said = [f"not done yet: {', '.join(undone)}"] if undone else ["all were done"]
    return Status.OK, "; ".join(said), figures


def _names_of_duties() -> list[str]:
    database = settings().database
    return [
        duty.name
        for duty in all_duties(database=database, scheduling=scheduling, subscribing=subscribing)
    ]


def _partitions(queue: _Queue) -> Judgement:
    days = health.days_ahead(queue.connection)
    status = Status.OK if days >= queue.limits.min_days else Status.WARNING
    return status if days > 0 else Status.FAILING, f"{days} days ahead", {"days_ahead": days}


def _bloat(queue: _Queue) -> Judgement:
    size = health.size(queue.connection)
    megabytes = (size.table_bytes + size.index_bytes) / 2**20
    status = _status(size.dead_rows, warning=queue.limits.max_bloat)
    return status, f"{size.dead_rows} dead rows, {megabytes:.0f} MB", size._asdict()


def _horizon(queue: _Queue) -> Judgement:
    holders, hidden = health.holders(queue.connection), health.hidden(queue.connection)
    figures = {"holders": [each._asdict() for each in holders[:10]], "hidden": hidden}
    for each in holders:
        if (each.seconds or 0) > queue.limits.max_horizon or (
            each.seconds is None and each.transactions > TRANSACTIONS
        ):
            since = f"{each.transactions} transactions"
            if each.seconds is not None:
                since = f"{each.seconds:.0f} s"
            return Status.WARNING, f"held back for {since} by a {each.kind}, {each.who}", figures
    if hidden:
        said = f"the details of {hidden} sessions are hidden: GRANT pg_read_all_stats"
        return Status.UNKNOWN, said, figures
    oldest = max((each.seconds or 0 for each in holders), default=0)
    return Status.OK, f"held back for {oldest:.0f} s", figures


def _connections(queue: _Queue) -> Judgement:
    used, most = health.connections(queue.connection)
    status = _status(used / most, warning=queue.limits.max_connections)
    return status, f"{used} of {most} in use", {"used": used, "most": most}


def _export(queue: _Queue) -> Judgement:
    if not settings().export_before_drop:
        return Status.OK, "retention waits for none", {}
    targets = exports.targets(queue.connection)
    exported = exports.passed(queue.connection)
    behind = exports.behind(queue.connection, exported)
    days = partitions.waiting(queue.connection, settings().retention, exported)
    figures = {
        "seconds_since": {each.name: each.silent_for for each in targets},
        "behind": behind._asdict(),
        "days_kept": [str(day) for day in days],
    }
    if not targets:
        said = "there is none, so no history is removed: run pgqueue_export --to DIR"
        return Status.FAILING, said, figures
    late = [each for each in targets if each.silent_for > queue.limits.max_export]
    last = (late or targets)[0]
    said = f"{last.name}: {last.silent_for:.0f} s ago"
    if behind.messages:
        many = min(behind.messages, exports.COUNTED)
        more = "more than " if behind.messages > many else ""
        said += f"; {more}{many} messages are not exported, the first for {behind.seconds:.0f} s"
    if days:
        said += f"; days of history that are kept for it: {len(days)}"
    if late or days:
        said += f": run pgqueue_export --to {last.name}, or forget that target with --forget"
        return Status.FAILING, said, figures
    return Status.OK, said, figures


def _groups(queue: _Queue) -> Judgement:
    seen = {each.name or DISPATCH: each for each in health.groups(queue.connection)}
    options = settings()
    kept_for = event_retention.waits_for(
        queue.connection,
        keep=options.event_retention,
        max_age=options.event_max_age,
        exports_first=options.export_before_drop,
    )
    figures = {
        "groups": {name: each._asdict() for name, each in seen.items()},
        "retention_waits_for": kept_for,
    }
    behind = {name: each.seconds for name, each in seen.items() if each.seconds is not None}
    said, seconds = "none is behind" if seen else "there is none", 0.0
    if behind:
        name, seconds = max(behind.items(), key=itemgetter(1))
        said = (
            f"{name}: its next event has waited for {seconds:.0f} s, {seen[name].lag} from the end"
        )
    limit = queue.limits.max_lag
    status = _status(seconds, warning=limit / 2, failing=limit)
    if stopped := [name for name, each in seen.items() if each.stopped]:
        said += f"; stopped by an event: {', '.join(stopped)}: run pgqueue_group resume"
        status = max(status, Status.WARNING, key=list(Status).index)
    if cut_off := [name for name, each in seen.items() if each.is_cut_off]:
        said += f"; events were removed before they came to them: {', '.join(cut_off)}"
        said += ": run pgqueue_group reset"
        status = Status.FAILING
    if kept_for:
        said += f"; events are kept beyond EVENT_RETENTION for {', '.join(kept_for)}"
        status = Status.FAILING
    return status, said, figures


def _feed(queue: _Queue) -> Judgement:
    options, limits = settings(), queue.limits
    if not options.fed_by:
        return Status.OK, "by poll", {"feed": options.feed}
    state = replication.state(queue.connection, options.replication_slot, options.publication)
    slot = state.slot
    figures = {
        "feed": options.feed,
        "wal_level": state.wal_level,
        "has_publication": state.has_publication,
        "has_inbox": state.has_inbox,
        "seconds_waiting": state.waiting,
        "slot": slot and slot._asdict(),
    }
    fault = _fault_of(state)
    if fault or slot is None:
        return Status.FAILING, f"{fault}: {MAKE_FEED}; events come by poll meanwhile", figures
    behind, kept, waited = (slot.lag or 0) / 2**20, (slot.kept or 0) / 2**20, state.waiting or 0.0
    said = f"{behind:.1f} MB of WAL behind, {kept:.1f} MB kept"
    if waited > limits.max_lag / 2:
        said += f"; an event has waited for its position for {waited:.0f} s"
    if not slot.is_active:
        said += "; nobody follows it: run pgqueue_replication; events come by poll meanwhile"
    if slot.is_endangered:
        said += "; this WAL will be removed soon: see max_slot_wal_keep_size"
    # Without a follower the WAL grows until the disk is full.
    most = limits.max_wal if slot.is_active else min(limits.max_wal, UNFOLLOWED_WAL)
    statuses = (
        _status(waited, warning=limits.max_lag / 2, failing=limits.max_lag),
        _status(kept, warning=limits.max_wal / 2, failing=most),
        Status.OK if slot.is_active else Status.WARNING,
        Status.FAILING if slot.is_endangered else Status.OK,
    )
    return max(statuses, key=list(Status).index), said, figures


def _fault_of(state: replication.FeedState) -> str:
    """Return why the feed does not work; "": it works."""
    if state.wal_level != "logical":
        return f"wal_level is {state.wal_level}"
    if not state.has_publication:
        return "the publication is missing"
    if not state.has_inbox:
        return "the publication lacks the table pgqueue_event_inbox"
    if state.slot is None:
        return "the slot is missing"
    if not state.slot.is_ours:
        return "the slot is of another database"
    return "the slot has lost its WAL" if state.slot.is_lost else ""


def _webhooks(queue: _Queue) -> Judgement:
    seen = health.webhooks(queue.connection)
    figures = {"webhooks": [each._asdict() for each in seen]}
    said = []
    if stopped := [each for each in seen if each.stopped]:
        why = "; ".join(f"{each.name}: {each.stopped}" for each in stopped[:SHOWN])
        said.append(f"{len(stopped)} stopped ({why}): resume them in the admin")
    if failing := [
        each
        for each in seen
        if not each.stopped and (each.failing_for or 0) > queue.limits.max_failing
    ]:
        first = max(failing, key=lambda each: each.failing_for or 0)
        said.append(f"{len(failing)} failing, {first.name} for {first.failing_for:.0f} s")
    return (Status.WARNING if said else Status.OK), "; ".join(said) or "none fails", figures


def _rows(queue: _Queue) -> Judgement:
    seen = [each for each in queue.workers if each.left_out]
    figures = {"processes": [each._asdict() for each in seen[:10]]}
    if not seen:
        return Status.OK, "none is left out", figures
    most = max(seen, key=lambda each: each.left_out)
    said = f"{most.left_out} left out by the process {most.pid} on {most.host}"
    return Status.WARNING, f"{said}, since statements fail with them: its log names them", figures


def _locks(queue: _Queue) -> Judgement:
    seen = health.locks(queue.connection)
    figures = {"locks": [each._asdict() for each in seen[:10]]}
    kept = [each for each in seen if (each.seconds or 0) > queue.limits.max_locked]
    if kept:
        first = kept[0]
        said = f"{first.what} is kept for {first.seconds:.0f} s by {first.who}"
        return Status.WARNING, f"{said}: pg_terminate_backend ends a session", figures
    if hidden := [each for each in seen if each.seconds is None]:
        said = f"{hidden[0].what} is kept by {hidden[0].who} for an unknown time"
        return Status.UNKNOWN, f"{said}: GRANT pg_read_all_stats", figures
    return Status.OK, "none is kept for long", figures


def _notifications(queue: _Queue) -> Judgement:
    used, oldest = health.notifications(queue.connection)
    figures = {"used": used, "oldest": oldest}
    said = f"{used:.0%} of their queue is full"
    status = _status(used, warning=queue.limits.max_notify, failing=MOST_NOTIFIED)
    if status != Status.OK:
        said += (
            ". Once the queue is full, every enqueue and publish fails. It is not emptied while a "
            f"listening session is in a transaction: {'; '.join(oldest) or 'none was seen'}"
        )
    return status, said, figures


_Check = Callable[[_Queue], Judgement]
CHECKS: Mapping[str, _Check] = {
    "workers": _workers,
    "age": _age,
    "dead": _dead,
    "duties": _duties,
    "partitions": _partitions,
    "bloat": _bloat,
    "horizon": _horizon,
    "connections": _connections,
    "export": _export,
    "groups": _groups,
    "feed": _feed,
    "webhooks": _webhooks,
    "locks": _locks,
    "rows": _rows,
    "notifications": _notifications,
}


def _status(value: float, *, warning: float, failing: float = float("inf")) -> Status:
    if value > failing:
        return Status.FAILING
    return Status.WARNING if value > warning else Status.OK
