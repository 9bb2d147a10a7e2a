"""The data source `pgqueue`: the classes that Spark calls.

Spark pickles these objects, and calls each method in a separate process. So each method opens its
own connection. Filters are options. `pushFilters` is not implemented: with it, Spark 4.2 and 4.3
return wrong rows if one DataFrame is filtered twice (apache/spark pull request 57752).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pgqueue.arrow import eventstream, streaming
from pgqueue.arrow.options import (
    ReadOptions,
    StreamOptions,
    read_options,
    selection,
    stream_options,
)
from pgqueue.arrow.outages import patiently
from pgqueue.arrow.planning import Part, plan
from pgqueue.arrow.reading import batches
from pgqueue.spark.quiet import end_quietly
from pgqueue.spark.writeoptions import write_options
from pgqueue.spark.writing import Attempt, Rows

if TYPE_CHECKING:
    import pyarrow as pa


class PgQueueDataSource(DataSource):
    """The tables of the queue, for `spark.read.format("pgqueue").option("table", "history")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pgqueue"

    def schema(self) -> str:
        """Return the selected columns as Spark's DDL."""
        columns = selection(self.options).columns
        return ", ".join(f"`{column.name}` {column.type.value}" for column in columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader that reads a table once."""
        return BatchReader(read_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader that follows a table."""
        return StreamReader(stream_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that makes messages or events of rows, or applies a verb to their ids."""
        options = write_options(self.options, is_stream=False, overwrites=overwrite)
        return BatchWriter(Rows(options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer that does the same with each batch of a stream."""
        options = write_options(self.options, is_stream=True, overwrites=overwrite)
        return StreamWriter(Rows(options, schema))


class _Partition(InputPartition):
    """A part of a plan, as Spark passes it to a task."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


class BatchReader(DataSourceReader):
    """Reads a table once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the table; Spark calls this once for each `load()`."""
        return [_Partition(part) for part in plan(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, on an executor."""
        assert isinstance(partition, _Partition)  # noqa: S101
        end_quietly()
        return batches(self._options, partition.part)


class _Range(InputPartition):
    """A range of a batch, as Spark passes it to a task."""

    def __init__(self, start: Any, part: Any) -> None:
        super().__init__((start, part))
        self.start = start
        self.part = part


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows history or events; Spark keeps it in one process while the query runs."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._until: Any = None

    @property
    def _follow(self) -> ModuleType:
        return eventstream if self._options.table.is_log else streaming

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset where a new query begins."""
        offset: dict[str, Any] = self._follow.first(self._options).as_json()
        return offset

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the most rows that a batch may read."""
        limit = self._options.limit
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query with the last row that exists now."""
        self._until = patiently(partial(self._follow.newest, self._options))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the offset where the next batch ends."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        offset = self._follow.Offset.from_json(start)
        following = partial(
            self._follow.next_after, offset, self._options, limit=rows, until=self._until
        )
        end = patiently(following)
        found: dict[str, Any] = end.as_json()
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide a batch."""
        first, last = map(self._follow.Offset.from_json, (start, end))
        first = last.begin(first)
        parts = patiently(partial(self._follow.divide, self._options, first, last))
        return [_Range(first, part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, on an executor."""
        assert isinstance(partition, _Range)  # noqa: S101
        end_quietly()
        found: Iterator[pa.RecordBatch] = self._follow.read(
            self._options, partition.start, partition.part
        )
        return found


class _Staged(WriterCommitMessage):
    """The attempt of a task, as Spark passes it to the driver."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt


def _stage(rows: Rows, iterator: Iterable[pa.RecordBatch]) -> WriterCommitMessage:
    context = TaskContext.get()
    return _Staged(rows.stage(iterator, partition=context.partitionId() if context else 0))


def _attempts(messages: Sequence[WriterCommitMessage | None]) -> list[Attempt]:
    # A task that failed has no message.
    return [each.attempt for each in messages if isinstance(each, _Staged)]


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task, on an executor."""
        return _stage(self._rows, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the staged rows of all tasks, on the driver."""
        self._rows.commit(_attempts(messages), version=self._rows.options.version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged rows, on the driver."""
        self._rows.abort(_attempts(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task, on an executor."""
        return _stage(self._rows, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the staged rows of all tasks, on the driver."""
        # If the answer to a commit is lost, the next try finds its record.
        patiently(partial(self._rows.commit, _attempts(messages), version=batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove the staged rows, on the driver."""
        self._rows.abort(_attempts(messages))
