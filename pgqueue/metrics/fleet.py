"""Figures of the whole queue, read from its tables at each scrape.

Their number is bounded: at most `LIMIT` channels, tasks, groups and so on have figures. The figure
`pgqueue_scrape_left_out` counts the others. A series is left out as a whole, so no counter falls.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import psycopg
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pgqueue.conf import settings
from pgqueue.engine import (
    breakers,
    channels,
    exports,
    health,
    partitions,
    replication,
    run_statistics,
    steps,
)
from pgqueue.engine.live_counts import BOUND, Stats, by_tenant, measure_all
from pgqueue.engine.run_statistics import OTHER
from pgqueue.engine.values import Connection
from pgqueue.metrics import runs
from pgqueue.operating.health.work import names_of_duties

T = TypeVar("T")

LIMIT = 500
DISPATCH = "(dispatch)"
"""The label of the nameless group that makes messages for subscriptions."""
STATES = ("ready", "scheduled", "held", "running", "dead")

Part = Callable[[Connection, "Counter[str]"], Iterable[Metric]]


class Fleet(Collector):
    """Collects the figures of the queue on one connection, in the open transaction.

    A part whose reading fails, for example because the role lacks a privilege, is left out and
    marked in `pgqueue_scrape_failed`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def describe(self) -> Iterable[Metric]:
        """Return an empty list, so that registering does not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        left_out: Counter[str] = Counter(dict.fromkeys(PARTS, 0))
        failed = GaugeMetricFamily(
            "pgqueue_scrape_failed", "Whether a part of the figures is missing.", labels=["part"]
        )
        for name, part in PARTS.items():
            found: list[Metric] = []
            try:
                with self._connection.transaction():
                    found = list(part(self._connection, left_out))
            except psycopg.Error:
                if self._connection.closed:
                    raise
            failed.add_metric([name], not found)
            yield from found
        yield failed
        yield _gauge(
            "pgqueue_scrape_left_out",
            "The number of channels, tasks, … beyond the first 500. They have no series.",
            "part",
            left_out,
        )


def _messages(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    every = channels.in_use(connection, limit=channels.MOST)
    measured = measure_all(connection, every)
    left_out["messages"] = max(0, len(every) - LIMIT)
    names = sorted(sorted(every, key=lambda name: _urgency(measured[name]))[:LIMIT])
    found = {name: measured[name] for name in names}
    depth = GaugeMetricFamily(
        "pgqueue_messages",
        "Live messages. Beyond 10 000 in a channel and state, the number is an estimate.",
        labels=["channel", "state"],
    )
    for name, stats in found.items():
        for state in STATES:
            depth.add_metric([name, state], getattr(stats, state))
    yield depth
    yield _gauge(
        "pgqueue_oldest_ready_age_seconds",
        "Waiting time of the oldest ready message; 0: no message waits.",
        "channel",
        {
            name: stats.oldest_ready_age.total_seconds() if stats.oldest_ready_age else 0
            for name, stats in found.items()
        },
    )
    yield _gauge(
        "pgqueue_channel_paused",
        "Whether a channel is paused.",
        "channel",
        {name: stats.paused for name, stats in found.items()},
    )


def _breakers(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    yield _gauge(
        "pgqueue_breakers_open",
        "Circuit breakers of a channel and its keys that let no message start: they are open, or "
        "wait for the one message that is tried. Only channels with a breaker have a series.",
        "channel",
        _first("breakers", breakers.stopping(connection).items(), left_out),
    )


def _urgency(stats: Stats) -> tuple[float, int]:
    """Return a sort key: channels that need an alert come first, as others may be left out."""
    age = stats.oldest_ready_age.total_seconds() if stats.oldest_ready_age else 0.0
    return -age, -stats.dead


def _workers(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    lease = settings().lease.total_seconds()
    alive = Counter(dict.fromkeys(("worker", "consumer", "driver", "duties"), 0))
    seen = [each for each in health.workers(connection) if each.silent_for < lease]
    alive.update(each.kind for each in seen)
    yield _gauge(
        "pgqueue_workers",
        "Live processes: workers run tasks, consumers receive messages, drivers have workers on "
        "a cluster, and duties are processes that only do duties.",
        "kind",
        alive,
    )
    yield GaugeMetricFamily(
        "pgqueue_rows_left_out",
        "Rows that a process leaves out, as statements fail with them: the maximum of one process.",
        value=max((each.left_out for each in seen), default=0),
    )


def _runs(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    found = run_statistics.totals(connection)
    left_out["runs"] = max(0, len(found) - LIMIT)
    yield from runs.families(found, prefix="pgqueue", limit=LIMIT)


def _tenants(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    live = GaugeMetricFamily(
        "pgqueue_tenant_messages",
        "Live messages by tenant. In a table of more than 1000 pages, the number is an estimate.",
        labels=["tenant", "state"],
    )
    ended = CounterMetricFamily(
        "pgqueue_tenant_runs",
        "Runs that have ended, by tenant. Failed ones are retried, dead ones are not.",
        labels=["tenant", "outcome"],
    )
    options = settings()
    if options.tenant is not None and options.tenant_metrics:
        found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(STATES, 0))
        for each in by_tenant(connection, limit=options.tenant_metrics, other=OTHER):
            found[each.tenant][each.state] = each.number
        for name, numbers in found.items():
            for state, number in numbers.items():
                live.add_metric([name, state], number)
        for counts in run_statistics.tenant_totals(connection):
            for outcome, number in list(counts._asdict().items())[1:]:
                ended.add_metric([counts.tenant, outcome], number)
    yield from (live, ended)


def _duties(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    # After a newer version was taken back, nothing does the duties that only that version has.
    known = names_of_duties()
    seen = [each for each in health.duties(connection) if each.name in known]
    yield _gauge(
        "pgqueue_duty_late_seconds",
        "Time for which a duty has been due; 0: it is not due.",
        "duty",
        {each.name: max(each.late, 0) for each in seen},
    )
    yield _gauge(
        "pgqueue_duty_failing_seconds",
        "Time for which a duty has failed, since its last success; 0: it has not failed.",
        "duty",
        {each.name: max(each.failing_for or 0, 0) for each in seen},
    )


def _partitions(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "pgqueue_history_days_ahead",
        "Days after today for which history has partitions; -1: today has none.",
        value=health.days_ahead(connection),
    )


def _notifications(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    used, _ = health.notifications(connection)
    yield GaugeMetricFamily(
        "pgqueue_notification_queue_usage",
        "The full share of PostgreSQL's notification queue. At 1, commits with notifications fail.",
        value=used,
    )


def _schedules(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    yield _gauge(
        "pgqueue_schedule_late_seconds",
        "Time for which the next tick of a schedule has been due; 0: it is not due.",
        "schedule",
        _first("schedules", health.schedules(connection, limit=LIMIT + 1), left_out),
    )


def _flows(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    living, stopped = health.flows(connection, bound=BOUND)
    yield GaugeMetricFamily(
        "pgqueue_flows", "Flows that have not ended, up to 10 000.", value=living
    )
    yield GaugeMetricFamily(
        "pgqueue_flows_stopped",
        "Flows that wait for the replay or discard of a dead message. At most 10 000 dead letters "
        "are checked.",
        value=stopped,
    )


def _waits(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    found = steps.waits(connection, bound=BOUND, limit=LIMIT + 1)
    left_out["waits"] = max(0, len(found) - LIMIT)
    labels = ["task", "reason"]
    suspended = GaugeMetricFamily(
        "pgqueue_suspended",
        "Runs of durable tasks that wait: for a sleep, a signal, an event, other messages (call) "
        "or the next try of a step (retry). Of each reason, at most 10 000 are counted.",
        labels=labels,
    )
    longest = GaugeMetricFamily(
        "pgqueue_longest_wait_seconds",
        "Time since the longest wait of a durable task's runs began.",
        labels=labels,
    )
    for each in found[:LIMIT]:
        suspended.add_metric([each.task, each.reason], each.number)
        longest.add_metric([each.task, each.reason], max(each.seconds, 0))
    yield from (suspended, longest)


def _groups(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    groups = {each.name or DISPATCH: each for each in health.groups(connection)}
    told = _first("groups", groups.items(), left_out)
    yield _gauge(
        "pgqueue_group_lag_events",
        "Positions from the slowest partition of a group to the end of the log.",
        "group",
        {name: each.lag for name, each in told.items()},
    )
    yield _gauge(
        "pgqueue_group_lag_seconds",
        "Waiting time of the next event of a group; 0: no event waits.",
        "group",
        {name: max(each.seconds or 0, 0) for name, each in told.items()},
    )
    yield _gauge(
        "pgqueue_group_stopped_partitions",
        "Partitions of a group that a failed event has stopped.",
        "group",
        {name: each.stopped for name, each in told.items()},
    )


def _subscriptions(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    found = health.subscriptions(connection, limit=LIMIT + 1)
    yield _gauge(
        "pgqueue_subscription_lag_events",
        "Positions from a subscription that does not follow the dispatch to the end of the log.",
        "subscription",
        _first("subscriptions", found, left_out),
    )


def _webhooks(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    seen = {each.name: each for each in health.webhooks(connection)}
    told = _first("webhooks", seen.items(), left_out)
    yield _gauge(
        "pgqueue_webhook_stopped",
        "Whether a worker has paused or disabled a webhook. Only failing webhooks have a series.",
        "webhook",
        {name: bool(each.stopped) for name, each in told.items()},
    )
    yield _gauge(
        "pgqueue_webhook_failing_seconds",
        "Time for which the endpoint of a webhook has failed. Only failing webhooks have a series.",
        "webhook",
        {name: max(each.failing_for or 0, 0) for name, each in told.items()},
    )


def _feed(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "pgqueue_wal_lag_bytes",
        "Bytes of WAL that are kept for the WAL feed. Without a feed there is no series.",
    )
    active = GaugeMetricFamily(
        "pgqueue_wal_feed_active",
        "Whether a process follows the WAL. Without FEED = 'wal' there is no series.",
    )
    options = settings()
    if options.fed_by:
        state = replication.state(connection, options.replication_slot, options.publication)
        active.add_metric([], bool(state.slot and state.slot.is_active))
        if state.slot:
            lag.add_metric([], state.slot.kept or 0)
    yield from (lag, active)


def _exports(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    seen = {each.name: each for each in exports.targets(connection)}
    told = _first("exports", seen.items(), left_out)
    messages = {
        name: exports.behind(connection, each.last, limit=BOUND) for name, each in told.items()
    }
    events = {name: exports.events_behind(connection, each.event) for name, each in told.items()}
    yield _gauge(
        "pgqueue_export_age_seconds",
        "Time since the last export to a target.",
        "target",
        {name: max(each.silent_for, 0) for name, each in told.items()},
    )
    yield _gauge(
        "pgqueue_export_lag_messages",
        "Ended messages that a target of exports lacks, up to 10 000.",
        "target",
        {name: min(each.messages, BOUND) for name, each in messages.items()},
    )
    yield _gauge(
        "pgqueue_export_lag_events",
        "Positions from the last event of a target of exports to the end of the log.",
        "target",
        {name: each.events for name, each in events.items()},
    )
    yield _gauge(
        "pgqueue_export_lag_seconds",
        "Waiting time of the first ended message or event that a target of exports lacks; 0: it "
        "lacks none.",
        "target",
        {name: max(messages[name].seconds, events[name].seconds, 0) for name in told},
    )
    options = settings()
    kept = (
        partitions.waiting(connection, options.retention, exports.passed(connection))
        if options.export_before_drop
        else []
    )
    yield GaugeMetricFamily(
        "pgqueue_history_days_kept",
        "Days of history whose retention is over, and that are kept for an export.",
        value=len(kept),
    )


def _locks(connection: Connection, left_out: Counter[str]) -> Iterator[Metric]:
    seconds = [each.seconds or 0.0 for each in health.locks(connection)]
    yield GaugeMetricFamily(
        "pgqueue_lock_held_seconds",
        "The longest time for which a session has held a lock of the queue.",
        value=max([0.0, *seconds]),
    )


PARTS: Mapping[str, Part] = {
    "messages": _messages,
    "breakers": _breakers,
    "workers": _workers,
    "runs": _runs,
    "tenants": _tenants,
    "duties": _duties,
    "partitions": _partitions,
    "notifications": _notifications,
    "schedules": _schedules,
    "flows": _flows,
    "waits": _waits,
    "groups": _groups,
    "subscriptions": _subscriptions,
    "webhooks": _webhooks,
    "feed": _feed,
    "exports": _exports,
    "locks": _locks,
}


def _first(part: str, found: Iterable[tuple[str, T]], left_out: Counter[str]) -> dict[str, T]:
    rows = list(found)
    left_out[part] = max(0, len(rows) - LIMIT)
    return dict(rows[:LIMIT])


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family
