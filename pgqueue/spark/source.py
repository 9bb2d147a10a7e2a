"""The data source `pgqueue`: what Spark calls.

Spark pickles these objects, and calls each method in a process of its own: a connection is opened
where it is used. `pushFilters` is not implemented: with it, Spark 4.2 and 4.3 return wrong rows
where one DataFrame is filtered twice (apache/spark pull request 57752). Filters are options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pgqueue.spark.options import ReadOptions, read_options
from pgqueue.spark.planning import Part, plan
from pgqueue.spark.reading import batches

if TYPE_CHECKING:
    import pyarrow as pa


class PgQueueDataSource(DataSource):
    """The tables of the queue, for `spark.read.format("pgqueue").option("table", "history")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pgqueue"

    def schema(self) -> str:
        """Return the columns that the options ask for, as Spark's DDL."""
        columns = read_options(self.options).columns
        return ", ".join(f"`{column.name}` {column.type.value}" for column in columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of these columns."""
        return BatchReader(read_options(self.options))


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
        """Divide the table; called once for each `load()`."""
        return [_Partition(part) for part in plan(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, on an executor."""
        assert isinstance(partition, _Partition)  # noqa: S101
        return batches(self._options, partition.part)
