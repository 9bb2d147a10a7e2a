"""What models can't say, in files that never change once they are released."""

from importlib.resources import files

from django.db.migrations import RunSQL


class RunSQLFile(RunSQL):
    """Run `<name>.up.sql`; reverse with `<name>.down.sql`."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            *(
                (files(__package__) / f"{name}.{way}.sql").read_text("utf-8")
                for way in ("up", "down")
            )
        )

    def deconstruct(self) -> tuple[str, list[str], dict[str, object]]:
        return type(self).__name__, [self.name], {}
