from __future__ import annotations

from typing import Any

from django.db import connections, models, transaction

from pgqueue.engine import notifications


class ChannelQuerySet(models.QuerySet["Channel"]):
    def pause(self) -> int:
        """Have workers start none of their messages; return how many weren't paused before."""
        return self.filter(paused=False).update(paused=True)

    def resume(self) -> int:
        """Have workers start their messages again; return how many were paused before."""
        self._for_write = True
        with transaction.atomic(using=self.db):
            paused = list(self.filter(paused=True).select_for_update().values_list("pk", flat=True))
            self.filter(pk__in=paused).update(paused=False)
            notifications.tell(connections[self.db], paused)
        return len(paused)


class Channel(models.Model):
    """How a channel is configured. One that works by the defaults has no row."""

    class OnDead(models.TextChoices):
        """What a dead message does to those behind it in an ordered lane."""

        BLOCK = "block"
        SKIP = "skip"

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
    options = models.JSONField(db_default={}, default=dict, blank=True)

    objects = ChannelQuerySet.as_manager()

    class Meta:
        db_table = "pgqueue_channel"

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **options: Any) -> None:
        """Save it; workers that wait look at once, since it may have been paused."""
        super().save(*args, **options)
        notifications.tell(connections[self._state.db or "default"], [self.name])

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        """Delete it, so that it works by the defaults; workers that wait look at once."""
        name = self.name
        deleted = super().delete(*args, **options)
        notifications.tell(connections[self._state.db or "default"], [name])
        return deleted
