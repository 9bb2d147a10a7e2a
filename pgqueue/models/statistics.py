"""Counts of runs by minute, hour and day, and the overview that shows them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import BucketsField, InstantField
from pgqueue.models.worker import Worker


class Counted(models.Model):
    """The outcomes of runs of one task in one channel."""

    channel = models.TextField(db_collation="C")
    task = models.TextField(db_collation="C")
    succeeded = models.BigIntegerField()
    failed = models.BigIntegerField(help_text="Runs that raised, and are tried again.")
    dead = models.BigIntegerField(help_text="Runs that raised, and were the last of their message.")
    deferred = models.BigIntegerField()
    discarded = models.BigIntegerField()
    cancelled = models.BigIntegerField()
    lost = models.BigIntegerField(db_default=0, help_text="Runs whose worker died.")
    released = models.BigIntegerField(db_default=0, help_text="Runs that were handed back.")
    waited = models.FloatField(help_text="Seconds from when messages were due to their starts.")
    ran = models.FloatField(help_text="Seconds of all runs together.")
    waits = BucketsField(help_text="How many waited for up to 1 ms, 2 ms, 4 ms, …; the rest.")
    runs = BucketsField(help_text="How many ran for up to 1 ms, 2 ms, 4 ms, …; the rest.")

    class Meta:
        abstract = True


class Tally(Counted):
    """The counts of one worker since its last heartbeat, until a duty adds them up."""

    id = models.BigAutoField(primary_key=True)
    at = InstantField()
    tenant = models.TextField(
        db_collation="C", db_default="", help_text="Empty without TENANT_METRICS."
    )

    class Meta:
        db_table = "pgqueue_tally"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.channel}, {self.task}, {self.at}"


class TallyBatch(models.Model):
    """The last batch of counts that a process has stored: a batch that comes again is known."""

    source = models.UUIDField(primary_key=True)
    number = models.BigIntegerField()
    at = InstantField()

    class Meta:
        db_table = "pgqueue_tally_batch"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.source}, {self.number}"


class Statistic(Counted):
    """The outcomes of the runs of a minute, or of an hour."""

    pk = models.CompositePrimaryKey("period", "at", "channel", "task")
    period = models.TextField(help_text="minute or hour")
    at = InstantField(help_text="When the period begins.")

    class Meta:
        db_table = "pgqueue_statistic"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.channel}, {self.task}, {self.period} of {self.at}"


class Total(Counted):
    """The outcomes of all runs so far: the counts only grow."""

    pk = models.CompositePrimaryKey("channel", "task")
    counted_at = InstantField(help_text="The last time that something was added.")

    class Meta:
        db_table = "pgqueue_total"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.channel}, {self.task}"


class TenantTotal(models.Model):
    """The outcomes of all runs of one tenant so far, for TENANT_METRICS: the counts only grow."""

    tenant = models.TextField(primary_key=True, db_collation="C")
    counted_at = InstantField(help_text="The last time that something was added.")
    succeeded = models.BigIntegerField()
    failed = models.BigIntegerField()
    dead = models.BigIntegerField()
    deferred = models.BigIntegerField()
    discarded = models.BigIntegerField()
    cancelled = models.BigIntegerField()

    class Meta:
        db_table = "pgqueue_tenant_total"
        default_permissions = ()

    def __str__(self) -> str:
        return self.tenant


class Overview(Worker):
    """No table: what the admin's overview page is listed by, and its permission."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        verbose_name = verbose_name_plural = _("overview")
