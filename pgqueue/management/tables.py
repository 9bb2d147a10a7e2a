"""The tables of a snapshot, for the terminal and the live view: heads and cells."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgqueue.engine.live_counts import Stats
from pgqueue.engine.overview import DeadGroup
from pgqueue.engine.run_statistics import Counts, quantile
from pgqueue.management.snapshot import ChannelSeen, WatchSnapshot, WorkerSeen

ABOUT = "~"
"""The sign before an estimate."""
COUNTS = ("ready", "scheduled", "held", "running", "dead")
HEADS = {
    "channels": ("channel", *COUNTS, "oldest", "in/s", "out/s", "failures", ""),
    "workers": ("worker", "silent", "serves", "runs"),
    "tasks": ("task", "channel", "runs", "failures", "wait p50", "wait p95", "run p50", "run p95"),
    "dead": ("error", "task", "channel", "letters", "last", "newest", "message"),
}
"""The heads by the names of a snapshot's parts."""


def cells(seen: WatchSnapshot) -> dict[str, list[tuple[str, ...]]]:
    """Return the lines of each table; the first cell is the name of the line's object."""
    return {
        "channels": list(map(_of_channel, seen.channels)),
        "workers": list(map(_of_worker, seen.workers)),
        "tasks": list(map(_of_task, seen.tasks)),
        "dead": list(map(_of_dead, seen.dead)),
    }


def _of_channel(each: ChannelSeen) -> tuple[str, ...]:
    return each.name, *of_stats(each.stats), str(each.raised), pause_of(each.stats)


def pause_of(stats: Stats) -> str:
    """Return "paused" with the end of the pause, or "" for a channel that is not paused."""
    if stats.paused_until is None:
        return "paused" if stats.paused else ""
    return f"paused until {stats.paused_until.isoformat(sep=' ', timespec='seconds')}"


def _of_worker(each: WorkerSeen) -> tuple[str, ...]:
    return (
        f"{each.host}:{each.pid}",
        rounded(each.silent_for) if each.is_alive else f"{rounded(each.silent_for)}, dead",
        "every channel" if each.channels is None else ", ".join(each.channels) or "duties",
        ", ".join(f"{run.task} #{run.id}" for run in each.running) or "-",
    )


def _of_task(each: Counts) -> tuple[str, ...]:
    return (
        each.task or "-",
        each.channel,
        str(each.total),
        f"{each.failed + each.dead} ({each.failure_rate:.0%})",
        *(_seconds(each.waits, share) for share in (0.5, 0.95)),
        *(_seconds(each.runs, share) for share in (0.5, 0.95)),
    )


def _of_dead(each: DeadGroup) -> tuple[str, ...]:
    return (
        each.error or "-",
        each.task or "-",
        each.channel,
        str(each.letters),
        f"{each.last_at:%Y-%m-%d %H:%M:%S}",
        str(each.newest),
        each.message or "",
    )


def of_stats(stats: Stats) -> list[str]:
    """Return the counts, the age and the rates of a channel; an estimate has a tilde before it."""
    counts = [f"{_about(stats, name)}{getattr(stats, name)}" for name in COUNTS]
    age = stats.oldest_ready_age
    oldest = "-" if age is None else f"{_about(stats, 'oldest_ready_age')}{rounded(age)}"
    return [*counts, oldest, f"{stats.enqueued_per_second:.1f}", f"{stats.finished_per_second:.1f}"]


def rounded(age: timedelta) -> str:
    """Return a duration in whole seconds."""
    return str(timedelta(seconds=round(age.total_seconds())))


def _about(stats: Stats, name: str) -> str:
    return ABOUT if name in stats.estimated else ""


def _seconds(histogram: Sequence[int], share: float) -> str:
    value = quantile(histogram, share)
    return "-" if value is None else f"{value:.3g} s"
