"""Counts of runs by channel and task: workers add them, a duty sums them up, and pages read them.

A histogram has `BUCKETS` counts: of durations up to 1, 2, 4, … milliseconds, and of longer ones.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import in_short
from pgqueue.engine.culprits import (
    Part,
    apart,
    delete,
    left_out,
    may_be_a_row,
    search,
    shown,
)
from pgqueue.engine.values import Connection, Cursors

SQL = load(__name__)

BUCKETS = 24
"""The last bucket has durations longer than 2 ** 22 ms: 70 minutes."""
BOUNDS = [2**n / 1000 for n in range(BUCKETS - 1)]
"""The upper bounds of all buckets but the last one, in seconds."""
LIMIT = 5000
TALLY, ADD = "pgqueue_tally", "tally"
"""The table and the service under which counts are left out."""
Pair = tuple[str, str]
"""A channel and a task."""
CountKey = tuple[str, str, str]
"""A channel, a task, and a tenant or ""."""
OTHER = "(other)"
"""The name under which the runs of further tasks, or tenants, are counted together."""
MINUTES_KEPT = timedelta(days=2)
HOURS_KEPT = timedelta(days=30)
MINUTE, HOUR = "minute", "hour"
OUTCOMES = (
    *("succeeded", "failed", "dead", "deferred", "discarded", "cancelled"),
    *("lost", "released"),
)
"""The outcomes of runs: the attributes of `Counts` that count them."""
TIMES = ("waited", "ran")


class CountingWindow(NamedTuple):
    """The span of time whose counts are read, and the length of their periods."""

    name: str
    period: str
    span: timedelta


WINDOWS = {
    each.name: each
    for each in (
        CountingWindow("hour", MINUTE, timedelta(hours=1)),
        CountingWindow("day", HOUR, timedelta(days=1)),
        CountingWindow("month", HOUR, timedelta(days=30)),
    )
}


class Counts(NamedTuple):
    """The counts of the runs of one task in one channel.

    Lost and released runs did not end: they are neither in `total` nor in the histograms.

    Attributes:
        failed: runs that raised and are tried again.
        dead: runs that raised, and were the last ones of their messages.
        waited: the sum of the waits from the due time to the begin, in seconds.
        ran: the sum of the durations of the runs, in seconds.
        waits: the histogram of the waits.
        runs: the histogram of the durations.
        lost: runs whose worker died, or was cut off.
        released: runs that were handed back before they ended.
        tenant: the tenant of the runs; "": they are not counted by tenant.
    """

    channel: str
    task: str
    succeeded: int
    failed: int
    dead: int
    deferred: int
    discarded: int
    cancelled: int
    waited: float
    ran: float
    waits: Sequence[int]
    runs: Sequence[int]
    lost: int = 0
    released: int = 0
    tenant: str = ""

    def plus(self, other: Counts) -> Counts:
        """Return the sum with other counts of the same task in the same channel."""
        return self._replace(
            **{name: getattr(self, name) + getattr(other, name) for name in (*OUTCOMES, *TIMES)},
            waits=[a + b for a, b in zip(self.waits, other.waits, strict=True)],
            runs=[a + b for a, b in zip(self.runs, other.runs, strict=True)],
        )

    @property
    def key(self) -> CountKey:
        """The channel, the task and the tenant of the runs."""
        return self.channel, self.task, self.tenant

    @property
    def total(self) -> int:
        """The number of runs that have ended."""
        return sum(self[2:8])

    @property
    def raised(self) -> int:
        """How many runs raised."""
        return self.failed + self.dead

    @property
    def failure_rate(self) -> float:
        """The share of runs that raised, from 0 to 1."""
        return self.raised / self.total if self.total else 0.0


class TenantCounts(NamedTuple):
    """The outcomes of the runs of one tenant, or of several tenants together (`OTHER`)."""

    tenant: str
    succeeded: int
    failed: int
    dead: int
    deferred: int
    discarded: int
    cancelled: int


class PeriodCounts(NamedTuple):
    """The counts of all runs in the minute, or the hour, that begins `at`."""

    at: datetime
    succeeded: int
    failed: int
    dead: int
    waited: float
    ran: float
    total: int

    @property
    def raised(self) -> int:
        """How many runs raised."""
        return self.failed + self.dead

    @property
    def mean_wait(self) -> float | None:
        """The mean wait of the messages, in seconds; None: there were no runs."""
        return self.waited / self.total if self.total else None

    @property
    def mean_run(self) -> float | None:
        """The mean duration of the runs, in seconds; None: there were no runs."""
        return self.ran / self.total if self.total else None


def bucket(seconds: float) -> int:
    """Return the index of the bucket of a duration."""
    # It is called twice for each run: min() and max() would take half of its time.
    if seconds <= 0:
        return 0
    index = int(seconds * 1000).bit_length()
    return index if index < BUCKETS else BUCKETS - 1


def quantile(histogram: Sequence[int], share: float) -> float | None:
    """Return the duration, in seconds, below which this share of the durations is.

    It lies within a bucket, and is estimated as if durations were spread evenly over it.

    Returns:
        None: the histogram is empty.
    """
    wanted, seen = share * sum(histogram), 0
    for index, count in enumerate(histogram):
        if count and seen + count >= wanted:
            low = BOUNDS[index - 1] if index else 0.0
            high = BOUNDS[index] if index < len(BOUNDS) else 2 * low
            return low + (high - low) * (wanted - seen) / count
        seen += count
    return None


def add(
    connection: Connection, counted: Collection[Counts], *, source: UUID, batch: int
) -> list[CountKey]:
    """Store a worker's new counts, only once for any number of calls with the same batch.

    Args:
        connection: outside of a transaction.
        source: identifies the worker or process that counts.
        batch: a number that grows with each batch of this source.

    Returns:
        The keys of the counts that the database refuses, for example by a trigger. Their
        counts are not stored; all others are.
    """
    try:
        _add(connection, counted, source, batch)
    except Exception as error:
        if not may_be_a_row(connection, error):
            raise
        # The server has refused the batch, so it was not stored before.
        return _add_others(connection, counted, source, batch, error)
    return []


def _add_others(
    connection: Connection, counted: Collection[Counts], source: UUID, batch: int, error: Exception
) -> list[CountKey]:
    """Find the counts that make a batch fail, and store the others."""
    of = {each.key: each for each in counted}
    known = [key for key in refused(connection) if key in of]

    def attempt(keys: Sequence[CountKey]) -> None:
        _add(connection, [of[key] for key in keys], source, batch)

    with in_short(connection):
        items = [key for key in of if key not in known]
        found = search(
            connection,
            TALLY,
            items,
            attempt,
            what=ADD,
            error=error,
            row=lambda key: shown(*filter(None, key)),
        )
        if not (found or known):
            raise error
        attempt([key for key in items if key not in found])
    return known + found


def refused(connection: Connection) -> list[CountKey]:
    """Return the keys of the counts that were refused in the last minute."""
    return left_out(connection, ADD, TALLY)


def _add(connection: Connection, counted: Collection[Counts], source: UUID, batch: int) -> None:
    columns: dict[str, list[Any]] = {
        name: [getattr(each, name) for each in counted] for name in Counts._fields
    }
    connection.execute(
        SQL["add"],
        {
            **columns,
            "source": source,
            "batch": batch,
            "channels": columns["channel"],
            "tasks": columns["task"],
            "tenants": columns["tenant"],
            "waits": [_text(each) for each in columns["waits"]],
            "runs": [_text(each) for each in columns["runs"]],
        },
    )


def leave(connection: Cursors, source: UUID) -> None:
    """Delete the row of a source of counts, after its last batch."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["leave"], {"source": source})


def fold(connection: Connection, *, tenants: int = 0) -> int:
    """Sum up the counts that workers have stored, `LIMIT` rows at most; return their number.

    Args:
        tenants: the most tenants that have totals of their own. The runs of further tenants are
            counted together, as the tenant `OTHER`. 0: nothing is added up by tenant.
    """

    def some(part: Part) -> int:
        given = {**part._asdict(), "limit": LIMIT, "tenants": tenants, "other": OTHER}
        return _count(connection, "fold", given)

    return sum(apart(connection, "pgqueue_tally", some, what="statistics"))


def forget(connection: Connection) -> int:
    """Delete minutes and hours whose retention is over, and totals without a later run.

    It also deletes sources that have stored no counts during the retention of minutes.

    Returns:
        The number of deleted rows.
    """
    of_minutes = {"period": MINUTE, "kept": MINUTES_KEPT, "limit": LIMIT}
    of_hours = {"period": HOUR, "kept": HOURS_KEPT, "limit": LIMIT}
    return sum(
        delete(connection, table, SQL[statement], SQL[over], given, what="forget figures")
        for table, statement, over, given in (
            ("pgqueue_statistic", "forget", "over", of_minutes),
            ("pgqueue_statistic", "forget", "over", of_hours),
            ("pgqueue_tally_batch", "forget_sources", "sources_over", of_minutes),
            ("pgqueue_total", "forget_totals", "totals_over", of_hours),
            ("pgqueue_tenant_total", "forget_tenants", "tenants_over", of_hours),
        )
    )


def totals(connection: Cursors) -> list[Counts]:
    """Return the counts of all runs so far, by channel and task. They only grow."""
    return [Counts(*row) for row in _rows(connection, "totals", {})]


def tenant_totals(connection: Cursors) -> list[TenantCounts]:
    """Return the counts of all runs so far by tenant. They only grow.

    A new tenant is returned when its first counts were summed up.
    """
    return [TenantCounts(*row) for row in _rows(connection, "tenant_totals", {})]


def over_time(
    connection: Cursors, *, period: str, span: timedelta, channel: str | None = None
) -> list[PeriodCounts]:
    """Return the counts of each recent minute or hour with a run, the earliest first.

    Args:
        period: `MINUTE` (kept for two days) or `HOUR` (kept for thirty).
        span: the time before now in which runs count.
        channel: a channel; None: all channels.
    """
    given = {"period": period, "span": span, "channel": channel}
    return [PeriodCounts(*row) for row in _rows(connection, "over_time", given)]


def by_task(
    connection: Cursors,
    *,
    period: str,
    span: timedelta,
    channel: str | None = None,
    limit: int = 100,
) -> list[Counts]:
    """Return the recent counts by channel and task, the most runs first.

    Args:
        period: see `over_time`.
        span: see `over_time`.
        channel: a channel; None: all channels.
        limit: the most pairs of a channel and a task.
    """
    given = {"period": period, "span": span, "channel": channel, "limit": limit}
    return [Counts(*row) for row in _rows(connection, "by_task", given)]


def _count(connection: Cursors, name: str, parameters: dict[str, Any]) -> int:
    [[count]] = _rows(connection, name, parameters)
    return int(count)


def _rows(connection: Cursors, name: str, parameters: dict[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(SQL[name], parameters)
        rows: list[Any] = cursor.fetchall()
    return rows


def _text(histogram: Sequence[int]) -> str:
    return "{" + ",".join(map(str, histogram)) + "}"
