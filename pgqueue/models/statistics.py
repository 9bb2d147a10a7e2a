from __future__ import annotations

from django.db import models

from pgqueue.models.buckets import BucketsField


class Counted(models.Model):
    """What came of runs of one task in one channel."""

    channel = models.TextField(db_collation="C")
    task = models.TextField(db_collation="C")
    succeeded = models.BigIntegerField()
    failed = models.BigIntegerField(help_text="Runs that raised, and are tried again.")
    dead = models.BigIntegerField(help_text="Runs that raised, and were the last of their message.")
    deferred = models.BigIntegerField()
    discarded = models.BigIntegerField()
    cancelled = models.BigIntegerField()
    waited = models.FloatField(help_text="Seconds from when messages were due to their starts.")
    ran = models.FloatField(help_text="Seconds of all runs together.")
    waits = BucketsField(help_text="How many waited for up to 1 ms, 2 ms, 4 ms, …; the rest.")
    runs = BucketsField(help_text="How many ran for up to 1 ms, 2 ms, 4 ms, …; the rest.")

    class Meta:
        abstract = True


class Tally(Counted):
    """What one worker has counted since its last heartbeat, until a duty adds it up."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "pgqueue_tally"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.channel}, {self.task}, {self.at}"


class Statistic(Counted):
    """What came of the runs of a minute, or of an hour."""

    pk = models.CompositePrimaryKey("period", "at", "channel", "task")
    period = models.TextField(help_text="minute or hour")
    at = models.DateTimeField(help_text="When the period begins.")

    class Meta:
        db_table = "pgqueue_statistic"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.channel}, {self.task}, {self.period} of {self.at}"


class Total(Counted):
    """What came of all runs so far: it only grows."""

    pk = models.CompositePrimaryKey("channel", "task")
    counted_at = models.DateTimeField(help_text="The last time that something was added.")

    class Meta:
        db_table = "pgqueue_total"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.channel}, {self.task}"
