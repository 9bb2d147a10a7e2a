"""Times of searches for arguments, metadata or a tag among so many ended messages.

bounded_p50_ms, …_p95_ms  without the index: a page of the admin, which looks through a stretch
indexed_p50_ms, …_p95_ms  with the index of `IndexSearch`: a page that looks through everything, or
                          says which stretch it has looked through
indexed_whole_percent     how many of the latter looked through everything
unindexed_p50_ms, …       one statement that reads every row, without the index
index_s, index_mb         making the index of the history, and its size
write_per_s               rows inserted into the history, without the index
indexed_write_per_s       … with it
live_per_s                messages stored, marked as running and deleted by three statements,
                          without the index of live messages
indexed_live_per_s        … with it

The searches take turns: for one row, for none, for about 200 to 2 000 of ten million, and for a
tenth of all rows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import quantiles

from pgqueue.admin.changelist import LOOK_FOR
from pgqueue.database.sql_files import load
from pgqueue.engine import search_index
from pgqueue.listing.index import NEWEST_FIRST
from pgqueue.models import History
from pgqueue.operating.searching import matching
from pgqueue.values.searches import parsed
from tests.benchmarks.harness import messages
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import ask, session

SQL = load(__name__)

SIZES = (10_000_000,)
CHUNK = 500_000
"""Rows of one statement that fills the history."""
SEARCHES = 200
WHOLE_READS = 5
PER_PAGE = 100
MOST_LIVE = 100_000


def measure(*, messages: int, rounds: int) -> Report:
    """Compare searches with the index and without."""
    with _patient():
        return repeat("search", _round, messages=messages, rounds=rounds)


@contextmanager
def _patient() -> Iterator[None]:
    """Let statements that fill, vacuum and index millions of rows take their time."""
    [timeout] = ask("SELECT current_setting('statement_timeout')")
    set_timeout = "SELECT set_config('statement_timeout', %(timeout)s, false)"
    ask(set_timeout, {"timeout": "0"})
    try:
        yield
    finally:
        ask(set_timeout, {"timeout": timeout})


def _round(count: int) -> Round:
    messages.empty()
    few = max(count // 20, 1)
    _fill(1, count - 2 * few)
    lives = min(few, MOST_LIVE)
    live_per_s = lives / _seconds(lambda: _live(lives))
    write_per_s = few / _seconds(lambda: _fill(count - 2 * few + 1, count - few))
    _settle()
    texts = list(_texts(count, SEARCHES))
    unindexed = [1000 * _seconds(lambda text=text: _read_all(text)) for text in texts[:WHOLE_READS]]
    bounded, _ = _searched(texts)
    with _indexed() as index_s:
        indexed_live_per_s = lives / _seconds(lambda: _live(lives))
        indexed_write_per_s = few / _seconds(lambda: _fill(count - few + 1, count))
        _settle()
        indexed, whole = _searched(texts)
        [index_mb] = ask(SQL["size"])
    messages.empty()
    return Round(
        figures={
            **_spread("bounded", bounded),
            **_spread("indexed", indexed),
            **_spread("unindexed", unindexed),
            "indexed_whole_percent": 100 * whole / len(texts),
            "index_s": index_s,
            "index_mb": float(index_mb),
            "write_per_s": write_per_s,
            "indexed_write_per_s": indexed_write_per_s,
            "live_per_s": live_per_s,
            "indexed_live_per_s": indexed_live_per_s,
        },
        ratios={},
    )


def _fill(first: int, last: int) -> None:
    for start in range(first, last + 1, CHUNK):
        session().execute(SQL["fill"], {"first": start, "last": min(last, start + CHUNK - 1)})


def _live(count: int) -> None:
    session().execute(SQL["enqueue"], {"count": count})
    session().execute(SQL["claim"])
    session().execute(SQL["end"])


def _settle() -> None:
    session().execute("VACUUM (ANALYZE) pgqueue_history")
    session().execute("CHECKPOINT")


def _texts(count: int, number: int) -> Iterator[str]:
    chosen = random.Random(count)
    for turn in range(number):
        n = chosen.randint(1, count)
        yield (
            f"args.order={n}",
            f"args.order={count + n}",
            f"args.customer={n % 50_000}",
            f"meta.tenant=tenant {n % 5000}",
            f"tag=import {n % 20_000}",
            f"args.country={n % 10}",
        )[turn % 6]


@contextmanager
def _indexed() -> Iterator[float]:
    """Have the index; yield the seconds that it took."""
    connection = session()
    try:
        yield _seconds(
            lambda: search_index.make_index(connection, connection.execute, concurrently=True)
        )
    finally:
        search_index.drop_index(connection, connection.execute, concurrently=True)


def _searched(texts: Sequence[str]) -> tuple[list[float], int]:
    """Return the milliseconds of each search, and how many looked through everything."""
    took, whole = [], 0
    for text in texts:
        began = time.monotonic()
        whole += _page(text)
        took.append(1000 * (time.monotonic() - began))
    return took, whole


def _page(text: str) -> bool:
    """Look as a page of the admin does; return whether it looked through everything."""
    listing = NEWEST_FIRST.listing(History.objects.all(), matching(text))
    until = time.monotonic() + LOOK_FOR
    stretch = listing.stretch()
    while stretch.next and len(stretch.ids) < PER_PAGE and time.monotonic() < until:
        stretch = stretch + listing.stretch(stretch.next)
    return listing.candidates is not None or stretch.is_all


def _read_all(text: str) -> None:
    search = parsed(text)
    session().execute(SQL["read_all"], {"path": search.json_path()}).fetchall()


def _seconds(do: Callable[[], object]) -> float:
    began = time.monotonic()
    do()
    return time.monotonic() - began


def _spread(name: str, took: Sequence[float]) -> dict[str, float]:
    twentieths = quantiles(took, n=20, method="inclusive")
    return {f"{name}_p50_ms": twentieths[9], f"{name}_p95_ms": twentieths[18]}
