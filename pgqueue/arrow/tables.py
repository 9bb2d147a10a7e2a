"""The tables that Spark and the exports read: one list of names, types and SQL.

Spark's schema, the Arrow schema of the batches, the SELECT and the filters are derived from this
list. A table is a view over one or more relations of the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pgqueue.database.sql_files import load

if TYPE_CHECKING:
    import pyarrow as pa

SQL = load(__name__)


class Type(Enum):
    """A column's type, by its name in Spark's DDL. JSON and UUIDs are text in Spark."""

    BIGINT = "bigint"
    INT = "int"
    TEXT = "string"
    BOOLEAN = "boolean"
    # A setting of the session decides whether "timestamp" has a zone.
    TIMESTAMP = "timestamp_ltz"
    BINARY = "binary"

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that Spark demands for this type: Spark refuses any other."""
        import pyarrow as pa

        types = {
            Type.BIGINT: pa.int64(),
            Type.INT: pa.int32(),
            Type.TEXT: pa.string(),
            Type.BOOLEAN: pa.bool_(),
            Type.TIMESTAMP: pa.timestamp("us", "UTC"),
            Type.BINARY: pa.binary(),
        }
        return types[self]


class Column(NamedTuple):
    """A column: its name in Spark, its type there, and an expression over a row `m`."""

    name: str
    type: Type
    sql: str


class Table(NamedTuple):
    """A table that Spark can read.

    Attributes:
        columns: Its columns in order.
        sources: The SQL after FROM, for each relation whose rows are in the table. `{rows}`
            stands for the rows of the relation, or for some of them.
        filters: The columns that have an option of the same name, which selects rows.
        time: The column that the options `since` and `until` select by.
        quoted: Columns that only the redaction reads: other columns may quote them.
        is_frozen: Rows are only inserted and deleted, never updated.
        is_log: Rows have positions without gaps.
    """

    columns: tuple[Column, ...]
    sources: Mapping[str, str]
    filters: tuple[str, ...]
    time: str
    quoted: tuple[Column, ...] = ()
    is_frozen: bool = False
    is_log: bool = False

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.columns]

    def column(self, name: str) -> Column:
        """Return the column of this name."""
        return self.columns[self.names.index(name)]


MESSAGE = "pgqueue_message"
HISTORY = "pgqueue_history"
WORKER = "pgqueue_worker"
EVENT = "pgqueue_event"
FLOW = "pgqueue_flow"
DEPENDENCY = "pgqueue_dependency"
STEP = "pgqueue_step"

# PostgreSQL has times that Spark and Python lack: infinity, 294276 AD, 4713 BC. Both show times in
# a zone, and the local time must also be within the years 1 to 9999. Constraints refuse other
# times, but a row may be older than the constraints.
FIRST_TIME = "'0001-01-03 00:00:00Z'"
LAST_TIME = "'9999-12-29 00:00:00Z'"


def _column(name: str, of: Type) -> Column:
    return Column(name, of, f"m.{name}")


def _nearest(sql: str) -> str:
    """Return an expression for the nearest time within Spark's range."""
    return f"greatest(least({sql}, {LAST_TIME}), {FIRST_TIME})"


def _time(name: str) -> Column:
    # least() and greatest() ignore NULL.
    sql = f"CASE WHEN m.{name} IS NOT NULL THEN {_nearest(f'm.{name}')} END"
    return Column(name, Type.TIMESTAMP, sql)


def _any_time(name: str) -> Column:
    # The time may be infinite. isfinite() of NULL is NULL.
    sql = f"CASE WHEN isfinite(m.{name}) THEN {_nearest(f'm.{name}')} END"
    return Column(name, Type.TIMESTAMP, sql)


def _of_flow(name: str) -> Column:
    if name == "name":
        return Column("flow_name", Type.TEXT, SQL["of_flow"].format(what="f.name"))
    sql = SQL["of_flow"].format(what=_nearest(f"f.{name}"))
    return Column(f"flow_{name}", Type.TIMESTAMP, sql)


def _freed(until: str) -> tuple[Column, ...]:
    """Return the columns of the parent that ended last, for a message of a flow.

    Args:
        until: the time when the message began, or later.
    """
    at = _nearest("ended.at")
    return (
        Column("freed_by", Type.BIGINT, SQL["freed"].format(what="ended.id", until=until)),
        Column("freed_at", Type.TIMESTAMP, SQL["freed"].format(what=at, until=until)),
    )


# The columns that a message and its history have in common.
_COMMON = (
    _column("id", Type.BIGINT),
    _column("channel", Type.TEXT),
    _column("key", Type.TEXT),
    _column("task", Type.TEXT),
    _column("payload", Type.TEXT),
    _column("body", Type.BINARY),
    _column("metadata", Type.TEXT),
    _column("options", Type.TEXT),
    _column("priority", Type.INT),
    Column("weight", Type.INT, f"({load('pgqueue.engine.shared')['weight_of_m']})"),
    _any_time("run_at"),
    _any_time("expires_at"),
    _column("worker_id", Type.TEXT),
    _column("attempt", Type.INT),
    _column("failures", Type.INT),
    _column("lost", Type.INT),
    _column("max_attempts", Type.INT),
    _column("ordered", Type.BOOLEAN),
    _column("dedupe_key", Type.TEXT),
    _column("progress", Type.TEXT),
    _column("errors", Type.TEXT),
    _time("created_at"),
    _time("claimed_at"),
    _time("started_at"),
    _time("cancel_requested_at"),
    _column("parent_id", Type.BIGINT),
    _column("flow_id", Type.BIGINT),
    _of_flow("name"),
    _of_flow("created_at"),
)
# A held message still waits for parents.
_LIVE = _freed("CASE WHEN m.state <> 'held' THEN statement_timestamp() END")

_MESSAGES = Table(
    columns=(
        *_COMMON,
        *_LIVE,
        _column("state", Type.TEXT),
        _any_time("lease_until"),
        _column("governed", Type.BOOLEAN),
    ),
    sources={MESSAGE: "{rows} AS m WHERE m.state <> 'dead'"},
    filters=("channel", "task", "key", "state"),
    time="created_at",
)

_HISTORY = Table(
    columns=(
        *_COMMON,
        *_freed("m.finished_at"),
        Column("flow_ended_at", Type.TIMESTAMP, SQL["flow_ended_at"]),
        _column("outcome", Type.TEXT),
        _column("result", Type.TEXT),
        _time("finished_at"),
        _column("txid", Type.BIGINT),
        Column("steps", Type.TEXT, SQL["steps_shown"]),
    ),
    sources={HISTORY: "{rows} AS m WHERE true"},
    filters=("channel", "task", "key", "outcome"),
    time="finished_at",
    is_frozen=True,
)

_DEADLETTERS = Table(
    columns=(
        *_COMMON,
        *_LIVE,
        Column("died_at", Type.TIMESTAMP, SQL["died_at"].format(nearest=_nearest("died.at"))),
        Column("error_class", Type.TEXT, "m.errors -> -1 ->> 'class'"),
        Column("error_message", Type.TEXT, "m.errors -> -1 ->> 'message'"),
    ),
    sources={MESSAGE: "{rows} AS m WHERE m.state = 'dead'"},
    filters=("channel", "task", "key"),
    time="died_at",
)

_ATTEMPTS = Table(
    columns=(
        Column("message_id", Type.BIGINT, "m.message_id"),
        _column("channel", Type.TEXT),
        _column("key", Type.TEXT),
        _column("task", Type.TEXT),
        _column("attempt", Type.INT),
        _column("outcome", Type.TEXT),
        _column("worker_id", Type.TEXT),
        _time("started_at"),
        _time("ended_at"),
        _column("error_class", Type.TEXT),
        _column("error_message", Type.TEXT),
        _column("traceback", Type.TEXT),
    ),
    sources={HISTORY: SQL["attempts_of_history"], MESSAGE: SQL["attempts_of_messages"]},
    filters=("channel", "task", "key", "outcome"),
    time="ended_at",
    quoted=(_column("payload", Type.TEXT), _column("metadata", Type.TEXT)),
)

_WORKERS = Table(
    columns=(
        _column("id", Type.TEXT),
        _column("host", Type.TEXT),
        _column("pid", Type.INT),
        _time("started_at"),
        _time("last_seen"),
        Column("channels", Type.TEXT, "to_jsonb(m.channels)"),
        Column("excluded", Type.TEXT, "to_jsonb(m.excluded)"),
        _time("notify_until"),
        _column("info", Type.TEXT),
    ),
    sources={WORKER: "{rows} AS m WHERE true"},
    filters=(),
    time="last_seen",
)

_EVENTS = Table(
    columns=(
        _column("position", Type.BIGINT),
        _column("topic", Type.TEXT),
        _column("key", Type.TEXT),
        _column("payload", Type.TEXT),
        _column("metadata", Type.TEXT),
        _time("created_at"),
    ),
    sources={EVENT: "{rows} AS m WHERE true"},
    filters=("topic", "key"),
    time="created_at",
    is_frozen=True,
    is_log=True,
)

_FLOWS = Table(
    columns=(
        _column("id", Type.BIGINT),
        _column("name", Type.TEXT),
        _column("handler_id", Type.BIGINT),
        _column("names", Type.TEXT),
        _time("created_at"),
        _time("ended_at"),
    ),
    sources={FLOW: "{rows} AS m WHERE true"},
    filters=(),
    time="created_at",
)

_DEPENDENCIES = Table(
    columns=(
        _column("flow_id", Type.BIGINT),
        _column("child_id", Type.BIGINT),
        _column("parent_id", Type.BIGINT),
        _time("created_at"),
    ),
    sources={DEPENDENCY: SQL["dependencies"]},
    filters=(),
    time="created_at",
)

_STEPS = Table(
    columns=(
        _column("message_id", Type.BIGINT),
        _column("channel", Type.TEXT),
        _column("key", Type.TEXT),
        _column("task", Type.TEXT),
        _column("name", Type.TEXT),
        _column("number", Type.INT),
        _column("kind", Type.TEXT),
        _column("state", Type.TEXT),
        _column("function", Type.TEXT),
        _column("tries", Type.INT),
        _time("started_at"),
        _time("finished_at"),
        _any_time("until"),
        _column("error_class", Type.TEXT),
    ),
    sources={HISTORY: SQL["steps_of_history"], STEP: SQL["steps_of_messages"]},
    filters=("channel", "task", "key", "state"),
    time="started_at",
)

TABLES: Mapping[str, Table] = {
    "messages": _MESSAGES,
    "history": _HISTORY,
    "deadletters": _DEADLETTERS,
    "attempts": _ATTEMPTS,
    "workers": _WORKERS,
    "events": _EVENTS,
    "flows": _FLOWS,
    "dependencies": _DEPENDENCIES,
    "steps": _STEPS,
}
"""The tables by name; the option `table` takes a name."""
