"""Whether the database has the tables that this version of pgqueue needs.

It lacks them before the first `manage.py migrate`, and, after a new version was installed, until
the next one.
"""

from __future__ import annotations

import re
from itertools import takewhile
from traceback import walk_tb
from types import TracebackType

import psycopg
from django.apps import apps
from django.db import DEFAULT_DB_ALIAS
from django.db import Error as DjangoDatabaseError
from django.db import ProgrammingError as DjangoError
from psycopg.errors import UndefinedColumn, UndefinedFunction, UndefinedObject, UndefinedTable

from pgqueue.exceptions import PGQueueError

PREFIX = "pgqueue_"
"""Of the names of our tables, functions and indexes."""
OTHERS = ("role ", "publication ", "replication slot ", "schema ", "database ", "tablespace ")
"""What else may be missing, whatever its name is: no migration makes these."""
TRACERS = frozenset(
    ("ddtrace", "debug_toolbar", "elasticapm", "newrelic", "opentelemetry", "scout_apm",
     "sentry_sdk", "silk", "wrapt")
)  # fmt: skip
"""Packages that may replace the methods of cursors by their own, which call these."""
BETWEEN = TRACERS | {"psycopg", "django", "contextlib", "asgiref", "concurrent"}
"""Packages through which a statement is sent."""
LACKS = (UndefinedTable, UndefinedColumn, UndefinedFunction, UndefinedObject)


class NotMigrated(PGQueueError, DjangoError, psycopg.ProgrammingError):
    """The tables of pgqueue are missing, or older than its code: run manage.py migrate.

    It is an error of Django's and one of psycopg's, too, for those who catch these.

    Attributes:
        found: the object that the database reports as missing.
        remedy: the command that makes it.
    """

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found, remedy)
        self.found = found
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.found}: {self.remedy}"


class needing_tables:
    """Raise NotMigrated, in place of the database's error, where a block finds tables missing.

    Each call of the user's that asks the database does so in such a block; `borrow()` is one.

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
    # An error of ours that has one of the database's as its cause says what to do by itself.
    cause = error.__cause__ if isinstance(error, DjangoDatabaseError) else error
    if isinstance(error, NotMigrated):
        return error
    if isinstance(cause, NotMigrated):
        return cause
    if not isinstance(cause, LACKS) or not _is_ours(cause, error):
        return None
    return NotMigrated(cause.diag.message_primary or "", remedy(alias))


def remedy(alias: str) -> str:
    """Return the command that makes the missing tables of a database."""
    option = "" if alias == DEFAULT_DB_ALIAS else f" --database={alias}"
    return f"run manage.py migrate{option}"


def _is_ours(error: psycopg.Error, raised: BaseException) -> bool:
    """Return whether an object of ours is missing, and none of the user's.

    Args:
        raised: the error as it was caught; its traceback shows whose statement it was.
    """
    text = error.diag.message_primary or ""
    if isinstance(error, UndefinedColumn):
        # The text may name an alias, not the table. A function that the statement called may have
        # failed: the innermost is named first.
        innermost = (error.diag.context or PREFIX).partition("\n")[0]
        return PREFIX in innermost and not _is_of_a_model(text) and _is_sent_by_us(raised)
    return PREFIX in text and not text.startswith(OTHERS)


def _is_of_a_model(text: str) -> bool:
    """Return whether a column is missing that a model of the project has."""
    found = re.search(r'"?([^\s".]+)"?\.', text)
    if not found or not apps.models_ready:
        return False
    models = apps.get_models(include_auto_created=True)
    others = (each._meta for each in models if each._meta.app_label != "pgqueue")
    return found[1] in {each.db_table for each in others}


def _is_sent_by_us(raised: BaseException) -> bool:
    """Return whether code of ours, and not what it called, has sent the statement."""
    names = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(raised.__traceback__))
    # Behind Django's cursor are wrappers of its execute(), also ours.
    before = takewhile(lambda name: name != "django.db.backends.utils", names)
    senders = [name for name in before if name.partition(".")[0] not in BETWEEN]
    return not senders or senders[-1].partition(".")[0] == __name__.partition(".")[0]
