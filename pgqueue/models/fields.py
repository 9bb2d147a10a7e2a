"""Fields and expressions of the models: times, lists and JSON as PostgreSQL has them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.checks import CheckMessage
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Func, Value
from django.db.models.functions import Cast
from django.db.models.sql.compiler import SQLCompiler

from pgqueue.engine.values import exact
from pgqueue.values.instants import of_project
from pgqueue.values.readable import EARLIEST, LATEST, TOO_MUCH

if TYPE_CHECKING:
    DateTimeField = models.DateTimeField[Any, Any]
    Field = models.Field[Any, Any]
else:  # at run time they are not generic
    DateTimeField = models.DateTimeField
    Field = models.Field


class StatementTimestamp(Func):
    """The database's clock; `now()` would be old in a long transaction."""

    template = "STATEMENT_TIMESTAMP()"
    output_field = models.DateTimeField()


def database_time(alias: str) -> datetime:
    """Return the time by the database's clock, as the project has its times."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        found: datetime = cursor.fetchone()[0]
    return found


def exactly(span: timedelta) -> Func:
    """Return a duration to add to a time, without days: a zone may make a day longer."""
    return Cast(Value(exact(span)), models.DurationField())


NEAREST = (
    "CASE WHEN {0} < '0001-01-03 00:00+00' THEN '0001-01-03 00:00+00' "
    "WHEN {0} > '9999-12-29 00:00+00' THEN '9999-12-29 00:00+00' ELSE {0} END"
)


class InstantField(DateTimeField):
    """A time. One that Python can't hold is selected as the nearest one that it can."""

    default_validators = [
        MinValueValidator(lambda: of_project(EARLIEST)),
        MaxValueValidator(lambda: of_project(LATEST)),
    ]

    def select_format(self, compiler: SQLCompiler, sql: str, params: Any) -> tuple[str, Any]:
        """Say how it is selected.

        In `values()` that are sorted by it, it is the column itself: Django has PostgreSQL sort by
        the value that is selected, and only the column has an index. See `readable.reading`.
        """
        query = compiler.query
        if query.values_select and {self.name, f"-{self.name}"} & set(query.order_by):
            return sql, params
        return NEAREST.format(sql), (*params, *params, *params)

    def deconstruct(self) -> Any:
        """In migrations it is Django's."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs


class JSONField(models.JSONField):
    """JSON. A document that Python can't parse, as of a number of 5 000 digits, is its text."""

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        """Parse it."""
        try:
            return super().from_db_value(value, expression, connection)
        except TOO_MUCH:
            return f"unreadable: {str(value)[:1000]}"

    def deconstruct(self) -> Any:
        """In migrations it is Django's."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs


class ListField(Field):
    """An array. Django's own would need 'django.contrib.postgres' to be installed."""

    of: ClassVar[type] = object
    """The type of its items."""

    def to_python(self, value: Any) -> list[Any] | None:
        """Return a list, also of the JSON that `value_to_string` has written.

        Raises:
            ValidationError: the value is no list, or an item has another type.
        """
        try:
            items = json.loads(value) if isinstance(value, str) else value
        except ValueError as error:
            raise self._refused(value) from error
        if items is None:
            return None
        if not isinstance(items, list | tuple) or any(type(each) is not self.of for each in items):
            raise self._refused(value)
        return list(items)

    def value_to_string(self, obj: models.Model) -> str:
        """Return the list of a row as JSON, for `dumpdata`."""
        return json.dumps(self.value_from_object(obj))

    def _refused(self, value: Any) -> ValidationError:
        return ValidationError(f"{value!r:.200} is no list of {self.of.__name__}.", code="invalid")


class NamesField(ListField):
    """An array of texts."""

    of = str

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        """Compare them as bytes, as all names are."""
        return {"type": self.db_type(connection), "check": [], "collation": "C"}

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "text[]"


class IdsField(Field):
    """An array of messages' ids."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "bigint[]"


class InstantsField(Field):
    """An array of times."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "timestamp with time zone[]"


class BucketsField(ListField):
    """A histogram: an array of counts."""

    of = int

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "bigint[]"


class GeneratedField(models.GeneratedField):
    """Django's, whose check connects to no database.

    Django 6.1 asks each server whether it has virtual generated columns, also for a stored one:
    `check`, `makemigrations` and `runserver` would need a database that answers, as they have
    none while an image is built. Every PostgreSQL that the queue supports has stored ones, and our
    own checks say where a database is no PostgreSQL (pgqueue.E003) or too old (pgqueue.E004).
    """

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Check all but what the databases support."""
        return super().check(**{**kwargs, "databases": []})

    def deconstruct(self) -> Any:
        """In migrations it is Django's."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.GeneratedField", args, kwargs
