"""Make and remove the triggers that publish the changes of a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from psycopg.sql import SQL as Text
from psycopg.sql import Composable, Identifier, Literal

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Cursors

SQL = load(__name__)

TRANSITIONS = {
    "insert": "REFERENCING NEW TABLE AS pgqueue_new",
    "update": "REFERENCING NEW TABLE AS pgqueue_new OLD TABLE AS pgqueue_old",
    "delete": "REFERENCING OLD TABLE AS pgqueue_old",
    "truncate": "",
}
"""The transition tables of a trigger, by the events that a table may be tracked for."""
WHATS = {"insert": "inserted", "update": "updated", "delete": "deleted"}
"""The change of the rows that a trigger sees, by the event."""
OWN = "pgqueue: "
"""The beginning of the names of columns that the statements add to a row."""
ROW = '"pgqueue: row as json"'
"""Stands in a statement for the expression that makes JSON of a row."""
ROWS_NOW = '"pgqueue: rows now"'
"""Stands in a statement for the rows of the table by their primary keys."""
EITHER = 'coalesce(new."pgqueue: row", old."pgqueue: row")'
MOST_BYTES = 64_000_000
"""Bytes of a row as JSON: an event has two of them and their difference, and jsonb holds 256 MB."""
NAME_LIMIT = 63  # bytes
TABLES = ("r", "p")
"""pg_class.relkind of tables, and of partitioned ones."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The rules for publishing the changes of a table.

    Attributes:
        topic: the topic without its last word, which names the change.
        events: the published changes: some of `TRANSITIONS`.
        columns: the published columns; None: all columns but `exclude`.
        only_if: an SQL condition over the rows `new` and `old`; None: all rows.
        serializer: the SQL function that makes a JSON object of a row; None: its columns.
        key: the column whose text is the events' key; None: the primary key.
    """

    topic: str
    events: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    only_if: str | None = None
    serializer: str | None = None
    key: str | None = None


class Names(NamedTuple):
    """The names of the trigger function's variables in a statement, and of a row as JSON."""

    hidden: str
    id: str
    key: str
    is_merged: str
    metadata: str
    row: str


VARIABLES = Names(
    hidden="pgqueue_track.hidden",
    id="pgqueue_track.id",
    key="pgqueue_track.key",
    is_merged="pgqueue_track.is_merged",
    metadata="pgqueue_track.metadata",
    row="to_jsonb(r.*)",
)
"""The names in the function itself."""
PARAMETERS = Names("$1", "$2", "$3", "$4", "$5", row=ROW)
"""The names in a statement that the function makes."""


class TrackedTable(NamedTuple):
    """A table, and its present tracking in the database.

    Attributes:
        kind: the table's pg_class.relkind.
        primary_key: the columns of the primary key; None: the table has none.
        columns: the names of the table's columns.
        numbers: the pg_attribute.attnum of these columns.
        path: the schemas in which PostgreSQL looks names up.
        triggers: the names of pgqueue's triggers on the table.
        function: the function that these triggers call.
        comment: the definition that is stored as the comment on the function.
    """

    oid: int
    kind: str
    schema: str
    name: str
    primary_key: list[str] | None
    columns: list[str]
    numbers: list[int]
    path: list[str]
    triggers: list[str]
    function: str | None
    comment: str | None

    def numbers_of(self, columns: Sequence[str]) -> list[int]:
        """Return the numbers of some columns, without columns that the table lacks."""
        own = dict(zip(self.columns, self.numbers, strict=True))
        return [own[name] for name in columns if name in own]

    @property
    def identifier(self) -> Identifier:
        """The table's name in SQL."""
        return Identifier(self.schema, self.name)


def is_ready(connection: Cursors) -> bool:
    """Return whether the database has the functions that the triggers call."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["is_ready"])
        return bool(cursor.fetchone()[0])


def find_table(connection: Cursors, table: str) -> TrackedTable | None:
    """Return a table by its name, which is quoted for SQL."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["table"], {"table": table})
        row = cursor.fetchone()
        return TrackedTable(*row) if row else None


def check_definition(table: TrackedTable, definition: Definition) -> Composable:
    """Return the statement that fails if the condition or the serializer is invalid."""
    rows = _rows(table, definition, "insert", table.identifier, table.identifier, VARIABLES)
    return Text(SQL["check"]).format(
        hidden=Literal([]), rows=rows, only_if=Text(definition.only_if or "true")
    )


def track(table: TrackedTable, definition: Definition) -> Iterator[Composable]:
    """Return the statements that track a table, instead of its present tracking."""
    before = json.loads(table.comment) if table.comment else None
    yield from _track(table, definition, before)


def untrack(table: TrackedTable) -> Iterator[Composable]:
    """Return the statements that undo the last `track`, and bring the tracking before it back."""
    before = (json.loads(table.comment) if table.comment else {}).get("replaced")
    if before:
        yield from _track(table, _definition(before), before.get("replaced"))
    else:
        yield from _drop(table)


def remove(table: TrackedTable) -> Iterator[Composable]:
    """Return the statements that end the tracking of a table."""
    yield from _drop(table)


def _track(
    table: TrackedTable, definition: Definition, before: dict[str, Any] | None
) -> Iterator[Composable]:
    yield from _drop(table)
    function = _function(table)
    path = Text(", ").join(map(Identifier, [*table.path, "pg_temp"]))
    yield _function_of(table, definition, function + Text("()"), path)
    yield Text(SQL["revoke"]).format(function=function)
    remembered = {"definition": asdict(definition), "replaced": before}
    yield Text(SQL["remember"]).format(
        function=function, comment=Literal(json.dumps(remembered, ensure_ascii=False))
    )
    for event in definition.events:
        yield Text(SQL["trigger"]).format(
            name=Identifier(f"pgqueue_track_{event}"),
            event=Text(event.upper()),
            table=table.identifier,
            transition=Text(TRANSITIONS[event]),
            function=function,
        )


def _function_of(
    table: TrackedTable, definition: Definition, signature: Composable, path: Composable
) -> Composable:
    topic = Literal(definition.topic)
    events = [event for event in definition.events if event in WHATS]
    branches = [_branch(table, definition, event) for event in events]
    body = Text(SQL["body"]).format(
        topic=topic,
        key=Text("id") if definition.key is None else Literal([definition.key]),
        hidden=_hidden(table, definition),
        odd=Text(SQL["odd"]).format(most=Literal(MOST_BYTES)),
        branches=Text("\n").join(branches),
        order=_order(table, definition, topic, events) if events else Text(""),
    )
    return Text(SQL["function"]).format(
        signature=signature, path=path, body=Literal(body.as_string(None))
    )


def _drop(table: TrackedTable) -> Iterator[Composable]:
    for name in table.triggers:
        yield Text(SQL["drop_trigger"]).format(name=Identifier(name), table=table.identifier)
    if table.function:
        yield Text(SQL["drop_function"]).format(function=Text(table.function))


def _function(table: TrackedTable) -> Identifier:
    # The name has the table's number, since another table may have the table's name later.
    room = NAME_LIMIT - len(f"pgqueue_track__{table.oid}")
    name = table.name.encode()[:room].decode(errors="ignore")
    return Identifier(table.schema, f"pgqueue_track_{name}_{table.oid}")


def _definition(remembered: dict[str, Any]) -> Definition:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in remembered["definition"].items()
    }
    return Definition(**known)


# --- The parts of a function


def _hidden(table: TrackedTable, definition: Definition) -> Composable:
    kind, columns = "these", definition.exclude
    if definition.columns is not None:
        kind, columns = "others", definition.columns
    numbers = table.numbers_of(columns)
    which = Text(SQL[kind]).format(
        columns=Literal(list(columns)),
        numbers=Literal(numbers),
        oid=Literal(table.oid),
        # If an excluded column is missing, each other column may be this column with a new name.
        known=Literal(table.columns if len(numbers) == len(columns) else []),
    )
    return Text(SQL["hidden"]).format(which=which)


def _branch(table: TrackedTable, definition: Definition, event: str) -> Composable:
    return Text(SQL["branch"]).format(
        operation=Literal(event.upper()),
        merged=Text(SQL["merged"] if event == "update" else "").format(foreign_key=Literal("f")),
        carefully=Literal(_store(table, definition, event, PARAMETERS).as_string(None)),
        marker=Literal(ROW),
        store=_store(table, definition, event, VARIABLES),
    )


def _order(
    table: TrackedTable, definition: Definition, topic: Composable, events: Sequence[str]
) -> Composable:
    changed = [
        Text("WHEN {} THEN {}").format(
            Literal(event.upper()), Literal(_changed(table, definition, event).as_string(None))
        )
        for event in events
    ]
    return Text(SQL["order"]).format(
        topic=topic,
        changed=Text(" ").join(changed),
        marker=Literal(ROW),
        rows_marker=Literal(ROWS_NOW),
    )


def _store(table: TrackedTable, definition: Definition, event: str, names: Names) -> Composable:
    return Text(SQL["store"]).format(
        topic=Literal(definition.topic),
        key=_key(names),
        metadata=Text(names.metadata),
        rows=_rows(table, definition, event, Text("pgqueue_new"), Text("pgqueue_old"), names),
        once=_once(event, names),
        only_if=Text(definition.only_if or "true"),
    )


def _changed(table: TrackedTable, definition: Definition, event: str) -> Composable:
    names = PARAMETERS
    return Text(SQL["changed"]).format(
        topic=Literal(definition.topic),
        key=_key(names),
        id=_row_key(EITHER, names.id),
        rows=_rows(table, definition, event, Text("pgqueue_new"), Text("pgqueue_old"), names),
        once=_once(event, names),
        current=_side(table, definition, Text(ROWS_NOW), "now", names),
        current_id=_row_key('now."pgqueue: row"', names.id),
    )


def _once(event: str, names: Names) -> Composable:
    # The statement in the function itself is for rows that changed once.
    if event != "update" or names is VARIABLES:
        return Text("true")
    return Text(SQL["once"]).format(
        is_merged=Text(names.is_merged),
        row=Text(names.row),
        each_id=_row_key("each.changed", names.id),
    )


def _key(names: Names) -> Composable:
    return Text(SQL["key"]).format(key=_row_key(EITHER, names.key))


def _row_key(row: str, columns: str) -> Composable:
    return Text(SQL["row_key"]).format(row=Text(row), columns=Text(columns))


def _rows(
    table: TrackedTable,
    definition: Definition,
    event: str,
    new: Composable,
    old: Composable,
    names: Names,
) -> Composable:
    """Return the rows of an event, each with its other half."""

    def side(source: Composable, name: str, which: str = "true") -> Composable:
        return _side(table, definition, source, name, names, which)

    return Text(SQL[WHATS[event]]).format(
        new=side(new, "new"),
        old=side(old, "old"),
        new_id=_row_key('new."pgqueue: row"', names.id),
        old_id=_row_key('old."pgqueue: row"', names.id),
        # A missing half has the columns of the other half, all of them null.
        no_new=side(old, "new", "false"),
        no_old=side(new, "old", "false"),
    )


def _side(
    table: TrackedTable,
    definition: Definition,
    source: Composable,
    name: str,
    names: Names,
    which: str = "true",
) -> Composable:
    shown = Text(f'r."pgqueue: row" - {names.hidden}')
    serialized: Composable = Text("null")
    if definition.serializer is not None:
        shown = Text('r."pgqueue: own"')
        serialized = Text("{}((r.*)::{})").format(Text(definition.serializer), table.identifier)
    return Text(SQL["side"]).format(
        source=source,
        side=Text(name),
        which=Text(which),
        row=Text(names.row),
        nth=Text("null::bigint" if names is VARIABLES else "row_number() OVER ()"),
        shown=shown,
        serialized=serialized,
    )
