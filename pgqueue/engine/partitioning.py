"""Make the partitions of a log while others use it, and drop the ones whose retention is over.

Each log decides which partitions are over, and its floor after a drop (`Log`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from operator import attrgetter
from time import monotonic
from typing import Any, NamedTuple

from psycopg import Error
from psycopg.errors import (
    DuplicateObject,
    DuplicateTable,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
    UndefinedTable,
    UniqueViolation,
)
from psycopg.sql import SQL as Text
from psycopg.sql import Composed, Identifier, Literal

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import is_pooled, wait_at_most
from pgqueue.engine.culprits import may_be_own, one_by_one, tell
from pgqueue.engine.values import Connection

SQL = load(__name__)

PATIENCE = "5s"
"""The lock_timeout: while this code waits for a lock, it blocks other sessions."""
LONGEST = 60.0
"""Seconds after which no further partition is begun: the duty must report its progress."""
UNMARKING = "1min"
"""The lock_timeout for removing a mark, which matters more than marking."""
DROPPING, MAKING = "drop partitions", "make partitions"
"""The names of this work in the log."""
MARK = "pgqueue: nothing in here is kept any more"
"""The comment on a table before its drop: a table without it may be an operator's archive."""


class PartitionToDrop(NamedTuple):
    """A partition that must be dropped, and the state of its drop.

    A stale partition is marked, but its detaching has not begun.
    """

    schema: str
    log: str
    name: str
    is_attached: bool
    is_pending: bool
    is_stale: bool

    @property
    def table(self) -> Identifier:
        """The partition's table."""
        return Identifier(self.schema, self.name)

    @property
    def parent(self) -> Identifier:
        """The partitioned table that it is, or was, a part of."""
        return Identifier(self.schema, self.log)


@dataclass(frozen=True, kw_only=True)
class Log:
    """A partitioned table, and the rules of its drops.

    Args:
        table: its name.
        pattern: a regular expression of its partitions' names.
        past: the statement that returns the partitions whose retention is over. It includes `parts`
            and `past_parts`.
        floor: returns the last position of a partition; None: the partition has no position.
        may_go: returns whether a partition whose retention is over may be dropped. It is called
            again once no other session can detach the partition.
        given: the statement's other parameters.
    """

    table: str
    pattern: str
    past: str
    floor: Callable[[Connection, PartitionToDrop], int | None]
    may_go: Callable[[Connection, PartitionToDrop], bool]
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The log's name in pgqueue_log_floor."""
        return self.table.removeprefix("pgqueue_")

    def find(self, connection: Connection, *, only: str | None = None) -> list[PartitionToDrop]:
        """Return the partitions whose retention is over or whose drop has begun, in drop order."""
        own = {"table": self.table, "pattern": self.pattern, "mark": MARK, "only": only}
        return [
            PartitionToDrop(*row) for row in connection.execute(self.past, {**own, **self.given})
        ]

    def has(self, connection: Connection, past: PartitionToDrop) -> bool:
        """Return whether a partition's state is unchanged; other partitions may be locked."""
        return self.find(connection, only=past.name) == [past]


def make_partition(
    connection: Connection, schema: str, log: str, name: str, *, first: str | int, end: str | int
) -> bool:
    """Make a partition; return False if another session has made it meanwhile."""
    # LIKE and ATTACH, since PARTITION OF would wait for every reader of the log, and every writer
    # would wait behind it. ATTACH makes the indexes, too.
    parent, table = Identifier(schema, log), Identifier(schema, name)
    try:
        with connection.transaction():
            wait_at_most(connection, PATIENCE)
            connection.execute(
                Text("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)").format(
                    table, parent
                )
            )
            _share_rights(connection, parent, table)
            connection.execute(
                Text("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                    parent, table, Literal(first), Literal(end)
                )
            )
    except (DuplicateTable, DuplicateObject, UniqueViolation):
        # If two sessions make it at the same moment, one gets UniqueViolation from the catalog. It
        # gets DuplicateObject if the other one commits between its checks of table and type.
        return False
    return True


def _share_rights(connection: Connection, parent: Identifier, table: Identifier) -> None:
    """Grant the rights on the table on its partition, too: some statements read a partition."""
    names = {"parent": parent.as_string(connection), "table": table.as_string(connection)}
    for (grant,) in connection.execute(SQL["rights"], names).fetchall():
        connection.execute(Text(grant))


def drop(connection: Connection, log: Log) -> list[PartitionToDrop] | None:
    """Drop the partitions whose retention is over, for a minute at most.

    Readers and writers of the log go on meanwhile and do not wait. If a lock takes too long, for
    example because of a long report, it gives up; the next call continues there. If the drop of a
    partition fails, for example since a view depends on it, the log names it. The others are
    dropped all the same.

    Where an operator's detach was cancelled halfway, PostgreSQL refuses to detach concurrently.
    Then each partition is detached at once, for which writers wait a moment.

    Args:
        connection: in autocommit, and used for nothing else: its time-outs are changed.

    Returns:
        The dropped partitions; None: another session is dropping partitions of this log.

    Raises:
        psycopg.errors.LockNotAvailable: another session reads the log for too long.
    """
    if is_pooled(connection) or _one(connection, SQL["is_another_pending"], log):
        return _drop_at_once(connection, log)
    return _drop_concurrently(connection, log)


def _each(
    drop: Callable[[Connection, Log, PartitionToDrop], bool],
    connection: Connection,
    log: Log,
    past: Iterable[PartitionToDrop],
) -> list[PartitionToDrop]:
    """Drop partitions; return the ones that were dropped."""

    def one(each: PartitionToDrop) -> PartitionToDrop | None:
        return each if drop(connection, log, each) else None

    dropped = one_by_one(one, past, what=DROPPING, row=attrgetter("name"), is_own=is_own)
    return [each for each in dropped if each is not None]


def is_own(error: BaseException) -> bool:
    """Return whether a partition may be at fault for an error.

    It is not at fault if another session detaches or drops it, or if the role lacks a right.
    """
    others = (ObjectNotInPrerequisiteState, UndefinedTable, InsufficientPrivilege)
    return may_be_own(error) and not isinstance(error, others)


def kept(connection: Connection, log: Log) -> list[PartitionToDrop]:
    """Return the partitions whose retention is over, but that must stay for now."""
    return [each for each in log.find(connection) if not _may_go(connection, log, each)]


def _drop_concurrently(connection: Connection, log: Log) -> list[PartitionToDrop] | None:
    """Detach partitions while the log is read and written, then drop their tables."""
    connection.execute(f"SET lock_timeout = '{PATIENCE}'; SET statement_timeout = '10min'")
    if not _one(connection, SQL["try_for_session"], log):
        return None
    try:
        return _each(_drop, connection, log, _in_time(_past(connection, log)))
    finally:
        if not connection.closed:
            connection.execute(SQL["leave"], {"table": log.table})


def _drop(connection: Connection, log: Log, past: PartitionToDrop) -> bool:
    """Drop a partition; return False if it must stay."""
    if not _may_go(connection, log, past):
        return False
    if past.is_pending:
        connection.execute(_alter("DETACH PARTITION {} FINALIZE", past))
    elif past.is_attached:
        if not _mark(connection, log, past):
            return False
        _detach(connection, log, past)
    connection.execute(Text("DROP TABLE {}").format(past.table))
    return True


def _mark(connection: Connection, log: Log, past: PartitionToDrop) -> bool:
    """Mark a partition before its drop; return False if it must stay."""
    with connection.transaction():
        # Detaching a partition takes these locks, too; reading or writing it does not. Wait for the
        # parent's lock before marking: if an operator detaches the partition meanwhile, the
        # operator's table must not get the mark.
        connection.execute(
            Text("LOCK TABLE ONLY {}, {} IN SHARE UPDATE EXCLUSIVE MODE").format(
                past.parent, past.table
            )
        )
        if not log.has(connection, past) or not _may_go(connection, log, past):
            return False
        _raise_floor(connection, log, past)
        connection.execute(_comment(past, MARK))
        return True


def _raise_floor(connection: Connection, log: Log, past: PartitionToDrop) -> None:
    """Store the last position of a partition, so that readers of the log find the gap."""
    last = log.floor(connection, past)
    if last is not None:
        connection.execute(SQL["raise_floor"], {"log": log.name, "position": last})


def _detach(connection: Connection, log: Log, past: PartitionToDrop) -> None:
    """Detach a marked partition; remove the mark if detaching could not begin."""
    begun = past._replace(is_pending=True)
    try:
        connection.execute(_alter("DETACH PARTITION {} CONCURRENTLY", past))
    except ObjectNotInPrerequisiteState:
        # Another session is detaching a partition, perhaps this one: then it belongs to that
        # session.
        _unmark(connection, past)
        raise
    except Error:
        if not connection.closed and not log.has(connection, begun):
            _unmark(connection, past)
        raise


def _unmark(connection: Connection, past: PartitionToDrop) -> None:
    """Remove the mark from a partition, so that it is not dropped."""
    with connection.transaction():
        if not is_pooled(connection):
            # An operator may be detaching it now: with the mark, the operator's table would be
            # dropped.
            wait_at_most(connection, UNMARKING)
        connection.execute(_comment(past, None))


def _drop_at_once(connection: Connection, log: Log) -> list[PartitionToDrop] | None:
    """Drop partitions, each in one transaction: writers of the log wait until it ends or gives up.

    Behind a transaction pooler each statement may have another session.
    """
    with connection.transaction():
        if not _be_alone(connection, log):
            return None
        past = _past(connection, log)
    return _each(_drop_in_one, connection, log, _in_time(past))


def _drop_in_one(connection: Connection, log: Log, past: PartitionToDrop) -> bool:
    """Drop a partition in one transaction; return False if it must stay."""
    with connection.transaction():
        if not _be_alone(connection, log) or not log.has(connection, past):
            return False
        if not _may_go(connection, log, past):
            return False
        if past.is_attached:
            _raise_floor(connection, log, past)
            end = " FINALIZE" if past.is_pending else ""
            connection.execute(_alter("DETACH PARTITION {}" + end, past))
        try:
            with connection.transaction():
                connection.execute(Text("DROP TABLE {}").format(past.table))
        except Exception as error:
            if not is_own(error):
                raise
            # It stays detached from the log: otherwise no later partition of the events could go.
            connection.execute(_comment(past, MARK))
            tell(DROPPING, row=past.name, error=error)
            return False
        return True


def _be_alone(connection: Connection, log: Log) -> bool:
    """Lock the dropping until the transaction ends; return False if it is locked."""
    wait_at_most(connection, "100ms")
    return bool(_one(connection, SQL["try_for_transaction"], log))


def _in_time(past: list[PartitionToDrop]) -> Iterator[PartitionToDrop]:
    """Yield partitions while there is time to begin another one."""
    until = monotonic() + LONGEST
    return takewhile(lambda _: monotonic() < until, past)


def _past(connection: Connection, log: Log) -> list[PartitionToDrop]:
    """Remove stale marks, then return the partitions that must be dropped."""
    stale = [each for each in log.find(connection) if each.is_stale]
    unmark = partial(_unmark, connection)
    list(one_by_one(unmark, stale, what=DROPPING, row=attrgetter("name"), is_own=is_own))
    return log.find(connection)


def _may_go(connection: Connection, log: Log, past: PartitionToDrop) -> bool:
    """Return whether the log lets a partition go; a drop that has begun must go on."""
    return past.is_pending or not past.is_attached or log.may_go(connection, past)


def _one(connection: Connection, statement: str, log: Log) -> Any:
    row = connection.execute(statement, {"table": log.table, "mark": MARK}).fetchone()
    return row and row[0]


def _alter(change: str, past: PartitionToDrop) -> Composed:
    return Text("ALTER TABLE {} " + change).format(past.parent, past.table)


def _comment(past: PartitionToDrop, mark: str | None) -> Composed:
    return Text("COMMENT ON TABLE {} IS {}").format(past.table, Literal(mark))
