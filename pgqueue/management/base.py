from __future__ import annotations

from typing import Any, ClassVar

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from pgqueue.conf import settings
from pgqueue.tables import lack_of


class QueueCommand(BaseCommand):
    """A command that says what to do, without a traceback, where tables are missing."""

    intermixes: ClassVar[bool] = False
    """Whether options may stand between its arguments, which argparse allows no list of them."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return the parser of its command line."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        if self.intermixes:
            parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command.

        Raises:
            CommandError: the database lacks our tables, or has old ones.
        """
        try:
            return super().execute(*args, **options)
        except (DatabaseError, psycopg.Error) as error:
            lack = lack_of(error, options.get("database") or settings().database)
            if lack is None:
                raise
            raise CommandError(str(lack)) from error
