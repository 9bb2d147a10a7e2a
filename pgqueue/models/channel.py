from django.db import models


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

    class Meta:
        db_table = "pgqueue_channel"

    def __str__(self) -> str:
        return self.name
