"""How fast a worker empties the queue.

Its clock is the database's, from the first claim to the last settle. The first is in the
history. The last is when the server finished the last statement of the worker's settler,
which pg_stat_activity knows: `finished_at` in the history is when a run ended, before it
was settled. So starting Python and Django is not counted, and stopping isn't, either.
"""

from dataclasses import dataclass
from datetime import datetime

from pgqueue.database.sql_files import load
from tests.benchmarks.harness import messages, worker
from tests.benchmarks.harness.session import ask

SQL = load(__name__)


@dataclass(frozen=True)
class Drained:
    """What one worker did with a full queue."""

    per_s: float
    rss_mb: float
    startup_s: float


def drain(count: int, *options: str, **environment: str) -> Drained:
    """Start a worker on a queue of `count` messages, and wait until all are in history."""
    spawned_at = clock()
    with worker.running("runworker", *options, **environment) as running:
        settled_at = settled(running, count)
        rss_mb = running.rss_mb()
    _, claimed_at = messages.ended()
    if claimed_at is None:
        raise RuntimeError("The queue was empty.")
    return Drained(
        per_s=count / (settled_at - claimed_at).total_seconds(),
        rss_mb=rss_mb,
        startup_s=(claimed_at - spawned_at).total_seconds(),
    )


def settled(running: worker.Worker, count: int) -> datetime:
    """Wait until so many messages are in history; return when the last was settled."""
    running.wait_until(
        lambda: _settler_paused_at() is not None and messages.ended()[0] == count,
        every=0.1,
        patience=worker.PATIENCE + count / 1000,
    )
    # It may have paused for tasks that take long, and come back between the two questions.
    running.wait_until(lambda: _settler_paused_at() is not None)
    settled_at = _settler_paused_at()
    if settled_at is None:
        raise RuntimeError("The settler went on after the end.")
    return settled_at


def _settler_paused_at() -> datetime | None:
    """Return when the settler's last statement was done; None while it is at work."""
    paused_at: datetime | None = ask(SQL["settler_paused"])[0]
    return paused_at


def clock() -> datetime:
    """Return the database's time."""
    now: datetime = ask(SQL["clock"])[0]
    return now
