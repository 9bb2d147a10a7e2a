from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from pgqueue.models.clock import StatementTimestamp
from pgqueue.models.readable import InstantField


class Group(models.Model):
    """A named cursor on the log. Its partitions are rows of `Cursor`.

    What it reads, and what becomes of an event that its handler fails with, is the handler's.
    """

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    partitions = models.IntegerField(_("partitions"), db_default=1, default=1)
    created_at = InstantField(_("created at"), db_default=StatementTimestamp())

    class Meta:
        db_table = "pgqueue_group"
        verbose_name = _("group")
        verbose_name_plural = _("groups")
        constraints = [
            models.CheckConstraint(
                condition=Q(partitions__range=(1, 1024)),
                name="pgqueue_group_partitions",
                violation_error_message=_("A group has 1 to 1024 partitions."),
            )
        ]

    def __str__(self) -> str:
        return self.name


class Cursor(models.Model):
    """How far a partition of a group has been handled, and which reader has it.

    The group without a name is the dispatch's, which makes messages for subscriptions.
    """

    pk = models.CompositePrimaryKey("group", "partition")
    group = models.TextField(db_collation="C")
    partition = models.IntegerField()
    position = models.BigIntegerField(help_text=_("The last event that was handled."))
    reader_id = models.UUIDField(null=True)
    lease_until = InstantField(null=True)
    failures = models.IntegerField(db_default=0, help_text=_("Of the next event, so far."))
    error = models.TextField(db_default="", help_text=_("The last of them."))
    retry_at = InstantField(null=True, help_text=_("When the next event is tried again."))
    is_stopped = models.BooleanField(
        db_default=False, help_text=_("An event failed for good: an operator resumes the group.")
    )
    updated_at = InstantField(db_default=StatementTimestamp())
    suspect = models.BigIntegerField(
        null=True, help_text=_("The event that may have ended the last reader's process.")
    )
    lost = models.IntegerField(
        db_default=0, help_text=_("How many readers were lost there; 1: which event is not known.")
    )
    begun_at = InstantField(
        null=True, help_text=_("When the suspected event's handler began, while it runs.")
    )

    class Meta:
        db_table = "pgqueue_cursor"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.group}/{self.partition}"
