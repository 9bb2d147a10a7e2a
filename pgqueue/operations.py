"""Operations for migrations: have what happens to a table published.

class Migration(migrations.Migration):
    dependencies = [("shop", "0007_order"), ("pgqueue", "0005_tracking")]
    operations = [TrackTable("shop.Order")]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import Error, router, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import RunSQL
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState
from psycopg.sql import Composable

from pgqueue.engine import log, search_index, tracking
from pgqueue.engine.tracking import OWN, TABLES, Definition, TrackedTable
from pgqueue.events.tables import parts_of, parts_of_model, quoted, topic_of
from pgqueue.exceptions import InvalidEvent, InvalidTracking
from pgqueue.options.filters import as_topic
from pgqueue.values.error_words import checked_option, hint
from pgqueue.values.names import as_text
from pgqueue.values.number_checks import as_flag

__all__ = ["IndexKeys", "IndexSearch", "IndexTrail", "TrackTable", "UntrackTable"]

NEEDED = ("pgqueue", "0005_tracking")
"""The migration that makes what the triggers call."""
NAME_BYTES = 63
CONDITION_BYTES = 100_000
TOPIC_BYTES = 190  # with the last word it is a topic, too


class TrackTable(Operation):
    """Have each row that is inserted, updated or deleted published, in the same transaction.

    Writes by Django, by `psql`, in bulk, by COPY or by a cascade are published. The topics are
    `shop_order.insert`, `shop_order.update` and `shop_order.delete`. The key is the primary key.
    The payload is `{"new": …, "old": …, "diff": …}`: the row after and before the change, and the
    changed columns with their new values. An update that changes nothing publishes nothing. See
    docs/guide/table-events.md.

    Applied to a table that is tracked already, it replaces how that is done; reversed, it brings
    that back, or else removes the triggers.

    Args:
        model: "shop.Order"; without an app, of the migration's own. Or else
        table: "legacy.users", a table without a model: as the database calls it.
        insert, update, delete: what is published.
        truncate: publish one event `shop_order.truncate`, without a payload, for a TRUNCATE. Tests
            that empty tables by it would find these events.
        columns: publish only these; a change of others is no event. Names of fields or of columns.
        exclude: publish all but these.
        only_if: an SQL condition over the rows `new` and `old`: "new.total > 100". It is code: no
            value of a user belongs in it. For an insert `old` has only nulls, for a delete `new`.
        serializer: an SQL function of a row of the table. The jsonb that it returns is published
            in place of the columns. Where it returns null, nothing is published.
        topic: in the place of the table's name.
        key: the column whose text is the key, in the place of the primary key.

    Raises:
        InvalidTracking: an option is invalid; or, when the migration runs, the table, a column,
            the condition or the serializer.
    """

    reversible = True
    reduces_to_sql = True
    category = OperationCategory.SQL

    def __init__(
        self,
        model: str | None = None,
        *,
        table: str | None = None,
        insert: bool = True,
        update: bool = True,
        delete: bool = True,
        truncate: bool = False,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        only_if: str | None = None,
        serializer: str | None = None,
        topic: str | None = None,
        key: str | None = None,
    ) -> None:
        if (model is None) == (table is None):
            raise InvalidTracking("Name a model or a table: one of them.")
        self.model = _checked("model", _model, model)
        self.table = _checked("table", parts_of, table)
        wanted = {"insert": insert, "update": update, "delete": delete, "truncate": truncate}
        for name, value in wanted.items():
            _checked(name, as_flag, value)
        if not any(wanted.values()):
            raise InvalidTracking("Nothing would be published: UntrackTable ends that.")
        chosen = [columns is not None, exclude is not None, serializer is not None]
        if chosen.count(True) > 1:
            raise InvalidTracking("columns, exclude and serializer exclude each other.")
        self.definition = Definition(
            topic=_checked("topic", _topic, topic) or "",
            events=tuple(name for name, is_wanted in wanted.items() if is_wanted),
            columns=_checked("columns", _columns, columns),
            exclude=_checked("exclude", _columns, exclude) or (),
            only_if=_checked("only_if", _condition, only_if),
            serializer=_checked("serializer", _function, serializer),
            key=_checked("key", _column, key),
        )

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change nothing: models don't know of it."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Make the triggers."""
        self._track(app_label, schema_editor, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Remove the triggers, and bring back those that they replaced."""
        self._untrack(app_label, schema_editor, to_state)

    def describe(self) -> str:
        """Return the description that commands print."""
        return f"Publish what happens to {self._named}"

    @property
    def migration_name_fragment(self) -> str:
        """The default name of a migration with this operation."""
        return f"track_{self._named.lower().replace('.', '_')}"

    @property
    def _named(self) -> str:
        return self.model or ".".join(self.table)

    def _track(self, app_label: str, editor: BaseDatabaseSchemaEditor, state: ProjectState) -> None:
        found = self._find(app_label, editor, state)
        if found is None:
            return
        table, definition = found
        _look_at(table, definition, self._named)
        if not editor.collect_sql:
            try:
                with transaction.atomic(using=editor.connection.alias):
                    _run(editor, [tracking.check_definition(table, definition)])
            except Error as error:
                raise InvalidTracking(
                    f"only_if or serializer, for {self._named}: {error}"
                ) from error
        _run(editor, tracking.track(table, definition))

    def _untrack(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, state: ProjectState
    ) -> None:
        found = self._find(app_label, editor, state)
        if found is not None:
            _run(editor, tracking.untrack(found[0]))

    def _find(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, state: ProjectState
    ) -> tuple[TrackedTable, Definition] | None:
        """Return the table, and what is published of it; None: not in this database."""
        alias = editor.connection.alias
        parts, definition = self.table, self.definition
        if self.model:
            model = self._model_of(app_label, state)
            if not router.allow_migrate_model(alias, model):
                return None
            parts = parts_of_model(model._meta.db_table)
            definition = _with_columns(definition, model)
        elif not router.allow_migrate(alias, app_label):
            return None
        if not tracking.is_ready(editor.connection):
            _unready(editor, f"there is no event log yet: it depends on {NEEDED!r}")
            return None
        table = tracking.find_table(editor.connection, quoted(parts))
        if table is None:
            _unready(editor, f"there is no table {quoted(parts)}")
            return None
        return table, replace(definition, topic=definition.topic or topic_of(parts))

    def _model_of(self, app_label: str, state: ProjectState) -> Any:
        app, _, name = self.model.rpartition(".")
        try:
            return state.apps.get_model(app or app_label, name)
        except LookupError as error:
            names = [f"{app}.{model.name}" for (app, _), model in state.models.items()]
            raise InvalidTracking(
                f"model={self.model!r}: the migrations know no such model here. "
                f"{hint(self.model, names)}"
            ) from error


class UntrackTable(TrackTable):
    """Publish what happens to a table no longer.

    Args:
        options: the ones of the `TrackTable` that it ends. Reversed, it applies them.

    Raises:
        InvalidTracking: as for `TrackTable`.
    """

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Remove the triggers."""
        found = self._find(app_label, schema_editor, to_state)
        if found is not None:
            _run(schema_editor, tracking.remove(found[0]))

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Make the triggers."""
        self._track(app_label, schema_editor, to_state)

    def describe(self) -> str:
        """Return the description that commands print."""
        return f"Publish no longer what happens to {self._named}"

    @property
    def migration_name_fragment(self) -> str:
        """The default name of a migration with this operation."""
        return f"un{super().migration_name_fragment}"


class IndexTrail(RunSQL):
    """Have trails found ten times as fast, for a log that gets its positions a fifth more slowly.

    `AuditTrail` and `trail()` then look back over a million events within 20 ms, not 200. Meanwhile
    nothing is given a position; what publishes does not wait.
    """

    def __init__(self) -> None:
        super().__init__(log.SQL["index_keys"], log.SQL["drop_index_of_keys"])

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return how it is written into a migration."""
        return type(self).__name__, [], {}

    def describe(self) -> str:
        """Return the description that commands print."""
        return "Index the log for trails"


class IndexKeys(RunSQL):
    """Have the events of a key found at once: by `publish(…, expect=…)`, and by `read(key=…)`.

    Events with a key then cost more to publish, and get their positions more slowly; events without
    a key do not. While the log is indexed, no event is given a position. In the end publishers wait
    for the transactions that are open then.
    """

    def __init__(self) -> None:
        super().__init__(
            [log.SQL["index_streams"], log.SQL["index_inbox"]],
            [log.SQL["drop_index_of_inbox"], log.SQL["drop_index_of_streams"]],
        )

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return how it is written into a migration."""
        return type(self).__name__, [], {}

    def describe(self) -> str:
        """Return the description that commands print."""
        return "Index the log by keys"


class IndexSearch(Operation):
    """Have searches for arguments, metadata and tags look through all messages, live and ended.

    In a migration with `atomic = False`, messages are stored and run while PostgreSQL makes the
    index. Otherwise they wait until the end of the migration. An interrupted migration goes on when
    it is run again. See docs/guide/admin.md.
    """

    reversible = True
    reduces_to_sql = False
    category = OperationCategory.ADDITION

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change nothing: models don't know of it."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Make the index."""
        _index(app_label, schema_editor, search_index.make_index)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Drop the index."""
        _index(app_label, schema_editor, search_index.drop_index)

    def describe(self) -> str:
        """Return the description that commands print."""
        return "Index messages by arguments, metadata and tags"

    @property
    def migration_name_fragment(self) -> str:
        """The default name of a migration with this operation."""
        return "index_search"


def _index(app_label: str, editor: BaseDatabaseSchemaEditor, change: Any) -> None:
    connection = editor.connection
    if router.allow_migrate(connection.alias, app_label):
        is_alone = not connection.in_atomic_block
        change(connection, partial(editor.execute, params=None), concurrently=is_alone)


def _run(editor: BaseDatabaseSchemaEditor, statements: Iterable[Composable]) -> None:
    for statement in statements:
        # Without parameters: a "%" in a condition is a "%".
        editor.execute(statement.as_string(None), params=None)


def _unready(editor: BaseDatabaseSchemaEditor, why: str) -> None:
    if not editor.collect_sql:
        raise InvalidTracking(f"The table can't be tracked: {why}.")
    editor.collected_sql.append(f"-- Not known before the tables are there: {why}.")


def _look_at(table: TrackedTable, definition: Definition, named: str) -> None:
    """Check that a table can have these triggers.

    Raises:
        InvalidTracking: it cannot.
    """
    if table.kind not in TABLES:
        raise InvalidTracking(f"{named} is no table: a view or a foreign table has no such events.")
    if "update" in definition.events and not table.primary_key:
        raise InvalidTracking(
            f"{named} has no primary key, by which an old and a new row are found to be the same "
            "one: give it one, or pass update=False."
        )
    if taken := [name for name in table.columns if name.startswith(OWN)]:
        raise InvalidTracking(
            f"{named} has the column {taken[0]!r}: names that begin with {OWN!r} are added to its "
            "rows by the trigger. Rename the column."
        )
    given = {
        "columns": definition.columns or (),
        "exclude": definition.exclude,
        "key": (definition.key,) if definition.key else (),
    }
    for option, names in given.items():
        for name in names:
            if name not in table.columns:
                raise InvalidTracking(
                    f"{option}: {named} has no column {name!r}. {hint(name, table.columns)}"
                )


def _with_columns(definition: Definition, model: Any) -> Definition:
    """Return a definition with columns in the place of fields."""
    columns: dict[str, str] = {field.name: field.column for field in model._meta.fields}

    def column(name: str) -> str:
        return columns.get(name, name)

    return replace(
        definition,
        columns=None if definition.columns is None else tuple(map(column, definition.columns)),
        exclude=tuple(map(column, definition.exclude)),
        key=column(definition.key) if definition.key else None,
    )


# --- Values of options


def _checked(option: str, check: Any, value: Any) -> Any:
    if value is None:
        return None
    return checked_option(
        check, option, value, InvalidTracking, caught=(TypeError, ValueError, InvalidEvent)
    )


def _model(value: Any) -> str:
    label = as_text(value, 2 * NAME_BYTES)
    if label.count(".") > 1 or not all(part.isidentifier() for part in label.split(".")):
        raise ValueError("it must be the name of a model, such as 'shop.Order'.")
    return label


def _topic(value: Any) -> str:
    return as_text(as_topic(value), TOPIC_BYTES)


def _column(value: Any) -> str:
    if value == "":
        raise ValueError("it must be the name of a column.")
    return as_text(value, NAME_BYTES)


def _columns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple | set | frozenset) or not value:
        raise TypeError("it must be a list of columns.")
    return tuple(_column(each) for each in value)


def _condition(value: Any) -> str:
    if not as_text(value, CONDITION_BYTES).strip():
        raise ValueError("it must be an SQL condition over the rows new and old.")
    return str(value)


def _function(value: Any) -> str:
    return quoted(parts_of(as_text(value, 2 * NAME_BYTES)))
