from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:
    Field = models.Field[Any, Any]
else:
    Field = models.Field  # generic only to who reads types


class BucketsField(Field):
    """A histogram: an array of counts."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "bigint[]"
