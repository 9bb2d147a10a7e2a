"""COPY from PostgreSQL into Arrow: the fastest way that needs no further library.

Measured for a million rows of eight columns: COPY as CSV, parsed by pyarrow, 530 000 rows/s; a
binary cursor 390 000; COPY in binary, parsed by psycopg, 270 000.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.sql import SQL, Composable
from pyarrow import csv

from pgqueue.spark.tables import Column, Type

BLOCK = 4 << 20
"""Bytes that are parsed at a time."""


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of what is read: Spark refuses any other."""
    return pa.schema([(column.name, column.type.arrow) for column in columns])


def read(
    connection: psycopg.Connection[Any], query: Composable, columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Run a query without parameters; yield its rows.

    Args:
        columns: what the query returns, with binary columns as hexadecimal text. The session's
            time zone is to be UTC, its DateStyle ISO.
    """
    # PostgreSQL sends each row in a message of its own: a block ends where a row does.
    rows: list[Any] = []
    size = 0
    copy_out = SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query)
    with connection.cursor() as cursor, cursor.copy(copy_out) as copy:
        for row in copy:
            rows.append(row)
            size += len(row)
            if size >= BLOCK:
                yield from _parsed(rows, columns)
                rows, size = [], 0
        if rows:
            yield from _parsed(rows, columns)


def _parsed(rows: list[Any], columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    data = b"".join(rows)
    schema = arrow_schema(columns)
    types = {
        column.name: pa.string() if column.type is Type.BINARY else column.type.arrow
        for column in columns
    }
    table = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(
            column_names=[column.name for column in columns],
            block_size=len(data) + 1,
            use_threads=False,
        ),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        # A NULL is nothing at all; an empty text is in quotes.
        csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for batch in table.to_batches():
        arrays = [
            _unhexed(array) if column.type is Type.BINARY else array
            for column, array in zip(columns, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unhexed(texts: pa.Array) -> pa.Array:
    # PostgreSQL writes \\x before them.
    values = [None if text is None else bytes.fromhex(text[2:]) for text in texts.to_pylist()]
    return pa.array(values, pa.binary())
