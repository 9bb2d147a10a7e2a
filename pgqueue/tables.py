"""Whether the database has the tables that this version of pgqueue needs.

It lacks them before the first `manage.py migrate`, and, after a new version was installed, until
the next one.
"""

from __future__ import annotations

from types import TracebackType

import psycopg
from django.db import DEFAULT_DB_ALIAS
from django.db import ProgrammingError as DjangoError
from psycopg.errors import UndefinedColumn, UndefinedFunction, UndefinedObject, UndefinedTable

from pgqueue.exceptions import PGQueueError

PREFIX = "pgqueue_"
"""Of the names of our tables, functions and indexes."""
LACKS = (UndefinedTable, UndefinedColumn, UndefinedFunction, UndefinedObject)


class NotMigrated(PGQueueError, DjangoError, psycopg.ProgrammingError):
    """The tables of pgqueue are missing, or older than its code: run manage.py migrate.

    It is an error of Django's and one of psycopg's, too, for those who catch these.

    Attributes:
        found: what the database says is missing.
        remedy: what to do about it.
    """

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found, remedy)
        self.found = found
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.found}: {self.remedy}"


class needing_tables:
    """Raise NotMigrated, in place of the database's error, where a block finds tables missing.

    Args:
        alias: the database that the block uses.

    Raises:
        NotMigrated: the error that left the block says so.
    """

    # A class, since a generator would take ten times as long: each enqueue is inside of one.
    __slots__ = ("_alias",)

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and (lack := lack_of(error, self._alias)) and lack is not error:
            raise lack from error


def lack_of(error: BaseException, alias: str = DEFAULT_DB_ALIAS) -> NotMigrated | None:
    """Return the error that says what the database lacks; None: `error` has another reason.

    Args:
        error: psycopg's, or Django's with psycopg's as its cause.
        alias: the database, for the text.
    """
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if isinstance(cause, NotMigrated):
        return cause
    if not isinstance(cause, LACKS) or not _is_ours(cause):
        return None
    return NotMigrated(cause.diag.message_primary or "", remedy(alias))


def remedy(alias: str) -> str:
    """Return what to do about missing tables in a database."""
    option = "" if alias == DEFAULT_DB_ALIAS else f" --database={alias}"
    return f"run manage.py migrate{option}"


def _is_ours(error: psycopg.Error) -> bool:
    """Return whether it is an object of ours that is missing, and not one of a user's trigger."""
    diagnosis = error.diag
    if isinstance(error, UndefinedColumn):
        # The text may name an alias, not the table. The statement is ours, unless a function that
        # it called failed: the innermost is named first.
        innermost = (diagnosis.context or PREFIX).partition("\n")[0]
        return PREFIX in innermost
    return PREFIX in (diagnosis.message_primary or "")
