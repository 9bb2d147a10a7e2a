from __future__ import annotations

from typing import Any, ClassVar

import psycopg
from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    OutputWrapper,
)
from django.db import DatabaseError

from pgqueue.conf import settings
from pgqueue.database.migration_check import lack_of
from pgqueue.values.escaping import in_lines

SHUTDOWNS = ("57P01", "57P02", "57P03")
"""The codes of a server that ends, or starts, and lets nobody in."""


class Terminal(OutputWrapper):
    """Django's wrapper of a stream, which escapes the control characters of texts.

    ESC in the name of a task would be a command to the terminal. The escapes are the ones of JSON,
    so that JSON stays JSON. Columns of text escape line breaks, too.
    """

    def __init__(self, wrapper: OutputWrapper) -> None:
        out: Any = wrapper._out
        super().__init__(out, wrapper.ending)
        self.style_func = wrapper.style_func

    def write(self, msg: str = "", *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Write a text."""
        super().write(in_lines(msg), *args, **kwargs)


class QueueCommand(BaseCommand):
    """A command that says without a traceback that tables are missing, or the database is away."""

    intermixes: ClassVar[bool] = False
    """Whether options may stand between arguments; argparse allows this for no list by default."""

    @property
    def stdout(self) -> OutputWrapper:
        """The stream for output: it escapes control characters, except the ends of lines."""
        return self._stdout

    @stdout.setter
    def stdout(self, wrapper: OutputWrapper) -> None:
        self._stdout = Terminal(wrapper)

    @property
    def stderr(self) -> OutputWrapper:
        """The stream for errors: it escapes control characters likewise."""
        return self._stderr

    @stderr.setter
    def stderr(self, wrapper: OutputWrapper) -> None:
        self._stderr = Terminal(wrapper)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return the parser of its command line."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        if self.intermixes:
            parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command.

        Raises:
            CommandError: the database is unreachable, lacks the tables of the queue, or has old
                ones.
        """
        try:
            return super().execute(*args, **options)
        except (DatabaseError, psycopg.Error) as error:
            lack = lack_of(error, options.get("database") or settings().database)
            if lack is not None:
                raise CommandError(str(lack)) from error
            if is_of_the_connection(error):
                said = " ".join(str(error).split())
                raise CommandError(f"The database is unreachable: {said}") from error
            raise


def is_of_the_connection(error: Exception) -> bool:
    """Return whether an error says that no connection was made, or that it was lost."""
    found = error.__cause__ if isinstance(error, DatabaseError) else error
    # The server gives a code to each error of a statement. libpq has none for its own errors.
    return isinstance(found, psycopg.OperationalError) and (
        found.sqlstate is None or found.sqlstate in SHUTDOWNS
    )
