"""Statements that models have no words for, in files that never change once they are released.

A function that changes gets a new number (`_v2`) in a new migration: old workers still call the old
one. In plpgsql a row is passed as one parameter. `new.id` in RETURNING is PostgreSQL 18's new row,
whatever a parameter is called, and a name in `ON CONFLICT (…)` may be a variable.

A new column needs a CHECK: a time within `readable.EARLIEST` and `LATEST`, a counter with room to
grow, a name of bounded length. Otherwise one row stops each statement that reads it.
`tests/test_extremes.py` writes the extremes of each column.
"""

from importlib.resources import files

from django.db.migrations import RunSQL


class RunSQLFile(RunSQL):
    """Run `<name>.up.sql`; reverse with `<name>.down.sql`.

    A file that only alters tables which its own migration makes needs no down file: its changes go
    with the tables.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        folder = files(__package__)
        down = folder / f"{name}.down.sql"
        super().__init__(
            (folder / f"{name}.up.sql").read_text("utf-8"),
            down.read_text("utf-8") if down.is_file() else RunSQL.noop,
        )

    def describe(self) -> str:
        return f"Run the SQL file {self.name}"

    def deconstruct(self) -> tuple[str, list[str], dict[str, object]]:
        return type(self).__name__, [self.name], {}
