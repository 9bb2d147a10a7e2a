from django.db.backends.base.base import BaseDatabaseWrapper

from pgqueue.models.names import Field


class IdsField(Field):
    """An array of messages' ids."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "bigint[]"
