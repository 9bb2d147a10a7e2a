from __future__ import annotations

from django.db import models


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

        BLOCK = "block"
        SKIP = "skip"

    class OnFull(models.TextChoices):
        """What becomes of a message beyond a policy's max_size."""

        REFUSE = "refuse", "Its producer gets ChannelFull"
        DROP = "drop", "It is dropped"

    name = models.TextField(db_collation="C", primary_key=True)
    paused = models.BooleanField(
        db_default=False, default=False, help_text="Workers start none of its messages."
    )
    retention = models.DurationField(
        null=True, blank=True, help_text="How long its history is kept, if not as long as all."
    )
    on_dead = models.TextField(
        choices=OnDead.choices, db_default=OnDead.BLOCK, default=OnDead.BLOCK
    )
    on_full = models.TextField(
        choices=OnFull.choices,
        db_default=OnFull.REFUSE,
        default=OnFull.REFUSE,
        help_text="What becomes of a message beyond a policy's max_size.",
    )
    handler = models.TextField(
        blank=True,
        db_default="",
        default="",
        help_text="The import path of the task that raw messages are given to.",
    )
    watched = models.BooleanField(
        db_default=False,
        default=False,
        help_text="What happens to its messages is notified, for watch().",
    )

    objects = ChannelQuerySet.as_manager()

    class Meta:
        db_table = "pgqueue_channel"

    def __str__(self) -> str:
        return self.name
