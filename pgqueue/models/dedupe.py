from django.db import models

from pgqueue.models.readable import InstantField


class Dedupe(models.Model):
    """A key that is remembered for longer than its message lives."""

    pk = models.CompositePrimaryKey("channel", "dedupe_key")
    channel = models.TextField(db_collation="C")
    dedupe_key = models.TextField(db_collation="C")
    message_id = models.BigIntegerField()
    expires_at = InstantField()

    class Meta:
        db_table = "pgqueue_dedupe"
        default_permissions = ()
        indexes = [models.Index(fields=["expires_at"], name="pgqueue_dedupe_expires")]

    def __str__(self) -> str:
        return f"{self.channel}, {self.dedupe_key!r}"
