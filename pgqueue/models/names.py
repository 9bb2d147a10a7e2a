import json
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:
    Field = models.Field[Any, Any]
else:
    Field = models.Field  # generic only to who reads types


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
