"""The words for where a message is, and for how it ended."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class State(TextChoices):
    """Where a live message is. A row leaves its table when the message ends."""

    HELD = "held", _("Held")
    SCHEDULED = "scheduled", _("Scheduled")
    READY = "ready", _("Ready")
    RUNNING = "running", _("Running")
    DEAD = "dead", _("Dead")


class Outcome(TextChoices):
    """How a message ended, as its history tells."""

    SUCCEEDED = "succeeded", _("Succeeded")
    CANCELLED = "cancelled", _("Cancelled")
    DISCARDED = "discarded", _("Discarded")
    EXPIRED = "expired", _("Expired")


WAITING = "waiting"
"""Said of a message that is held since it waits for others of its flow."""
