from django.db.models import DateTimeField, Func


class StatementTimestamp(Func):
    """The database's clock; `now()` would be old in a long transaction."""

    template = "STATEMENT_TIMESTAMP()"
    output_field = DateTimeField()
