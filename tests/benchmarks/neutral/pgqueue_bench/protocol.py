"""The protocol of the neutral benchmark: options by the environment, samples as lines of JSON.

CONTRIBUTING_ADAPTERS.md of hardbyte/postgresql-job-queue-benchmarking describes it. This file knows
no queue, and needs nothing but Python.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

WINDOW = 30
"""Seconds of which percentiles tell."""
PRECISION = math.log(1.001)
"""Of a histogram: three digits of each value."""
LEAST_MS = 0.01
_writing = threading.Lock()
AGAIN_S = 0.2
"""The time until messages that were not enqueued are tried again."""


def _number(name: str, default: float) -> float:
    return float(os.environ.get(name, default))


@dataclass(frozen=True)
class Options:
    """The options that the harness gives."""

    scenario: str
    mode: str
    paced_by_harness: bool
    rate: float
    batch_max: int
    batch_ms: float
    target_depth: int
    workers: int
    payload_bytes: int
    work_ms: float
    sample_every: float
    instance: int
    control_file: str | None

    @classmethod
    def given(cls) -> Options:
        """Return the options of this process's environment."""
        return cls(
            scenario=os.environ.get("SCENARIO", "long_horizon"),
            mode=os.environ.get("PRODUCER_MODE", "fixed"),
            paced_by_harness=os.environ.get("PRODUCER_PACING") == "harness",
            rate=_number("PRODUCER_RATE", 800),
            batch_max=int(_number("PRODUCER_BATCH_MAX", 128)),
            batch_ms=_number("PRODUCER_BATCH_MS", 25),
            target_depth=int(_number("TARGET_DEPTH", 1000)),
            workers=int(_number("WORKER_COUNT", 32)),
            payload_bytes=int(_number("JOB_PAYLOAD_BYTES", 256)),
            work_ms=_number("JOB_WORK_MS", 1),
            sample_every=_number("SAMPLE_EVERY_S", 5),
            instance=int(_number("BENCH_INSTANCE_ID", 0)),
            control_file=os.environ.get("PRODUCER_RATE_CONTROL_FILE"),
        )

    @property
    def rate_now(self) -> float:
        """The rate, which the harness may change by a file."""
        try:
            return float(Path(self.control_file or "").read_text())
        except (OSError, ValueError):
            return self.rate


class Delays:
    """Percentiles of the last 30 s: a histogram a second, with three digits of each value."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: deque[tuple[int, Counter[int]]] = deque(maxlen=WINDOW + 1)

    def add(self, ms: float) -> None:
        """Count a value in milliseconds."""
        now = int(time.monotonic())
        bucket = round(math.log(max(ms, LEAST_MS)) / PRECISION)
        with self._lock:
            if not self._seconds or self._seconds[-1][0] != now:
                self._seconds.append((now, Counter()))
            self._seconds[-1][1][bucket] += 1

    def percentiles(self, *shares: float) -> list[float]:
        """Return the values below which these shares are; 0 where there is no value."""
        since = time.monotonic() - WINDOW
        total: Counter[int] = Counter()
        with self._lock:
            for second, counts in self._seconds:
                if second >= since:
                    total.update(counts)
        return [_share_of(total, share) for share in shares]


def _share_of(counts: Counter[int], share: float) -> float:
    left = share * counts.total()
    for bucket in sorted(counts):
        left -= counts[bucket]
        if left <= 0:
            return math.exp(bucket * PRECISION)
    return 0.0


class Counts:
    """The numbers of enqueued messages and of ended runs. Any thread may add to them."""

    def __init__(self) -> None:
        self.delays = Delays()
        self._lock = threading.Lock()
        self.enqueued = self.completed = 0

    def note_enqueued(self, count: int) -> None:
        """Count messages that were enqueued."""
        with self._lock:
            self.enqueued += count

    def note_started(self, enqueued_at: float) -> None:
        """Count a start, of a message that was enqueued at a time of this machine's clock."""
        self.delays.add((time.time() - enqueued_at) * 1000)

    def note_completed(self) -> None:
        """Count a run that has ended."""
        with self._lock:
            self.completed += 1


def turns(
    options: Options,
    stopping: threading.Event,
    *,
    depth: Callable[[], int],
    tokens: TextIO = sys.stdin,
) -> Iterator[int]:
    """Yield how many messages to enqueue now, until the process stops.

    The harness says so by lines `ENQUEUE n`; else this process keeps the rate. It counts the time
    that has really passed: what a slow turn has missed is made up for in the next ones.
    """
    if options.mode == "fixed" and options.paced_by_harness:
        for line in tokens:
            word, _, count = line.partition(" ")
            if word == "ENQUEUE":
                yield int(count)
        return
    credit, before = 0.0, time.monotonic()
    while not stopping.wait(options.batch_ms / 1000):
        now = time.monotonic()
        if options.mode == "depth-target":
            due = max(0, options.target_depth - depth())
        else:
            credit += options.rate_now * (now - before)
            due = int(credit)
            credit -= due
        before = now
        while due > 0 and not stopping.is_set():
            yield min(due, options.batch_max)
            due -= options.batch_max


def produce(
    options: Options,
    counts: Counts,
    stopping: threading.Event,
    *,
    depth: Callable[[], int],
    enqueue: Callable[[int], object],
) -> None:
    """Enqueue at the pace that is asked for, until the process stops.

    An error is printed. The same messages stay due: the server may be away.
    """
    for count in turns(options, stopping, depth=depth):
        while not stopping.is_set():
            try:
                enqueue(count)
            except Exception as error:
                print(f"{count} messages were not enqueued: {error}", file=sys.stderr)
                stopping.wait(AGAIN_S)
            else:
                counts.note_enqueued(count)
                break


class Sampler:
    """Prints the figures of each `sample_every` seconds of the wall clock.

    The depth has a thread of its own: a queue may take longer to count it than a sample lasts.

    Args:
        depth: returns the number of messages that wait.
    """

    def __init__(
        self, system: str, options: Options, counts: Counts, depth: Callable[[], int]
    ) -> None:
        self._system = system
        self._options = options
        self._counts = counts
        self._depth = depth
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._sample_rates, name="rates", daemon=True)]
        if not options.instance:  # the first of several replicas
            self._threads.append(
                threading.Thread(target=self._sample_depth, name="depth", daemon=True)
            )

    def start(self) -> None:
        """Begin to print."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        for each in self._threads:
            each.join(2)

    def _ticks(self) -> Iterator[None]:
        every = self._options.sample_every
        while not self._stopping.wait(every - time.time() % every):
            yield

    def _now(self) -> tuple[float, int, int]:
        return time.monotonic(), self._counts.enqueued, self._counts.completed

    def _sample_rates(self) -> None:
        before = self._now()
        every = self._options.sample_every
        for _ in self._ticks():
            now = self._now()
            seconds, enqueued, completed = (new - old for new, old in zip(now, before, strict=True))
            before = now
            p50, p95, p99 = self._counts.delays.percentiles(0.5, 0.95, 0.99)
            self._say("claim_p50_ms", p50, WINDOW)
            self._say("claim_p95_ms", p95, WINDOW)
            self._say("claim_p99_ms", p99, WINDOW)
            self._say("enqueue_rate", enqueued / seconds, every)
            self._say("completion_rate", completed / seconds, every)

    def _sample_depth(self) -> None:
        for _ in self._ticks():
            self._say("producer_target_rate", self._options.rate_now, 0)
            try:
                self._say("queue_depth", self._depth(), 0)
            except Exception as error:  # the server is away
                print(f"The depth is not known: {error}", file=sys.stderr)

    def _say(self, metric: str, value: float, window: float) -> None:
        say(
            {
                "t": _instant(),
                "system": self._system,
                "kind": "adapter",
                "subject_kind": "adapter",
                "subject": "",
                "metric": metric,
                "value": round(value, 3),
                "window_s": window,
                "instance_id": self._options.instance,
            }
        )


def describe(
    manifest: dict[str, Any], options: Options, *, version: str, schema_version: str
) -> None:
    """Say which queue this is: the first line of an adapter."""
    names = ("system", "event_tables", "extensions", "db_name")
    say(
        {
            "kind": "descriptor",
            **{name: manifest[name] for name in names},
            "version": version,
            "schema_version": schema_version,
            "started_at": _instant(),
            "instance_id": options.instance,
        }
    )


def say(record: dict[str, Any]) -> None:
    """Write one line; threads don't mix theirs."""
    with _writing:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()


def _instant() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
