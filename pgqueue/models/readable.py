"""Fields that show every value, also in rows that are older than our constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.sql.compiler import SQLCompiler

from pgqueue.values.instants import of_project
from pgqueue.values.readable import EARLIEST, LATEST, TOO_MUCH

NEAREST = (
    "CASE WHEN {0} < '0001-01-03 00:00+00' THEN '0001-01-03 00:00+00' "
    "WHEN {0} > '9999-12-29 00:00+00' THEN '9999-12-29 00:00+00' ELSE {0} END"
)

if TYPE_CHECKING:
    DateTimeField = models.DateTimeField[Any, Any]
else:
    DateTimeField = models.DateTimeField  # generic only to who reads types


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
