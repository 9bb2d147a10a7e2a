from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:
    Field = models.Field[Any, Any]
else:
    Field = models.Field  # generic only to who reads types


class NamesField(Field):
    """An array of texts. Django's own would need 'django.contrib.postgres' to be installed."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        """Compare them as bytes, as all names are."""
        return {"type": self.db_type(connection), "check": [], "collation": "C"}

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "text[]"
