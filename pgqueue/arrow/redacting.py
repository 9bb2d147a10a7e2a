"""Redact rows on the executor that reads them.

Arrow finds the rows that may contain a secret; Python looks only at these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pgqueue.arrow.options import Selection
from pgqueue.arrow.tables import Column
from pgqueue.redaction import Redaction

S = TypeVar("S", bound=Selection)

JSON = ("payload", "metadata", "options", "progress", "result", "errors")
TEXTS = ("error_message", "traceback")
BY_TASK = {"payload", "result"}
"""Columns whose redaction depends on the task."""
QUOTING = {*TEXTS, "errors", "result", "progress"}
"""Columns that often quote an argument."""
QUOTED = {"payload", "metadata"}
"""Columns with what they quote."""
BODY = "body"


def with_needed(options: S) -> S:
    """Return the options with the columns that the redaction of the chosen columns needs."""
    table, names = options.table, {column.name for column in options.columns}
    needed = set() if QUOTING.isdisjoint(names) else QUOTED - names
    if not BY_TASK.isdisjoint(names | needed):
        needed |= {"task"} - names
    added = [each for each in (*table.columns, *table.quoted) if each.name in needed]
    return replace(options, columns=(*options.columns, *added))


def redacted(
    batch: pa.RecordBatch, redaction: Redaction, columns: Sequence[Column]
) -> pa.RecordBatch:
    """Return redacted rows.

    A body is bytes without fields, so it is left out.

    Args:
        columns: the columns to return.
    """
    return _redacted(batch, redaction).select([column.name for column in columns])


def _redacted(batch: pa.RecordBatch, redaction: Redaction) -> pa.RecordBatch:
    if BODY in batch.schema.names:
        batch = _with(batch, BODY, pa.nulls(batch.num_rows, pa.binary()))
    json = [name for name in JSON if name in batch.schema.names]
    texts = [name for name in TEXTS if name in batch.schema.names]
    suspected = _suspected(batch, redaction, json)
    if not pc.any(suspected).as_py():
        return batch
    rows = batch.filter(suspected).select([*json, *texts, *_task(batch)]).to_pylist()
    for row in rows:
        shown, hidden = redaction.rules(row.get("task")).redact({name: row[name] for name in json})
        row.update(shown)
        row.update({name: row[name] and hidden(row[name]) for name in texts})
    for name in (*json, *texts):
        found = pa.array([row[name] for row in rows], pa.string())
        batch = _with(batch, name, pc.replace_with_mask(batch[name], suspected, found))
    return batch


def _suspected(batch: pa.RecordBatch, redaction: Redaction, json: Sequence[str]) -> pa.Array:
    """Return for each row whether it may contain a field to redact."""
    suspected = pa.repeat(False, batch.num_rows)
    if redaction.fields:
        texts, rows = _long_texts(batch, json)
        mention = redaction.rules(None).others.mention.pattern
        found = rows.filter(pc.match_substring_regex(texts, mention, ignore_case=True))
        if len(found):
            suspected = pc.is_in(pa.array(range(batch.num_rows), pa.uint64()), found)
    if redaction.tasks and _task(batch):
        known = pa.array(list(redaction.tasks), pa.string())
        suspected = pc.or_(suspected, pc.is_in(batch["task"], known))
    return suspected


def _long_texts(batch: pa.RecordBatch, json: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """Return the texts that are longer than an empty object or list, and the row of each.

    They are searched at once, since Arrow compiles a pattern for each search: *measured*, 3 ms.
    """
    texts, rows = [pa.array([], pa.large_string())], [pa.array([], pa.uint64())]
    for name in json:
        is_long = pc.greater(pc.binary_length(batch[name]), len("{}"))
        # Together they may have more than the 2 GiB of a `string`.
        texts.append(batch[name].filter(is_long).cast(pa.large_string()))
        rows.append(pc.indices_nonzero(is_long))
    return pa.concat_arrays(texts), pa.concat_arrays(rows)


def _task(batch: pa.RecordBatch) -> list[str]:
    return ["task"] if "task" in batch.schema.names else []


def _with(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    number = batch.schema.names.index(name)
    return batch.set_column(number, batch.schema.field(number), values)
