from django.db.backends.base.base import BaseDatabaseWrapper

from pgqueue.models.names import Field


class BucketsField(Field):
    """A histogram: an array of counts."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "bigint[]"
