from django.db import models


class Export(models.Model):
    """How far history was exported to one target: the last row of the last batch there."""

    target = models.TextField(primary_key=True, db_collation="C")
    batch = models.BigIntegerField()
    txid = models.BigIntegerField()
    message_id = models.BigIntegerField()
    exported_at = models.DateTimeField()

    class Meta:
        db_table = "pgqueue_export"
        default_permissions = ()

    def __str__(self) -> str:
        return self.target
