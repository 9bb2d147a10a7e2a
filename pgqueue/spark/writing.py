"""Write a DataFrame once: its tasks stage rows, and the driver commits them in one transaction.

The driver commits the record of the write, the messages and the removal of the staged rows
together. If Spark repeats a write since its answer was lost, the second write finds the record
and does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pgqueue.arrow.urls import connect
from pgqueue.database.sql_files import load
from pgqueue.engine import staged
from pgqueue.engine.operate import VERBS
from pgqueue.engine.staged import Defaults, Write
from pgqueue.spark.writeoptions import ENQUEUE, PUBLISH, WriteOptions
from pgqueue.spark.written import (
    EVENT,
    IDS,
    MESSAGE,
    check_event,
    check_ids,
    check_message,
    check_payload,
    columns_of,
)
from pgqueue.values.escaping import logger_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SQL = load("pgqueue.arrow.shared")
EMPTY_CALL = '{"args":[],"kwargs":{}}'

logger = logger_of(__name__)


class Attempt(NamedTuple):
    """The rows that one task of Spark has staged."""

    partition: int
    attempt: int
    rows: int


class Rows:
    """The rows of a write, from the tasks that stage them to the transaction that commits them.

    Raises:
        InvalidColumn: the schema does not fit the operation.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        known = {ENQUEUE: MESSAGE, PUBLISH: EVENT}.get(options.operation, IDS)
        self._columns = columns_of(schema, known)
        self._names = {column.name for column in self._columns}
        if options.operation == ENQUEUE:
            check_message(self._names, task=options.task, channel=options.channel)
            check_payload(schema, task=options.task)
        elif options.operation == PUBLISH:
            check_event(self._names, topic=options.topic)
        else:
            check_ids(self._columns)

    def stage(self, batches: Iterable[pa.RecordBatch], *, partition: int) -> Attempt:
        """Stage the rows of a task, on an executor.

        Raises:
            InvalidRow: a value is invalid.
            psycopg.Error: the database is unreachable, or the connection broke.
        """
        from pgqueue.spark.staging import stage

        options = self.options
        given = {"task": options.task, "topic": options.topic}
        required = {"id", *(name for name, value in given.items() if value is None)}
        staged = stage(options.url, batches, self._columns, required, task=options.task)
        return Attempt(partition, *staged)

    def commit(self, attempts: Sequence[Attempt], *, version: int | None) -> None:
        """Make messages or events of staged rows, or apply a verb to their ids, on the driver.

        Args:
            version: the version of the write under its application id; None: none.

        Raises:
            WriteConflict: another write was committed under this id, or staged rows are gone.
            BatchTooLarge: the write has too many lanes that need a lock.
            ChannelFull: a policy's max_size is reached.
            psycopg.Error: the database is unreachable, or the connection broke.
        """
        options = self.options
        numbers = [each.attempt for each in sorted(attempts)]
        rows = sum(each.rows for each in attempts)
        with connect(options.url, name="commit") as connection, connection.transaction():
            connection.execute(SQL["no_timeouts"])
            write = Write(options.app_id or "", version or 0, options.origin)
            if options.app_id is not None and not staged.is_new(connection, write, rows=rows):
                logger.info("Version %s of %s was committed before.", version, options.app_id)
            elif options.operation == ENQUEUE:
                stored = staged.enqueue(connection, numbers, self._defaults(), rows=rows)
                logger.info("Stored %s messages; %s existed.", stored.stored, stored.existing)
            elif options.operation == PUBLISH:
                staged.publish(connection, numbers, topic=options.topic, rows=rows)
                logger.info("Published %s events.", rows)
            else:
                verb = VERBS[options.operation]
                operated = staged.operate(connection, numbers, verb, rows=rows)
                if busy := len(operated.busy):
                    logger.warning("%s messages were locked, and left as they are.", busy)
            staged.remove(connection, numbers)

    def _defaults(self) -> Defaults:
        # A row without arguments calls its task without arguments.
        is_call = self.options.task is not None or "task" in self._names
        return Defaults(
            task=self.options.task or "",
            channel=self.options.channel or "default",
            payload=EMPTY_CALL if is_call else None,
        )

    def abort(self, attempts: Sequence[Attempt]) -> None:
        """Remove the staged rows of a failed write, on the driver."""
        with connect(self.options.url, name="abort") as connection:
            staged.remove(connection, [each.attempt for each in attempts])
