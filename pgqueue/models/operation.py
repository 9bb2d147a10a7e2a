"""Operations on many rows, and how far each has come."""

from django.db import models

from pgqueue.models.fields import InstantField, JSONField, StatementTimestamp


class Operation(models.Model):
    """An operation on many messages that somebody has asked for who may.

    A worker does nothing for a message of such a task that is not named here: whoever may enqueue
    is not who may operate.
    """

    message_id = models.BigIntegerField(primary_key=True, help_text="The message that does it.")
    user = models.JSONField(null=True, help_text="Who asked: an id and a name.")
    created_at = models.DateTimeField(db_default=StatementTimestamp())

    class Meta:
        db_table = "pgqueue_operation"
        default_permissions = ()

    def __str__(self) -> str:
        return f"#{self.message_id}"


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


class Purged(models.Model):
    """Up to when history was purged of what is kept for so long.

    The next purge begins there. A row that was written under other rules is void: then history is
    read from its beginning once more.
    """

    keep = models.DurationField(primary_key=True)
    rules = models.TextField(help_text="A digest of how long everything is kept.")
    until = InstantField()

    class Meta:
        db_table = "pgqueue_purged"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.keep} until {self.until}"
