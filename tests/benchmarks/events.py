"""The event log: published, given positions, read by a group; all of it at once, and for long.

publish_per_s             `publish_many()` of payloads of 200 B, one transaction
publish_1k_per_s          the same of 1 KiB
group_per_s               one process publishes 200 B, a thousand in a transaction; another reads
                          for a group, 500 at a time, and its handler looks at each payload: from
                          the first event to the last that is committed as handled, by the
                          database's clock
ceiling_per_s             the bare loops of `harness/eventlog.py` that do the same
of_ceiling                group_per_s ÷ ceiling_per_s
in_per_s, out_per_s       the same as group_per_s with 1 KiB, while both are at it: published, and
                          handled until the last is published
publish_to_handler_…_ms   an idle reader, events at random gaps of 20 to 300 ms: from before
                          `publish()` to the handler's first line, which is another process of this
                          machine
publish_of_enqueue        `publish()` ÷ `Task.enqueue()`, a second, by turns of 50 in autocommit
publish_one_by_one_per_s  the former
append_if_per_s           `publish(…, key=new, expect=NO_EVENT)` in autocommit by four threads, with
                          the indexes of `IndexKeys`, beside a log of as many events with keys

With `--feed wal` (`pgqueue_replication` runs beside, and nobody who publishes notifies), by turns
with the same by poll:

group_per_s, in_per_s, out_per_s, publish_to_handler_…_ms
                          as above; in and out with 200 B
poll_group_per_s          by poll, in the same round and on the same server
of_poll                   group_per_s ÷ poll_group_per_s

With `--minutes`, 1 KiB in and out for so long, and retention after a minute: twenty samples.

last_of_first             the last tenth of the samples ÷ the first, the worse of in and out
in_per_s, out_per_s       the medians of the samples
removed                   events that retention has removed meanwhile
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import mean, median, quantiles
from tempfile import TemporaryDirectory

from django.db import connections

from pgqueue import NO_EVENT, publish, publish_many
from pgqueue.conf import settings
from pgqueue.database.sql_files import load
from pgqueue.engine import groups, log
from pgqueue.engine.sequence import catch_up
from pgqueue.replication import slots
from testproject.shop.tasks import nothing
from tests.benchmarks.harness import eventlog, messages, worker
from tests.benchmarks.harness.eventlog import KIB, SHORT, TOPIC, payload
from tests.benchmarks.harness.events import GROUP, TIMES
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import ask, session

SIZES = (500_000,)
SQL = load(__name__)
GAPS = 0.02, 0.3  # seconds
MOST_GAPS = 200
TURN = 50
WRITERS = 4
SAMPLES = 20
KEPT_S = 60
BY_WAL = {"PGQUEUE_FEED": "wal"}


def measure(*, messages: int, rounds: int) -> Report:
    """Compare the log with bare loops that do the same."""
    return repeat("events", _round, messages=messages, rounds=rounds)


def measure_for(*, minutes: float, rounds: int) -> Report:
    """Look whether the log is as fast after so many minutes."""
    return repeat(
        "events", lambda _: _long_round(minutes * 60), messages=0, rounds=rounds, minutes=minutes
    )


def measure_fed(*, messages: int, rounds: int) -> Report:
    """Compare the log that is fed by the WAL with the one that is polled."""
    return repeat("events", _fed_round, messages=messages, rounds=rounds, feed="wal")


def _round(count: int) -> Round:
    short, kib = _publish(count, SHORT), _publish(max(1, count // 2), KIB)
    ours = _both_ways(count, SHORT, _group())
    bare = _both_ways(count, SHORT, eventlog.command("read", bare=True, count=count), bare=True)
    large = _both_ways(max(1, count // 2), KIB, _group())
    delays = _delays(max(2, min(MOST_GAPS, count // 1000)))
    one_by_one, of_enqueue = _by_turns(max(TURN, count // 100))
    append_if = _append_if(count, max(TURN, count // 100))
    return Round(
        figures={
            "publish_per_s": short,
            "publish_1k_per_s": kib,
            "group_per_s": ours.per_s,
            "ceiling_per_s": bare.per_s,
            "in_per_s": large.in_per_s,
            "out_per_s": large.out_per_s,
            "publish_to_handler_p50_ms": _percentile(delays, 50),
            "publish_to_handler_p99_ms": _percentile(delays, 99),
            "publish_one_by_one_per_s": one_by_one,
            "append_if_per_s": append_if,
        },
        ratios={"of_ceiling": ours.per_s / bare.per_s, "publish_of_enqueue": of_enqueue},
    )


def _publish(count: int, size: int) -> float:
    _empty()
    event = (TOPIC, payload(size))
    began = time.monotonic()
    publish_many(event for _ in range(count))
    return count / (time.monotonic() - began)


def _group(name: str = GROUP) -> list[str]:
    """Return the command that reads for a group."""
    return worker.command("pgqueue_group", "--verbosity", "0", "run", name)


class Both:
    """What a publisher and a reader did at once."""

    def __init__(self, count: int, published: eventlog.Published) -> None:
        self.in_per_s = count / published.seconds
        # One that has hardly begun has handled nothing yet.
        self.out_per_s = max(1, published.handled) / published.seconds
        self.per_s = count / ask(SQL["took"])[0]


def _both_ways(
    count: int, size: int, reader: Sequence[str], *, bare: bool = False, **environment: str
) -> Both:
    _empty()
    _make(GROUP)
    with worker.started(reader, **environment) as reading:
        reading.wait_until(_is_read)
        published = eventlog.publish_elsewhere(count=count, size=size, bare=bare, **environment)
        reading.wait_until(
            lambda: _handled() == count, patience=worker.PATIENCE + count / 1000, every=0.1
        )
        return Both(count, published)


def _delays(count: int, **environment: str) -> list[float]:
    """Return milliseconds from publish to handler."""
    _empty()
    _make(TIMES)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "delays"
        file.touch()

        def noted() -> list[float]:
            return [1000 * float(line) for line in file.read_text().split()]

        with worker.started(_group(TIMES), BENCH_TIMES=str(file), **environment) as reading:
            reading.wait_until(_is_awaited)
            gaps = Random(count)
            for _ in range(count):
                time.sleep(gaps.uniform(*GAPS))
                publish(TOPIC, {"at": time.time()})
            reading.wait_until(lambda: len(noted()) == count)
        return noted()


def _by_turns(count: int) -> tuple[float, float]:
    """Return how many a second are published one by one, and that as a share of enqueues."""
    _empty()
    messages.empty()
    spent = {"publish": 0.0, "enqueue": 0.0}
    calls: dict[str, Callable[[], object]] = {
        "publish": lambda: publish(TOPIC, {"id": 7}),
        "enqueue": nothing.enqueue,
    }
    for _ in range(count // TURN):
        for name, call in calls.items():
            began = time.monotonic()
            for _ in range(TURN):
                call()
            spent[name] += time.monotonic() - began
    return count // TURN * TURN / spent["publish"], spent["enqueue"] / spent["publish"]


def _append_if(count: int, appends: int) -> float:
    """Return how many events a second are published with a condition on their keys."""
    _empty()
    publish_many((TOPIC, None, f"old {number}") for number in range(count))
    catch_up(session())

    def append(writer: int) -> None:
        for number in range(appends):
            publish(TOPIC, key=f"{writer} {number}", expect=NO_EVENT)
        connections[settings().database].close()

    for statement in ("index_streams", "index_inbox"):
        session().execute(log.SQL[statement])
    try:
        began = time.monotonic()
        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(append, range(WRITERS)))
        return WRITERS * appends / (time.monotonic() - began)
    finally:
        for statement in ("drop_index_of_inbox", "drop_index_of_streams"):
            session().execute(log.SQL[statement])


def _percentile(delays: list[float], percent: int) -> float:
    return quantiles(delays, n=100, method="inclusive")[percent - 1]


# --- By the WAL


def _fed_round(count: int) -> Round:
    poll = _both_ways(count, SHORT, _group())
    with _fed():
        wal = _both_ways(count, SHORT, _group(), **BY_WAL)
        delays = _delays(max(2, min(MOST_GAPS, count // 1000)), **BY_WAL)
    return Round(
        figures={
            "group_per_s": wal.per_s,
            "poll_group_per_s": poll.per_s,
            "in_per_s": wal.in_per_s,
            "out_per_s": wal.out_per_s,
            "publish_to_handler_p50_ms": _percentile(delays, 50),
            "publish_to_handler_p99_ms": _percentile(delays, 99),
        },
        ratios={"of_poll": wal.per_s / poll.per_s},
    )


@contextmanager
def _fed() -> Iterator[None]:
    """Have a process follow the WAL."""
    names = settings().replication_slot, settings().publication
    slots.make_feed(session(), *names)
    try:
        with worker.started(worker.command("pgqueue_replication"), **BY_WAL) as feed:
            feed.wait_until(lambda: bool(ask(SQL["is_fed"], {"slot": names[0]})[0]))
            yield
    finally:
        slots.drop(session(), *names)


# --- For long


def _long_round(seconds: float) -> Round:
    _empty()
    _make(GROUP)
    publisher = eventlog.command("publish", seconds=seconds + 60, size=KIB)
    with worker.started(_group()) as reading, _retaining():
        reading.wait_until(_is_read)
        with worker.started(publisher) as publishing:
            publishing.wait_until(lambda: _handled() > 0)
            samples = list(_samples(seconds / SAMPLES))
        removed = ask(SQL["bounds"])[0]
    tenth = max(1, SAMPLES // 10)
    ratios = [
        mean(each[-tenth:]) / mean(each[:tenth]) for each in map(list, zip(*samples, strict=True))
    ]
    ins, outs = zip(*samples, strict=True)
    return Round(
        figures={"in_per_s": median(ins), "out_per_s": median(outs), "removed": removed},
        ratios={"last_of_first": min(ratios)},
    )


def _samples(each: float) -> Iterator[tuple[float, float]]:
    """Yield how many events a second were given positions, and handled."""
    began, before = time.monotonic(), _reached()
    for number in range(1, SAMPLES + 1):
        time.sleep(max(0.0, began + each * number - time.monotonic()))
        now = _reached()
        seconds, head, handled = (new - old for new, old in zip(now, before, strict=True))
        yield head / seconds, handled / seconds
        before = now


def _reached() -> tuple[float, int, int]:
    return time.monotonic(), ask(SQL["bounds"])[1], _handled()


@contextmanager
def _retaining() -> Iterator[None]:
    """Have a worker drop what is older than a minute."""
    with worker.running("runworker", "--threads", "0", PGQUEUE_EVENT_RETENTION=str(KEPT_S)):
        yield


# --- The log


def _empty() -> None:
    session().execute(SQL["empty"])
    for name in ("pgqueue_event_inbox", "pgqueue_event", "pgqueue_cursor", "pgqueue_reader"):
        session().execute(f"VACUUM (ANALYZE) {name}")


def _make(name: str) -> None:
    with session().transaction():
        groups.make_group(session(), name, partitions=1, position=0)


def _handled() -> int:
    handled: int = ask(SQL["handled"])[0]
    return handled


def _is_read() -> bool:
    """Say whether a reader has the group's partition."""
    return bool(ask(SQL["is_read"])[0])


def _is_awaited() -> bool:
    """Say whether an idle reader waits to be notified, by those who publish or by the WAL."""
    return bool(ask(SQL["is_awaited"])[0])
