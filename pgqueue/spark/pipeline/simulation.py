"""The effect of more workers, a limit or another backoff, by a replay of the past.

The simulation replays the attempts with their real times through a queue with the estimated slots
and limits of the past (see `capacity`). Then it changes one setting at a time. The table shows the
error of the unchanged replay against the measured times (Law: Simulation Modeling and Analysis,
chapter 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.sql import functions as F

from pgqueue.spark.pipeline import fleet
from pgqueue.spark.pipeline.capacity import Served, estimates, variants
from pgqueue.spark.pipeline.fleet import Steps
from pgqueue.spark.pipeline.material import Made, Material, collected
from pgqueue.spark.pipeline.past import Past
from pgqueue.spark.pipeline.queueing import Floats, Ints, Jobs, Limit, Rules, replay

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame

MOST = 30_000
"""The most attempts of the replayed window, without the attempts that share their slots. The window
is the stretch of time with the longest backlog."""
NOISY = 3
"""The number of keys that get a limit, one at a time."""
COLUMNS = (
    *("scenario", "kind", "workers", "wait_p50_s", "wait_p99_s", "total_p99_s", "utilisation"),
)
FACTORS = ((0.5, "Half the workers"), (2.0, "Twice the workers"), (4.0, "Four times the workers"))
CONSTANT = 10.0
"""Seconds of the simulated constant backoff."""


class Window(NamedTuple):
    """The replayed time: the attempts due from `since` to before `until`."""

    since: datetime
    until: datetime


def make_simulation(given: Material) -> Made:
    """Make the table what_if, and the fact simulation."""
    within = window(given.tables["over_time"], given.period.width)
    rows = arrivals(given.attempts, within) if within else None
    if within is None or rows is None or rows.empty:
        return Made({"what_if": simulate([])[0]})
    served = together(pools(given.runs))
    alone = set(rows["channel"]) - set().union(*served)
    found = (work_of(rows, pool) for pool in [*served, alone])
    table, facts = simulate([work for work in found if work], _noisy(given))
    counted = int((~rows["is_before"] & ~rows["is_after"]).sum())
    times = {"since": within.since, "until": within.until, "attempts": counted}
    return Made({"what_if": table}, {"simulation": {**facts, **times}})


def _noisy(given: Material) -> list[tuple[str, int]]:
    """Return the first noisy keys and their hashes."""
    names = given.tables["noisiest_keys"].head(NOISY)
    if names.empty:
        return []
    rows = [(row.channel, row.key) for row in names.itertuples()]
    frame = given.runs.sparkSession.createDataFrame(rows, "channel string, key string")
    hashed = frame.select("channel", "key", F.xxhash64("channel", "key").alias("hash")).collect()
    return [(f"{row.channel} / {row.key}", row.hash) for row in hashed]


def window(over_time: Pandas, width: int, most: int = MOST) -> Window | None:
    """Return the stretch of time with the longest backlog and at most `most` attempts.

    If a single bucket has more attempts, the window is the beginning of the bucket.

    Args:
        over_time: the table of this name.
        width: the width of its buckets, in seconds.

    Returns:
        None: the table has no bucket.
    """
    attempts = (over_time["arrived"] + over_time["failed_attempts"]).tolist()
    backlog = over_time["backlog"].tolist()
    best, found = -1.0, (0, 0)
    first, count, waiting = 0, 0, 0.0
    for last, number in enumerate(attempts):
        count, waiting = count + number, waiting + backlog[last] + number * 1e-6
        while count > most and first < last:
            count, waiting = count - attempts[first], waiting - backlog[first]
            first += 1
        if waiting > best:
            best, found = waiting, (first, last)
    if not attempts:
        return None
    first, last = found
    since = over_time["at"][first].to_pydatetime()
    share = min(1.0, most / max(1, sum(attempts[first : last + 1])))
    return Window(since, since + timedelta(seconds=width * (last - first + 1) * share))


def arrivals(attempts: DataFrame, within: Window) -> Pandas:
    """Select the attempts due within a window, and the attempts that shared slots with them.

    The result includes attempts that ran or waited when the window began: without them the first
    messages would find an empty queue. It also includes attempts that were due after the window,
    but began before the last ones of the window. Without them the last ones would have all slots.
    These later attempts are bounded: they began within the window's length after its end.

    Returns:
        due, began (not before the window) and ended in microseconds; id, channel and key (hashes).
        Also priority, is_last, worker, claim (a hash), is_exact, is_lost. The flags is_before and
        is_after: whether it was due before or after the window; is_running: whether it ran when the
        window began.
    """
    since, until = F.lit(within.since), F.lit(within.until)
    ran = attempts.where(F.col("started_at").isNotNull() & (F.col("ended_at") > since))
    began, due = F.unix_micros("started_at"), F.col("due_at")
    end = F.unix_micros(until)
    bound = end + (end - F.unix_micros(since))
    chosen = ran.where((due < until) | (began < bound)).select(
        F.unix_micros(due).alias("due"),
        F.greatest(began, F.unix_micros(since)).alias("began"),
        F.unix_micros("ended_at").alias("ended"),
        "id",
        F.xxhash64("channel").alias("channel"),
        F.xxhash64("channel", "key").alias("key"),
        "priority",
        "is_last",
        F.col("worker_id").alias("worker"),
        F.xxhash64("worker_id", "claimed_at").alias("claim"),
        "is_exact",
        "is_lost",
        (due < since).alias("is_before"),
        (due >= until).alias("is_after"),
        (F.col("started_at") < since).alias("is_running"),
    )
    rows = collected(chosen)
    # Chosen here: for Spark it would be another pass over all attempts.
    last = rows["began"].where(~rows["is_before"] & ~rows["is_after"]).max()
    return rows[~(rows["is_after"] & (rows["began"] >= last))].reset_index(drop=True)


def pools(runs: DataFrame) -> list[list[int]]:
    """Return the sets of channels (hashes) that workers served, one set for each worker."""
    served = runs.where(F.col("worker_id").isNotNull())
    pairs = collected(served.select("worker_id", F.xxhash64("channel").alias("channel")).distinct())
    return [channels.tolist() for _, channels in pairs.groupby("worker_id")["channel"]]


@dataclass(frozen=True)
class Work:
    """Attempts of one pool of workers, in the order of their due times.

    Attributes:
        message: The messages of the attempts, as numbers.
        past: Their times.
        is_measured: Whether the times are measured, not estimated.
        since: The zero of the times in `past`, in seconds.
    """

    past: Past
    message: Ints
    priority: Ints
    is_measured: Ints
    key_hash: Ints
    since: float = 0.0


class Outcome(NamedTuple):
    """The waits of messages, the numbers of slots, and the use of the slots.

    Attributes:
        steps: the times at which the number of slots changes; 0 slots after the last run.
        used: the seconds in which slots were in use.
    """

    waits: Floats
    totals: Floats
    steps: Steps
    used: float

    @property
    def slots(self) -> int:
        """The highest number of slots."""
        return fleet.top(self.steps)

    @property
    def utilisation(self) -> float:
        """The share of the time in which slots were in use."""
        pairs = pairwise(self.steps)
        offered = sum(count * (until - since) for (since, count), (until, _) in pairs)
        return min(1.0, self.used / max(offered, 1e-9))


def together(sets: Sequence[Sequence[int]]) -> list[set[int]]:
    """Join the sets that have a channel in common: one pool serves these channels."""
    found: list[set[int]] = []
    for each in map(set, sets):
        touching = [pool for pool in found if pool & each]
        found = [pool for pool in found if not pool & each]
        found.append(each.union(*touching))
    return found


def work_of(rows: Pandas, pool: set[int] | None = None) -> Work | None:
    """Return the attempts of a pool; None: the pool has no attempt.

    Args:
        rows: the result of `arrivals`.
        pool: the channels of the pool; None: all.
    """
    import pandas

    mine = rows if pool is None else rows[rows["channel"].isin(pool)]
    if mine.empty:
        return None
    # At the begin of the window, running messages come first, then waiting ones in their order.
    mine = mine.assign(waits=~mine["is_running"]).sort_values(["waits", "due", "id"], kind="stable")
    is_before = mine["is_before"].to_numpy(bool)
    due, began, ended = (mine[name].to_numpy(np.int64) for name in ("due", "began", "ended"))
    begin = int(due[~is_before].min(initial=began.min()))
    due = np.maximum(due, begin)
    due, began, ended = ((times - begin) / 1e6 for times in (due, began, ended))
    began = np.maximum(began, due)
    channel, key, message, worker, claim = (
        pandas.factorize(mine[name])[0].astype(np.int64)
        for name in ("channel", "key", "id", "worker", "claim")
    )
    is_exact, is_lost = (mine[name].to_numpy(bool) for name in ("is_exact", "is_lost"))
    past = Past(
        due, began, np.maximum(ended, began), channel, key, worker, claim, is_exact, is_lost
    )
    return Work(
        replace(past, began=fleet.begins(past)),
        message,
        mine["priority"].to_numpy(np.int64),
        (mine["is_last"] & ~mine["is_before"] & ~mine["is_after"]).to_numpy(np.int64),
        mine["key"].to_numpy(np.int64),
        begin / 1e6,
    )


def simulate(
    works: Sequence[Work], noisy: Sequence[tuple[str, int]] = ()
) -> tuple[Pandas, dict[str, float]]:
    """Replay the past as it was, and with one thing changed at a time.

    Args:
        works: the attempts of each pool of workers.
        noisy: the keys that get a limit, one at a time: their names and hashes.

    Returns:
        The table what_if, and the fact simulation.
    """
    import pandas

    if not works:
        return pandas.DataFrame(columns=list(COLUMNS)), {}
    nearest = [_nearest(work) for work in works]
    latencies = [each.latencies for each in nearest]

    def outcome(change: Sequence[Rules], arrivals: Sequence[Floats] | None = None) -> Outcome:
        due = [None] * len(works) if arrivals is None else arrivals
        return _joined(list(map(_replayed, works, change, latencies, due)))

    today = [each.served.rules for each in nearest]
    rows: list[tuple[object, ...]] = []

    def add(scenario: str, kind: str, found: Outcome) -> None:
        wait_p50, wait_p99 = _quantile(found.waits, 0.5), _quantile(found.waits, 0.99)
        total = _quantile(found.totals, 0.99)
        rows.append((scenario, kind, found.slots, wait_p50, wait_p99, total, found.utilisation))

    measured = _joined([_as_measured(w, r) for w, r in zip(works, today, strict=True)])
    add("As it was measured", "measured", measured)
    simulated = _joined([each.replayed for each in nearest])
    add("As today, simulated", "today", simulated)
    for factor, title in FACTORS:
        add(title, "workers", outcome([_times(rules, factor) for rules in today]))
    for title, key in noisy:
        limited = _limited(works, today, key)
        if limited is not None:
            add(f"At most {limited[1]} at once of {title}", "limit", outcome(limited[0]))
    for title, waits in _backoffs(works):
        add(title, "backoff", outcome(today, waits))
    before, after = _quantile(measured.waits, 0.99), _quantile(simulated.waits, 0.99)
    error = after / before - 1 if before > 0 else float("nan")
    facts = {"measured_p99_s": before, "simulated_p99_s": after, "error": error}
    return pandas.DataFrame(rows, columns=list(COLUMNS)), facts


class _Replayed(NamedTuple):
    """A replay by an estimate, and how far its waits are from the measured ones."""

    served: Served
    latencies: Floats
    replayed: Outcome
    distance: float


def _nearest(work: Work) -> _Replayed:
    """Return the estimate whose replay comes nearest to the measured waits, with its replay."""
    measured = _spread(_as_measured(work, Rules(slots=[(0.0, 1)])).waits)

    def replayed(served: Served) -> _Replayed:
        latencies = np.random.default_rng(0).choice(served.latencies, len(work.past.due))
        told = _replayed(work, served.rules, latencies, None)
        distance = float(np.abs(np.log(_spread(told.waits) / measured)).mean())
        return _Replayed(served, latencies, told, distance)

    best = min(map(replayed, estimates(work.past)), key=attrgetter("distance"))
    others = map(replayed, variants(best.served))
    return min([best, *others], key=attrgetter("distance"))


def _spread(waits: Floats) -> Floats:
    """Return percentiles of waits, at least a millisecond each."""
    known = waits[~np.isnan(waits)]
    if not len(known):
        return np.full(6, 1e9)
    return np.maximum(np.quantile(known, (0.5, 0.75, 0.9, 0.95, 0.98, 0.99)), 1e-3)


def _quantile(values: Floats, share: float) -> float:
    values = values[~np.isnan(values)]
    return float(np.quantile(values, share)) if len(values) else float("nan")


def _jobs(work: Work, latency: Floats, due: Floats | None) -> tuple[Jobs, Ints]:
    past = work.past
    when = past.due if due is None else due
    order = np.argsort(when, kind="stable")
    jobs = Jobs(
        when[order],
        (past.ended - past.began)[order],
        past.channel[order],
        past.key[order],
        work.priority[order],
        latency[order],
    )
    return jobs, order


def _replayed(work: Work, rules: Rules, latency: Floats, due: Floats | None) -> Outcome:
    jobs, order = _jobs(work, latency, due)
    began = np.empty(len(jobs))
    began[order] = replay(jobs, rules)
    when = work.past.due if due is None else due
    return _told(work, rules, when, began)


def _as_measured(work: Work, rules: Rules) -> Outcome:
    return _told(work, rules, work.past.due, work.past.began)


def _told(work: Work, rules: Rules, due: Floats, began: Floats) -> Outcome:
    service = work.past.ended - work.past.began
    is_last = work.is_measured.astype(bool)
    first = np.full(int(work.message.max()) + 1, np.inf)
    np.minimum.at(first, work.message, due)
    totals = (began + service - first[work.message])[is_last]
    last = float(np.nanmax(began + service, initial=0.0))
    used = float(np.nansum(np.where(np.isnan(began), 0.0, service)))
    steps = fleet.until(rules.slots, last)
    at = [(work.since + time, count) for time, count in steps]
    return Outcome((began - due)[is_last], totals, at, used)


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    return Outcome(
        np.concatenate([each.waits for each in outcomes]),
        np.concatenate([each.totals for each in outcomes]),
        fleet.added([each.steps for each in outcomes]),
        sum(each.used for each in outcomes),
    )


def _times(rules: Rules, factor: float) -> Rules:
    slots = [(time, -int(-count * factor // 1)) for time, count in rules.slots]
    return replace(rules, slots=slots)


def _limited(
    works: Sequence[Work], today: Sequence[Rules], key: int
) -> tuple[list[Rules], int] | None:
    """Return the rules with a limit for a key: a quarter of its pool's slots."""
    changed = list(today)
    for index, work in enumerate(works):
        found = work.past.key[work.key_hash == key]
        if len(found):
            rules = today[index]
            limit = max(1, fleet.top(fleet.until(rules.slots, float(work.past.ended.max()))) // 4)
            keys = {**rules.keys, int(found[0]): Limit(limit)}
            changed[index] = replace(rules, keys=keys)
            return changed, limit
    return None


def _backoffs(works: Sequence[Work]) -> Iterator[tuple[str, list[Floats]]]:
    """Yield other due times of the retries, if the attempts include retries."""
    if not any(len(np.unique(work.message)) < len(work.message) for work in works):
        return
    yield (
        f"Retries after {CONSTANT:.0f} seconds each",
        [_due_again(work, lambda retry: np.full(len(retry), CONSTANT)) for work in works],
    )
    yield (
        "Retries after 1, 2, 4, 8 … seconds",
        [_due_again(work, lambda retry: np.minimum(2.0 ** (retry - 1), 3600.0)) for work in works],
    )


def _due_again(work: Work, delay: Callable[[Floats], Floats]) -> Floats:
    """Return the due times of attempts with another delay after each failure.

    Args:
        delay: the function returns the seconds before a retry, by its number from 1.
    """
    import pandas

    past = work.past
    groups = pandas.Series(work.message)
    retry = pandas.Series(past.due).groupby(groups).cumcount().to_numpy(np.float64)
    # The time from one due time to the next: the wait, the run and the delay.
    after = pandas.Series(past.ended - past.due + delay(retry + 1))
    until_then = after.groupby(groups).cumsum().to_numpy() - after.to_numpy()
    first = pandas.Series(past.due).groupby(groups).transform("first").to_numpy()
    return np.asarray(first + until_then, np.float64)
