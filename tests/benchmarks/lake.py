"""Exports to a lake without Spark, of a history that workers made (see `make history`).

ducklake_per_s     rows of history a second, all their columns, redacted, into a DuckLake with its
                   catalog in PostgreSQL
delta_per_s        the same into a Delta table
iceberg_per_s      the same into an Iceberg table
read_per_s         rows of history a second, of eight columns, as Arrow, by their reader

The other tables of an export are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from unittest.mock import patch

import psycopg

from pgqueue.arrow import streaming
from pgqueue.arrow.options import stream_options
from pgqueue.arrow.targets import forget
from pgqueue.lake import FORMATS, export, exporting
from tests.benchmarks.harness.history import ensure
from tests.benchmarks.harness.report import Report, Round, repeat

SIZES = (1_000_000,)
COLUMNS = "id, channel, key, task, outcome, attempt, created_at, finished_at"


def measure(*, messages: int, rounds: int) -> Report:
    """Measure each format in turn."""
    url = ensure(messages)
    return repeat("lake", lambda _: _round(url), messages=messages, rounds=rounds)


def _round(url: str) -> Round:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pgqueue_history").fetchone()
        rows = row[0] if row else 0
    figures = {
        f"{name}_per_s": rows / _seconds(lambda name=name: _export(url, name)) for name in FORMATS
    }
    figures["read_per_s"] = rows / _seconds(lambda: _read(url))
    return Round(figures=figures, ratios={})


def _seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _export(url: str, tables_format: str) -> None:
    with TemporaryDirectory() as folder:
        try:
            with (
                patch.object(exporting, "OF_HISTORY", ("history",)),
                patch.object(exporting, "REPLACED", ()),
            ):
                export(url=url, to=folder, tables_format=tables_format)
        finally:
            forget(url=url, to=folder)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP SCHEMA IF EXISTS pgqueue_lake CASCADE")


def _read(url: str) -> None:
    given = {"url": url, "table": "history", "columns": COLUMNS, "startingOffsets": "earliest"}
    options = stream_options(given)
    start = streaming.first(options)
    end = streaming.next_after(start, options, limit=None)
    [part] = streaming.divide(options, start, end)
    for _ in streaming.read(options, start, part):
        pass
