"""Stage the rows of one task of Spark: check them, and COPY them into PostgreSQL, on an executor.

Spark may run a task twice, or kill it. So each attempt stages rows under a number of its own. Only
the driver learns the numbers of the successful attempts, and makes messages of their rows. The
executor sends the rows in pieces, each in its own transaction. A transaction that is open as long
as Spark computes rows would hold back the streams that follow history.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.sql import SQL, Identifier
from pyarrow import csv
from pyspark.sql.pandas.types import is_variant
from pyspark.sql.types import VariantVal

from pgqueue.arrow.urls import connect
from pgqueue.codec.arguments import PAYLOAD_LIMIT
from pgqueue.codec.encoding import ANYTHING
from pgqueue.codec.envelope import is_envelope
from pgqueue.codec.json_text import from_json
from pgqueue.codec.scalars import Unstorable
from pgqueue.database.sql_files import load
from pgqueue.engine import staged
from pgqueue.exceptions import InvalidEvent
from pgqueue.spark.errors import InvalidRow
from pgqueue.spark.written import Kind, Written
from pgqueue.values.error_words import shown

SQL_TEXTS = load("pgqueue.arrow.shared")
PIECE = 4 << 20
"""Bytes that are sent in one transaction, approximately."""
_SIZED = (Kind.TEXT, Kind.BYTES, Kind.LIST, Kind.OBJECT, Kind.JSON)
_BEGINS = {Kind.LIST: ("[", "a JSON list"), Kind.OBJECT: ("{", "a JSON object")}
_OPTIONS = csv.WriteOptions(include_header=False, quoting_style="needed")


def stage(
    url: str,
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[Written],
    required: Collection[str],
    *,
    task: str | None = None,
) -> tuple[int, int]:
    """Stage rows; return the number of this attempt, and the number of staged rows.

    Args:
        url: see `urls.resolve`.
        columns: the columns of the batches.
        required: the columns that must not be null.
        task: the task of a row that names none; None: these rows are raw messages.

    Raises:
        InvalidRow: a value is invalid.
        psycopg.Error: the database is unreachable, or the connection broke.
    """
    rows = 0
    piece = io.BytesIO()
    with connect(url, name="stage") as connection:
        attempt = staged.begin(connection)
        names: list[str] = []
        for batch in batches:
            table = _table(batch, columns, required, task)
            first = numpy.arange(rows, rows + batch.num_rows)
            names = ["attempt", "number", *table]
            csv.write_csv(
                pa.table([numpy.full(batch.num_rows, attempt), first, *table.values()], names),
                piece,
                _OPTIONS,
            )
            rows += batch.num_rows
            if piece.tell() >= PIECE:
                _send(connection, names, piece)
                piece = io.BytesIO()
        if piece.tell():
            _send(connection, names, piece)
    return attempt, rows


def payloads(batch: pa.RecordBatch, columns: Sequence[Written]) -> list[str]:
    """Return the payloads that rows would be staged with.

    Raises:
        InvalidRow: a value is invalid.
    """
    found: list[str] = _table(batch, columns, ())["payload"].to_pylist()
    return found


def _send(connection: psycopg.Connection[Any], names: Sequence[str], piece: io.BytesIO) -> None:
    copy_in = SQL("COPY pgqueue_staged ({}) FROM STDIN (FORMAT csv)").format(
        SQL(", ").join(map(Identifier, names))
    )
    try:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(SQL_TEXTS["no_timeouts"])
            with cursor.copy(copy_in) as copy:
                copy.write(piece.getbuffer())
    except psycopg.DataError as error:
        said = error.diag
        column = re.search(r"column (\w+)(?:: (.*))?", said.context or "")
        culprit = f"The column {column[1]!r}" if column else "A row"
        text = " ".join(filter(None, (said.message_primary, said.message_detail)))
        raise InvalidRow(f"{culprit} is refused: {text}".replace("\n", " ")) from None


def _table(
    batch: pa.RecordBatch,
    columns: Sequence[Written],
    required: Collection[str],
    task: str | None = None,
) -> Mapping[str, pa.Array]:
    """Return the staged columns of a batch, as values of CSV."""
    arrays = {}
    for column, array in zip(columns, batch.columns, strict=True):
        if column.name in required and array.null_count:
            raise InvalidRow(f"The column {column.name!r} has a null: every row needs one.")
        arrays[column.name] = _checked(column, array)
    if "id" in arrays:
        return {"message_id": arrays["id"]}
    calls = [arrays.pop(name, None) for name in ("args", "kwargs")]
    if any(each is not None for each in calls):
        arrays["payload"] = _payload(*calls, rows=batch.num_rows)
    elif "payload" in arrays and (task or "task" in arrays):
        _check_calls(arrays["payload"], arrays.get("task"), task)
    return arrays


def _check_calls(payloads: pa.Array, tasks: pa.Array | None, task: str | None) -> None:
    """Check that the payloads of tasks are arguments of a call, which a worker can read.

    Raises:
        InvalidRow: a payload is something else.
    """
    each = [task] * len(payloads) if tasks is None else tasks.to_pylist()
    for text, own in zip(payloads.to_pylist(), each, strict=True):
        if text is None or not (own or task):
            continue
        try:
            payload = from_json(text.strip())
        except (ValueError, RecursionError):
            continue  # PostgreSQL names the fault
        args, kwargs = (
            (payload.get("args", []), payload.get("kwargs", {}))
            if type(payload) is dict and payload.keys() <= {"args", "kwargs"}
            else (None, None)
        )
        if (type(args), type(kwargs)) != (list, dict) and not is_envelope(text):
            raise InvalidRow(
                f"The column 'payload': {shown(text)} is not the payload of a task, "
                '{"args": […], "kwargs": {…}}. Give the columns args and kwargs instead.'
            )


def _checked(column: Written, array: pa.Array) -> pa.Array:
    """Return a column with the values to stage.

    Raises:
        InvalidRow: a value is out of bounds, or PostgreSQL would refuse it.
    """
    if column.kind is Kind.NUMBER:
        _check_bounds(column, array, array, "")
        return array
    if column.kind is Kind.TIME:
        return array.cast(pa.timestamp("us", "UTC"))
    if column.kind not in _SIZED:
        return array
    if pa.types.is_struct(array.type) and is_variant(array.type):
        array = _as_json(array)
    is_plain = pa.types.is_string(array.type) or pa.types.is_binary(array.type)
    texts = array if is_plain else _dumped(column, array)
    _check_bounds(column, texts, pc.binary_length(texts), " bytes")
    if column.kind is Kind.BYTES:
        return pa.array(
            [None if each is None else f"\\x{each.hex()}" for each in texts.to_pylist()]
        )
    _refuse_where(column, texts, pc.match_substring(texts, "\x00"), "has the character NUL")
    if column.check:
        _check_each(column, texts)
    if is_plain and column.kind in _BEGINS:
        sign, what = _BEGINS[column.kind]
        begins = pc.starts_with(pc.utf8_ltrim(texts, " \t\r\n"), sign)
        _refuse_where(column, texts, pc.invert(begins), f"is not {what}")
    return texts


def _check_each(column: Written, texts: pa.Array) -> None:
    """Check each distinct text once: most are equal."""
    for text in pc.unique(texts).to_pylist():
        try:
            if text is not None and column.check:
                column.check(text)
        except InvalidEvent as error:
            raise InvalidRow(f"The column {column.name!r}: {error}") from None
        except ValueError as error:
            raise InvalidRow(f"The column {column.name!r}: {shown(text)}: {error}") from None


def _as_json(variants: pa.Array) -> pa.Array:
    """Return values of the type VARIANT as JSON."""
    values = [
        None if each is None else VariantVal(each["value"], each["metadata"]).toJson()
        for each in variants.to_pylist()
    ]
    return pa.array(values, pa.string())


def _dumped(column: Written, array: pa.Array) -> pa.Array:
    """Return values of Spark's own types as JSON, by the codec of arguments."""
    try:
        values = array.to_pylist(maps_as_pydicts="strict")
        return pa.array(
            [None if value is None else ANYTHING.dump(value) for value in values], pa.string()
        )
    except Unstorable as error:
        raise InvalidRow(error.about(f"the column {column.name!r}")) from None
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidRow(f"The column {column.name!r}: {error}") from None


def _payload(args: pa.Array | None, kwargs: pa.Array | None, *, rows: int) -> pa.Array:
    """Return the payloads of calls with these arguments, as JSON."""
    given = [
        pa.array([empty]).take(pa.array(numpy.zeros(rows, "int8")))
        if array is None
        else pc.fill_null(array, empty)
        for array, empty in ((args, "[]"), (kwargs, "{}"))
    ]
    payload = pc.binary_join_element_wise('{"args":', given[0], ',"kwargs":', given[1], "}", "")
    longest = pc.max(pc.binary_length(payload)).as_py() or 0
    if longest > PAYLOAD_LIMIT:
        raise InvalidRow(
            f"The arguments of a row take {longest:,} bytes, more than {PAYLOAD_LIMIT:,}: "
            "store the data elsewhere, and pass its location."
        )
    return payload


def _check_bounds(column: Written, array: pa.Array, numbers: pa.Array, unit: str) -> None:
    low, high = pc.min_max(numbers).as_py().values()
    if low is not None and not column.least <= low <= high <= column.most:
        number = low if low < column.least else high
        value = array[pc.index(numbers, number).as_py()].as_py()
        raise InvalidRow(
            f"The column {column.name!r} has {shown(value)}: it must have from {column.least} to "
            f"{column.most:,}{unit}{f', and this has {number:,}' if unit else ''}."
        )


def _refuse_where(column: Written, array: pa.Array, wrong: pa.Array, what: str) -> None:
    if pc.any(wrong).as_py():
        value = array[pc.index(wrong, True).as_py()].as_py()
        raise InvalidRow(f"The column {column.name!r}: {shown(value)} {what}.")
