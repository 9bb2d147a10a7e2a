"""The workers, each at a post that is filled again whenever it has died."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.harness.processes import Process
from tests.chaos.harness.stage import Stage
from tests.system import children

# What is for consumers, no worker is to take.
FOR_CONSUMERS = ("--exclude", "pulled", "--exclude", "by hand")
EXECUTORS = ("--threads", "8", "--async", "50", *FOR_CONSUMERS)


@dataclass
class Post:
    """How a worker is run, and the one that is.

    Attributes:
        processes: how many there are in it that run tasks.
        port: where it finds the server; None: past all proxies.
    """

    name: str
    arguments: tuple[str, ...]
    processes: int
    port: int | None = None
    worker: Process | None = None

    @property
    def is_filled(self) -> bool:
        """Whether a process is there, even a stopped one."""
        return self.worker is not None and self.worker.is_alive

    def pids(self) -> list[int]:
        """Return its processes: those that run tasks, or are about to."""
        if self.worker is None or not self.is_filled:
            return []
        if self.processes == 1:
            return [self.worker.pid]
        return [pid for pid in children(self.worker.pid) if _is_a_child(pid)]


class Fleet:
    """Two workers on everything. One dies often; the other lives as long as the run.

    What a process keeps that it should not shows only where it lives for long, so the veteran is
    stopped and cut off, but neither killed nor replaced.

    Args:
        port: the proxy's, which stands between the veteran and the server.
    """

    def __init__(self, stage: Stage, *, port: int) -> None:
        self._stage = stage
        self.mortal = Post(
            "mortal", ("--processes", "2", *EXECUTORS, "--max-tasks", "20000"), processes=2
        )
        self.veteran = Post("veteran", EXECUTORS, processes=1, port=port)

    def fill(self) -> list[str]:
        """Start who is missing; return what those had to say who ended by themselves."""
        last_words = []
        for post in (self.mortal, self.veteran):
            if post.is_filled:
                continue
            if post.worker:
                self._stage.expect_dead(post.worker)
                last_words.append(f"{post.name} ended by itself: {post.worker.log[-2000:]}")
            post.worker = self._stage.worker(*post.arguments, port=post.port)
        return last_words

    def kill(self) -> None:
        """Kill a worker with all its processes; its post is empty."""
        if self.mortal.worker:
            self._stage.kill(self.mortal.worker)
        self.mortal.worker = None

    def deploy(self) -> None:
        """Replace a worker as a deployment does: it is asked to stop, and ends in its own time."""
        old, self.mortal.worker = self.mortal.worker, None
        if old:
            self._stage.retire(old)

    def one_of_several(self, chance: random.Random) -> int | None:
        """Return one process of the worker that has several; None: none has started yet."""
        pids = self.mortal.pids()
        return chance.choice(pids) if pids else None

    def serves(self) -> bool:
        """Whether each process that there should be has shown that it lives within a heartbeat."""
        posts = [self.mortal, self.veteran]
        row = self._stage.ask(
            "SELECT count(DISTINCT pid) FROM pgqueue_worker "
            "WHERE last_seen > clock_timestamp() - interval '1.5 seconds' AND pid = ANY (%s)",
            [pid for post in posts for pid in post.pids()],
        )
        return row == (sum(post.processes for post in posts),)

    def memory(self) -> dict[str, float]:
        """Return the megabytes that the workers' processes hold: all, the largest, the veteran."""
        veteran = list(map(megabytes, self.veteran.pids()))
        supervisor = [self.mortal.worker.pid] if self.mortal.worker else []
        mortal = list(map(megabytes, [*supervisor, *self.mortal.pids()]))
        return {
            "sum": sum(veteran + mortal),
            "max": max(veteran + mortal, default=0),
            "veteran": sum(veteran),
        }


def megabytes(pid: int, which: str = "VmRSS") -> float:
    """Return how much memory a process holds; 0 where it is gone."""
    return next((int(size) / 1024 for name, size in _memory(pid) if name == which), 0)


def _memory(pid: int) -> Iterator[tuple[str, str]]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            yield name, rest.split()[0]


def _is_a_child(pid: int) -> bool:
    """Whether it is one of a worker's processes, and not multiprocessing's resource tracker."""
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal to those of them that are still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
