from django.db import models

from pgqueue.models.readable import InstantField, JSONField


class Backfill(models.Model):
    """Rows of Spark that become messages little by little, and how far that is."""

    name = models.TextField(primary_key=True, db_collation="C")
    task = models.TextField()
    source = models.TextField(help_text="What the rows were read from.")
    attempts = JSONField(help_text="Of the staged rows, in their order.")
    place = models.IntegerField(db_default=0, help_text="Of the attempt that is next.")
    number = models.BigIntegerField(db_default=0, help_text="Of its row that is next.")
    done = models.BigIntegerField(db_default=0)
    total = models.BigIntegerField()
    created_at = InstantField()
    ended_at = InstantField(null=True)

    class Meta:
        db_table = "pgqueue_backfill"
        default_permissions = ()

    def __str__(self) -> str:
        return self.name
