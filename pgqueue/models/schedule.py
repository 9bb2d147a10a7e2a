from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.db import models, router, transaction
from django.db.models import F, Q
from django.db.models.base import ModelBase
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import InstantField, JSONField, NamesField
from pgqueue.options.schedules import rhythm_of
from pgqueue.options.ticks import LONGEST, SHORTEST, Rhythm

OF_WORKERS = {"next_at", "ticked_at", "message_id", "recent", "error"}
OF_OPERATORS = {"paused", "channel", "priority"}
"""What code doesn't say of the schedules that it declares."""
WHEN = {"cron", "every", "timezone", "paused"}


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def pause(self) -> int:
        """Have them enqueue nothing; return how many weren't paused before."""
        return self.filter(paused=False).update(paused=True)

    def resume(self) -> int:
        """Have them go on with the next tick; return how many were paused before.

        The ticks of the pause were not missed: they were not wanted.
        """
        return self.filter(paused=True).update(paused=False, next_at=None)


class Schedule(models.Model):
    """When a task is enqueued by itself, and how far that is done.

    Workers write those that are declared in code, and everybody else may add others.
    """

    class Missed(models.TextChoices):
        """The handling of ticks that passed while no worker ran."""

        SKIP = "skip", _("Skip them")
        ONCE = "once", _("One message for all of them")
        ALL = "all", _("One message for each")

    class Overlap(models.TextChoices):
        """The handling of a tick while the message of an earlier one waits or runs."""

        ALLOW = "allow", _("Let them run at once")
        SKIP = "skip", _("Skip the tick")
        ONE = "one", _("Queue behind it")

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    task = models.TextField(_("task"), help_text=_("The import path of the task."))
    cron = models.TextField(
        blank=True,
        db_default="",
        default="",
        verbose_name=_("cron line"),
        help_text=_("Minute, hour, day of the month, month, day of the week; or @daily, …"),
    )
    every = models.DurationField(
        _("every"),
        null=True,
        blank=True,
        help_text=_("An interval instead of a cron line: 00:05:00."),
    )
    timezone = models.TextField(
        _("timezone"),
        db_default="UTC",
        default="UTC",
        help_text=_("The time zone of the cron line: Europe/Berlin."),
    )
    args = JSONField(_("args"), db_default=[], default=list, blank=True)
    kwargs = JSONField(_("kwargs"), db_default={}, default=dict, blank=True)
    channel = models.TextField(
        _("channel"),
        db_collation="C",
        blank=True,
        db_default="",
        default="",
        help_text=_("Empty: the task's."),
    )
    priority = models.SmallIntegerField(
        _("priority"), null=True, blank=True, help_text=_("Empty: the task's.")
    )
    missed = models.TextField(
        _("missed"),
        choices=Missed.choices,
        db_default=Missed.ONCE,
        default=Missed.ONCE,
        help_text=_("What becomes of ticks that came while no worker ran."),
    )
    overlap = models.TextField(
        _("overlap"),
        choices=Overlap.choices,
        db_default=Overlap.ALLOW,
        default=Overlap.ALLOW,
        help_text=_("What to do while the message of an earlier tick waits or runs."),
    )
    paused = models.BooleanField(
        _("paused"),
        db_default=False,
        default=False,
        help_text=_("A paused schedule enqueues nothing."),
    )

    next_at = InstantField(
        _("next at"),
        null=True,
        editable=False,
        help_text=_("The first tick that was not done. Null: the next one from now."),
    )
    ticked_at = InstantField(
        _("ticked at"), null=True, editable=False, help_text=_("The last tick that had a message.")
    )
    message_id = models.BigIntegerField(
        _("message id"), null=True, editable=False, help_text=_("The message of that tick.")
    )
    recent = JSONField(
        _("recent"),
        db_default=[],
        default=list,
        editable=False,
        help_text=_("The messages of the last ten ticks that had one, the newest first."),
    )
    error = models.TextField(
        _("error"),
        db_default="",
        default="",
        editable=False,
        help_text=_("Why the last tick had no message."),
    )

    declared = models.BooleanField(
        _("declared"),
        db_default=False,
        default=False,
        editable=False,
        help_text=_("Whether it is declared in code."),
    )
    definition = models.TextField(
        _("definition"),
        db_default="",
        default="",
        editable=False,
        help_text=_("A digest of its declaration in code."),
    )
    superseded = NamesField(
        _("superseded"),
        db_default=[],
        default=list,
        editable=False,
        help_text=_("Earlier declarations in code, newest first."),
    )
    seen_at = InstantField(
        _("seen at"),
        null=True,
        editable=False,
        help_text=_("About when a worker last had it in its code."),
    )

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        db_table = "pgqueue_schedule"
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        indexes = [
            # The due schedules: read every second.
            models.Index(
                F("next_at").asc(nulls_first=True),
                condition=Q(paused=False),
                name="pgqueue_schedule_due",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=~Q(cron="") & Q(every=None) | Q(cron="") & Q(every__isnull=False),
                name="pgqueue_schedule_when",
                violation_error_message=_("Give a cron line, or an interval."),
            ),
            models.CheckConstraint(
                condition=Q(every__range=(SHORTEST, LONGEST)),
                name="pgqueue_schedule_every",
                violation_error_message=_("every must be a second or more, and a year at most."),
            ),
            models.CheckConstraint(
                condition=Q(missed__in=["skip", "once", "all"]), name="pgqueue_schedule_missed"
            ),
            models.CheckConstraint(
                condition=Q(overlap__in=["allow", "skip", "one"]), name="pgqueue_schedule_overlap"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(
        self,
        *,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        """Save it. In a row that is there, what workers write is left, if it is not named.

        Of one that code declares, they write all but its pause, its channel and its priority.

        Where the row gets another time, or is paused or resumed, it goes on with the next tick from
        then: those until then were not missed.
        """
        using = using or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using, savepoint=False):
            row = None if force_insert else self._row(using)
            super().save(
                force_insert=force_insert,
                force_update=force_update,
                using=using,
                update_fields=self._changing(row, update_fields) if row else update_fields,
            )

    def _row(self, using: str) -> Schedule | None:
        """Lock and return what is stored under this name."""
        rows = Schedule.objects.using(using).select_for_update(no_key=True)
        return rows.filter(pk=self.pk).first()

    def _changing(self, row: Schedule, update_fields: Iterable[str] | None) -> set[str]:
        """Return the fields to be written to its row."""
        if update_fields is not None:
            written = set(update_fields)
        elif row.declared:
            written = set(OF_OPERATORS)
        else:
            own = {field.name for field in self._meta.concrete_fields if not field.primary_key}
            written = own - OF_WORKERS
        changed = any(getattr(self, name) != getattr(row, name) for name in written & WHEN)
        # update_or_create() names all fields that are DateTimeFields.
        is_given = "next_at" in written and self.next_at != row.next_at
        if changed and not is_given:
            self.next_at = None
            written.add("next_at")
        return written

    @property
    def when(self) -> str | timedelta:
        """The cron line, or the interval."""
        return self.cron if self.every is None else self.every

    @property
    def rhythm(self) -> Rhythm:
        """When it ticks.

        Raises:
            InvalidSchedule: it is none.
        """
        return rhythm_of(self.when, self.timezone)
