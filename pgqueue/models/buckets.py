from django.db.backends.base.base import BaseDatabaseWrapper

from pgqueue.models.names import ListField


class BucketsField(ListField):
    """A histogram: an array of counts."""

    of = int

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Say how PostgreSQL names it."""
        return "bigint[]"
