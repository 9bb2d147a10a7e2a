from django.db import models

from pgqueue.models.readable import InstantField


class Export(models.Model):
    """How far history and events were exported to one target: the last of the last batch there."""

    target = models.TextField(primary_key=True, db_collation="C")
    batch = models.BigIntegerField()
    txid = models.BigIntegerField()
    message_id = models.BigIntegerField()
    event_batch = models.BigIntegerField(db_default=-1)
    event_position = models.BigIntegerField(
        db_default=0, help_text="Events up to this one are there."
    )
    exported_at = InstantField()
    database = models.TextField(
        db_default="", help_text="Where the rows are from: see engine/identity."
    )

    class Meta:
        db_table = "pgqueue_export"
        default_permissions = ()

    def __str__(self) -> str:
        return self.target
