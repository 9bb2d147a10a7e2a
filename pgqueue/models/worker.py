"""Workers, and the duties that they share."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import InstantField, JSONField, NamesField, StatementTimestamp


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self, lease: timedelta) -> WorkerQuerySet:
        """Seen within the lease, so that other workers do not take its messages over."""
        return self.filter(last_seen__gt=StatementTimestamp() - lease)


class Worker(models.Model):
    """A process that serves channels, and its heartbeat.

    Its id changes with each connection that it claims on. A server crash may lose a claim, whose
    attempt number is then given out again: the two claims must differ.
    """

    id = models.UUIDField(_("ID"), primary_key=True)
    host = models.TextField(_("host"))
    pid = models.IntegerField(_("PID"))
    started_at = InstantField(_("started at"))
    last_seen = InstantField(_("last seen"))
    channels = NamesField(
        _("channels"), null=True, help_text=_("Null: every channel, also future ones.")
    )
    excluded = NamesField(_("excluded"), db_default=[])
    notify_until = InstantField(
        _("notify until"),
        null=True,
        help_text=_("Until then it is idle, and is notified of new messages."),
    )
    info = JSONField(_("info"), db_default={}, help_text=_("What it runs: threads, version, …"))

    objects = WorkerQuerySet.as_manager()

    class Meta:
        db_table = "pgqueue_worker"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class Duty(models.Model):
    """Recurring work that whichever worker finds it due does, one at a time."""

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    due_at = InstantField(_("due at"))
    ran_at = InstantField(_("ran at"), null=True)
    upto = InstantField(
        _("up to"),
        null=True,
        help_text=_("Of the duty “retention”: nothing younger than this and a day is removed."),
    )
    failing_since = InstantField(
        _("failing since"), null=True, help_text=_("When it first failed since it was last done.")
    )

    class Meta:
        db_table = "pgqueue_duty"
        default_permissions = ()
        verbose_name = _("duty")
        verbose_name_plural = _("duties")

    def __str__(self) -> str:
        return self.name
