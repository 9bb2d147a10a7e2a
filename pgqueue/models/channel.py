from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from pgqueue.values.number_checks import LONGEST

RETENTIONS = (
    "retention",
    "retention_succeeded",
    "retention_cancelled",
    "retention_discarded",
    "retention_expired",
    "dead_retention",
)
A_WHILE = (timedelta(microseconds=1), LONGEST)


class ChannelQuerySet(models.QuerySet["Channel"]):
    def pause(self) -> int:
        """Have workers start none of their messages; return how many weren't paused before."""
        return self.filter(paused=False).update(paused=True)

    def resume(self) -> int:
        """Have workers start their messages again; return how many were paused before."""
        return self.filter(paused=True).update(paused=False)


class Channel(models.Model):
    """How a channel is configured. One that works by the defaults has no row.

    A trigger tells workers that wait of any change: it may have been paused.
    """

    class OnDead(models.TextChoices):
        """What a dead message does to those behind it in an ordered lane."""

        BLOCK = "block", _("It blocks them")
        SKIP = "skip", _("It is skipped")

    class OnFull(models.TextChoices):
        """What becomes of a message beyond a policy's max_size."""

        REFUSE = "refuse", _("Its producer gets ChannelFull")
        DROP = "drop", _("It is dropped")

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    paused = models.BooleanField(
        _("paused"),
        db_default=False,
        default=False,
        help_text=_("Workers start none of its messages."),
    )
    retention = models.DurationField(
        _("retention"),
        null=True,
        blank=True,
        help_text=_("How long its history is kept. Empty: as PGQUEUE says."),
    )
    retention_succeeded = models.DurationField(
        _("retention succeeded"),
        null=True,
        blank=True,
        help_text=_("How long messages that succeeded are kept. Empty: as its history."),
    )
    retention_cancelled = models.DurationField(
        _("retention cancelled"),
        null=True,
        blank=True,
        help_text=_("The same for messages that were cancelled."),
    )
    retention_discarded = models.DurationField(
        _("retention discarded"),
        null=True,
        blank=True,
        help_text=_("The same for messages that were discarded, as dead letters are in the end."),
    )
    retention_expired = models.DurationField(
        _("retention expired"),
        null=True,
        blank=True,
        help_text=_("The same for messages that expired."),
    )
    dead_retention = models.DurationField(
        _("dead retention"),
        null=True,
        blank=True,
        help_text=_(
            "How long its dead letters are kept before they are discarded. Empty: as PGQUEUE says."
        ),
    )
    on_dead = models.TextField(
        _("on dead"),
        choices=OnDead.choices,
        db_default=OnDead.BLOCK,
        default=OnDead.BLOCK,
        help_text=_("What a dead message does to those behind it, where they run in order."),
    )
    on_full = models.TextField(
        _("on full"),
        choices=OnFull.choices,
        db_default=OnFull.REFUSE,
        default=OnFull.REFUSE,
        help_text=_("What becomes of a message beyond a policy's max_size."),
    )
    handler = models.TextField(
        _("handler"),
        blank=True,
        db_default="",
        default="",
        help_text=_("The import path of the task that raw messages are given to."),
    )
    watched = models.BooleanField(
        _("watched"),
        db_default=False,
        default=False,
        help_text=_("Whether watch() is notified of what happens to its messages."),
    )

    objects = ChannelQuerySet.as_manager()

    class Meta:
        db_table = "pgqueue_channel"
        verbose_name = _("channel")
        verbose_name_plural = _("channels")
        constraints = [
            models.CheckConstraint(
                condition=Q(**{f"{name}__range": A_WHILE for name in RETENTIONS}),
                name="pgqueue_channel_retention",
                violation_error_message=_(
                    "What is kept is kept for longer than 0, and for a hundred years at most."
                ),
            )
        ]

    def __str__(self) -> str:
        return self.name
