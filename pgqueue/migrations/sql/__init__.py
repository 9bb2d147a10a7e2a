"""Statements that models have no words for, in files that never change once they are released.

A function that changes gets a new number (`_v2`) in a new migration: old workers still call the old
one. Only a mended fault, which old workers need as well, replaces a function in place. In plpgsql a
row is passed as one parameter. `new.id` in RETURNING is PostgreSQL 18's new row, whatever a
parameter is called, and a name in `ON CONFLICT (…)` may be a variable.

A new column needs a CHECK: a time within `readable.EARLIEST` and `LATEST`, a counter with room to
grow, a name of bounded length. Otherwise one row stops each statement that reads it.
`tests/test_extremes.py` writes the extremes of each column.
"""

from importlib.resources import files

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import RunSQL
from django.db.migrations.state import ProjectState


class RunSQLFile(RunSQL):
    """Run `<name>.up.sql`; reverse with `<name>.down.sql`.

    A file that only alters tables which its own migration makes needs no down file: its changes go
    with the tables.

    The statements that Django defers to the end of a migration follow the file. Otherwise Django
    would record the migration in another transaction. If `migrate` were killed between the two, it
    would find the tables there, and fail from then on.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        folder = files(__package__)
        down = folder / f"{name}.down.sql"
        super().__init__(
            (folder / f"{name}.up.sql").read_text("utf-8"),
            down.read_text("utf-8") if down.is_file() else RunSQL.noop,
        )

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        super().database_forwards(app_label, schema_editor, from_state, to_state)
        deferred, schema_editor.deferred_sql = schema_editor.deferred_sql, []
        for statement in deferred:
            schema_editor.execute(statement, None)

    def describe(self) -> str:
        return f"Run the SQL file {self.name}"

    def deconstruct(self) -> tuple[str, list[str], dict[str, object]]:
        return type(self).__name__, [self.name], {}
