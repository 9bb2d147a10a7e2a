"""Make the triggers that publish what happens to a table, and remove them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from psycopg.sql import SQL as Text
from psycopg.sql import Composable, Identifier, Literal

from pgqueue.engine.values import Cursors
from pgqueue.statements import load

SQL = load(__name__)

TRANSITIONS = {
    "insert": "REFERENCING NEW TABLE AS pgqueue_new",
    "update": "REFERENCING NEW TABLE AS pgqueue_new OLD TABLE AS pgqueue_old",
    "delete": "REFERENCING OLD TABLE AS pgqueue_old",
    "truncate": "",
}
"""What a trigger sees of the rows, by the events that a table can be tracked for."""
NAME_LIMIT = 63  # bytes
TABLES = ("r", "p")
"""pg_class.relkind of tables, and of partitioned ones."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What is published of a table.

    Attributes:
        topic: without its last word, which says what happened.
        events: what is published: some of `TRANSITIONS`.
        columns: only these; None: all but those of `exclude`.
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


class Table(NamedTuple):
    """A table, as the database has it.

    Attributes:
        kind: its pg_class.relkind.
        primary_key: its columns; None: it has none.
        path: the schemas that names are looked up in.
        triggers: ours, that it has now.
        function: the one that they call.
        comment: what is remembered with that.
    """

    oid: int
    kind: str
    schema: str
    name: str
    primary_key: list[str] | None
    columns: list[str]
    path: list[str]
    triggers: list[str]
    function: str | None
    comment: str | None

    @property
    def identifier(self) -> Identifier:
        """Its name, in SQL."""
        return Identifier(self.schema, self.name)


def is_ready(connection: Cursors) -> bool:
    """Return whether the database has what the triggers call."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["is_ready"])
        return bool(cursor.fetchone()[0])


def find(connection: Cursors, table: str) -> Table | None:
    """Return a table by its name, quoted as SQL needs it."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["table"], {"table": table})
        row = cursor.fetchone()
        return Table(*row) if row else None


def check(table: Table, definition: Definition) -> Composable:
    """Return the statement that fails if the condition or the serializer can't be."""
    return Text(SQL["check"]).format(
        hidden=Literal([]),
        rows=_rows(table, definition, "inserted", table.identifier, table.identifier),
        only_if=Text(definition.only_if or "true"),
    )


def track(table: Table, definition: Definition) -> Iterator[Composable]:
    """Return the statements that have a table tracked, in the place of how it is tracked now."""
    before = json.loads(table.comment) if table.comment else None
    yield from _track(table, definition, before)


def untrack(table: Table) -> Iterator[Composable]:
    """Return the statements that undo the last `track`: what it replaced is there again."""
    before = (json.loads(table.comment) if table.comment else {}).get("replaced")
    if before:
        yield from _track(table, _definition(before), before.get("replaced"))
    else:
        yield from _drop(table)


def remove(table: Table) -> Iterator[Composable]:
    """Return the statements that end it."""
    yield from _drop(table)


def _track(
    table: Table, definition: Definition, before: dict[str, Any] | None
) -> Iterator[Composable]:
    yield from _drop(table)
    function = _function(table)
    body = Text(SQL["body"]).format(
        topic=Literal(definition.topic),
        key=_key(definition),
        hidden=_hidden(definition),
        **{event: _store(table, definition, event) for event in ("insert", "update", "delete")},
    )
    yield Text(SQL["function"]).format(
        function=function,
        path=Text(", ").join(map(Identifier, [*table.path, "pg_temp"])),
        body=Literal(body.as_string(None)),
    )
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


def _drop(table: Table) -> Iterator[Composable]:
    for name in table.triggers:
        yield Text(SQL["drop_trigger"]).format(name=Identifier(name), table=table.identifier)
    if table.function:
        yield Text(SQL["drop_function"]).format(function=Text(table.function))


def _function(table: Table) -> Identifier:
    # With the number of the table: another one may have its name later.
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


def _key(definition: Definition) -> Composable:
    if definition.key is None:
        return Text("pgqueue_id")
    return Literal([definition.key])


def _hidden(definition: Definition) -> Composable:
    kind, columns = "these", definition.exclude
    if definition.columns is not None:
        kind, columns = "others", definition.columns
    which = Text(SQL[kind]).format(columns=Literal(list(columns)))
    return Text(SQL["hidden"]).format(which=which)


def _store(table: Table, definition: Definition, event: str) -> Composable:
    what = {"insert": "inserted", "update": "updated", "delete": "deleted"}[event]
    return Text(SQL["store"]).format(
        topic=Literal(definition.topic),
        key=_row_key("coalesce(new.pgqueue_row, old.pgqueue_row)", "pgqueue_key"),
        rows=_rows(table, definition, what, Text("pgqueue_new"), Text("pgqueue_old")),
        only_if=Text(definition.only_if or "true"),
    )


def _row_key(row: str, columns: str) -> Composable:
    return Text(SQL["row_key"]).format(row=Text(row), columns=Text(columns))


def _rows(
    table: Table, definition: Definition, what: str, new: Composable, old: Composable
) -> Composable:
    """Return the rows that an event is about, each with its other half."""
    if definition.serializer is None:
        shown: Composable = Text("to_jsonb(r) - pgqueue_hidden")
    else:
        shown = Text("{}(r::{})").format(Text(definition.serializer), table.identifier)

    def side(source: Composable, name: str, which: str) -> Composable:
        return Text(SQL["side"]).format(
            source=source, side=Text(name), which=Text(which), shown=shown
        )

    return Text(SQL[what]).format(
        new=side(new, "new", "true"),
        old=side(old, "old", "true"),
        new_id=_row_key("new.pgqueue_row", "pgqueue_id"),
        old_id=_row_key("old.pgqueue_row", "pgqueue_id"),
        # A half that is not there has the other one's columns, all of them null.
        no_new=side(old, "new", "false"),
        no_old=side(new, "old", "false"),
    )
