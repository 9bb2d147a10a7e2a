from __future__ import annotations

from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from pgqueue.conf import settings
from pgqueue.tables import lack_of


class QueueCommand(BaseCommand):
    """A command that says what to do, without a traceback, where tables are missing."""

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
