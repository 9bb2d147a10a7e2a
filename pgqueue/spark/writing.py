"""Write a DataFrame: its tasks stage rows, and the driver commits them in one transaction, once.

The record of the write, the messages and the removal of the staged rows are committed together: a
write that Spark repeats, since it has not learned of its end, finds the record and does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import staged
from pgqueue.engine.operate import VERBS
from pgqueue.engine.staged import Defaults, Write
from pgqueue.spark.urls import connect
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

SQL = load(__name__)
EMPTY_CALL = '{"args":[],"kwargs":{}}'

logger = logger_of(__name__)


class Attempt(NamedTuple):
    """What one task of Spark has staged."""

    partition: int
    attempt: int
    rows: int


class Rows:
    """The rows of a write, from the tasks that stage them to the transaction that commits them.

    Raises:
        InvalidColumn: rows of this schema can't be written.
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
            InvalidRow: a value can't be.
            psycopg.Error: the database can't be reached, or the connection broke.
        """
        from pgqueue.spark.staging import stage

        options = self.options
        given = {"task": options.task, "topic": options.topic}
        required = {"id", *(name for name, value in given.items() if value is None)}
        staged = stage(options.url, batches, self._columns, required, task=options.task)
        return Attempt(partition, *staged)

    def commit(self, attempts: Sequence[Attempt], *, version: int | None) -> None:
        """Make messages or events of what was staged, or tell a verb of it, on the driver.

        Args:
            version: of the write, under its application id; None: it has none.

        Raises:
            WriteConflict: another write was committed under this id, or staged rows are gone.
            BatchTooLarge: it has too many lanes that need a lock.
            ChannelFull: a policy's max_size is reached.
            psycopg.Error: the database can't be reached, or the connection broke.
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
        # Where there is a task, a row without arguments calls it without any.
        is_call = self.options.task is not None or "task" in self._names
        return Defaults(
            task=self.options.task or "",
            channel=self.options.channel or "default",
            payload=EMPTY_CALL if is_call else None,
        )

    def abort(self, attempts: Sequence[Attempt]) -> None:
        """Remove what was staged for a write that failed, on the driver."""
        with connect(self.options.url, name="abort") as connection:
            staged.remove(connection, [each.attempt for each in attempts])
