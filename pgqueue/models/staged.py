from django.db import models

from pgqueue.models.readable import InstantField, JSONField


class Staged(models.Model):
    """A row that a task of Spark has written, and that is no message or event yet.

    It becomes one when the whole write is committed, or it is told to a verb. What no write
    commits is removed after a week.
    """

    pk = models.CompositePrimaryKey("attempt", "number")
    attempt = models.BigIntegerField(
        help_text="Of a task of Spark: milliseconds since 1970, times 2^22, and a random number."
    )
    number = models.BigIntegerField(help_text="The row's place in what the attempt wrote.")
    message_id = models.BigIntegerField(null=True, help_text="For a verb; all else is null then.")
    channel = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    key = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    task = models.TextField(null=True)  # noqa: DJ001
    payload = JSONField(null=True)
    body = models.BinaryField(null=True)
    metadata = JSONField(null=True)
    priority = models.SmallIntegerField(null=True)
    max_attempts = models.IntegerField(null=True)
    run_at = InstantField(null=True)
    expires_at = InstantField(null=True)
    ordered = models.BooleanField(null=True)
    dedupe_key = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    topic = models.TextField(db_collation="C", null=True)  # noqa: DJ001

    class Meta:
        db_table = "pgqueue_staged"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.attempt}, {self.number}"
