"""The words for where a message is, and for how it ended."""

from django.db.models import TextChoices


class State(TextChoices):
    """Where a live message is. A row leaves its table when the message ends."""

    HELD = "held"
    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    DEAD = "dead"


class Outcome(TextChoices):
    """How a message ended, as its history tells."""

    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    EXPIRED = "expired"
