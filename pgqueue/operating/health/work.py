"""Checks of workers, messages and duties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pgqueue.conf import settings
from pgqueue.duties.all import all_duties
from pgqueue.engine import breakers as engine_breakers
from pgqueue.engine import health
from pgqueue.events import subscribing
from pgqueue.operating.health.judging import ExaminedQueue, Judgement, Status, status_of, worse
from pgqueue.tasks import scheduling

DONE_AT_LEAST_EVERY = timedelta(hours=3)
"""Each duty must be done this often, even one that is postponed again and again after failures."""
OTHERS = {"consumer": "consumers", "driver": "drivers of a cluster", "duties": "for duties alone"}


def workers(queue: ExaminedQueue) -> Judgement:
    seen = queue.workers
    alive = [each for each in seen if each.kind == "worker"]
    others = [each for each in seen if each.kind != "worker"]
    status = Status.OK if len(alive) >= queue.limits.min_workers else Status.FAILING
    versions = sorted({str(each.version) for each in alive})
    said = f"{len(alive)} alive" + (f", of version {' and '.join(versions)}" if alive else "")
    for kind, count in sorted(Counter(each.kind for each in others).items()):
        said += f"; {OTHERS[kind]}: {count}"
    if busy := [each for each in alive if each.busy_for > queue.limits.max_busy]:
        said += f"; {_in_words(busy)}"
        status = worse(status, Status.WARNING)
    figures = {
        "alive": [each._asdict() for each in alive],
        "others": [each._asdict() for each in others],
    }
    return status, said, figures


def _in_words(busy: Sequence[health.WorkerHealth]) -> str:
    longest = max(busy, key=lambda each: each.busy_for)
    return (
        f"without a free thread: {len(busy)}, for {longest.busy_for:.0f} s the process "
        f"{longest.pid} on {longest.host}: its SIGUSR1 tells where they are"
    )


def age(queue: ExaminedQueue) -> Judgement:
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
    status = status_of(judged[name], warning=queue.limits.max_age / 2, failing=queue.limits.max_age)
    if queue.beyond and status == Status.OK:
        status = Status.UNKNOWN
    return status, f"{judged[name]:.0f} s in {name}{queue.beyond}", {"seconds": ages}


def dead(queue: ExaminedQueue) -> Judgement:
    dead = {name: each.dead for name, each in queue.stats.items() if each.dead}
    about = any("dead" in each.estimated for each in queue.stats.values())
    status = status_of(sum(dead.values()), warning=queue.limits.max_dead)
    said = f"{'about ' if about else ''}{sum(dead.values())}{queue.beyond}"
    return status, said, {"letters": dead, "is_estimate": about}


def breakers(queue: ExaminedQueue) -> Judgement:
    stopping = {name: n for name, n in engine_breakers.stopping(queue.connection).items() if n}
    figures = {"open": stopping}
    if not stopping:
        return Status.OK, "none is open", figures
    first = next(iter(stopping))
    said = f"{sum(stopping.values())} open, so that no message starts: {stopping[first]} in {first}"
    return Status.WARNING, said, figures


@dataclass(frozen=True)
class DutyProgress:
    """The progress of a duty.

    Attributes:
        done_ago: seconds since it was done; None: it was not done yet.
        failing_for: seconds for which it has failed; None: it does not fail.
    """

    done_ago: float | None
    failing_for: float | None
    is_overdue: bool

    @property
    def figures(self) -> dict[str, Any]:
        return {
            "done_seconds_ago": self.done_ago,
            "failing_seconds": self.failing_for,
            "is_overdue": self.is_overdue,
        }


def duties(queue: ExaminedQueue) -> Judgement:
    seen = _progress(queue)
    figures = {name: each.figures for name, each in seen.items()}
    overdue = [name for name, each in seen.items() if each.is_overdue]
    failing = {
        name: each.failing_for for name, each in seen.items() if each.failing_for is not None
    }
    undone = [name for name, each in seen.items() if each.done_ago is None]
    said = [f"overdue: {', '.join(overdue)}"] if overdue else []
    said += [
        f"{name} fails for {seconds:.0f} s, as the log says" for name, seconds in failing.items()
    ]
    if overdue or max(failing.values(), default=0.0) > queue.limits.max_late:
        return Status.FAILING, "; ".join(said), figures
    if failing:
        return Status.WARNING, "; ".join(said), figures
    if len(undone) == len(seen):
        return Status.UNKNOWN, "none was done yet: no worker has run here", figures
    return Status.OK, f"not done yet: {', '.join(undone)}" if undone else "all were done", figures


def _progress(queue: ExaminedQueue) -> dict[str, DutyProgress]:
    """Return the progress of each duty. Where no duty was ever done, none is overdue."""
    rows = {each.name: each for each in health.duties(queue.connection)}
    seen = {}
    for name in names_of_duties():
        row = rows.get(name)
        if row is None:
            seen[name] = DutyProgress(None, None, is_overdue=bool(rows))
            continue
        rests = row.done_ago is not None and row.done_ago > DONE_AT_LEAST_EVERY.total_seconds()
        is_overdue = row.late > queue.limits.max_late or rests
        seen[name] = DutyProgress(row.done_ago, row.failing_for, is_overdue)
    return seen


def names_of_duties() -> list[str]:
    """Return the names of this version's duties."""
    database = settings().database
    return [
        duty.name
        for duty in all_duties(database=database, scheduling=scheduling, subscribing=subscribing)
    ]


def rows(queue: ExaminedQueue) -> Judgement:
    seen = [each for each in queue.workers if each.left_out]
    figures = {"processes": [each._asdict() for each in seen[:10]]}
    if not seen:
        return Status.OK, "none is left out", figures
    most = max(seen, key=lambda each: each.left_out)
    said = f"{most.left_out} left out by the process {most.pid} on {most.host}"
    return Status.WARNING, f"{said}, since statements fail with them: its log names them", figures
