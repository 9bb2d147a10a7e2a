from django.db import models
from django.db.models import Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.models.clock import StatementTimestamp

TOPIC_LIMIT = 200


class EventInbox(models.Model):
    """An event that was published, and has no position yet: rows live for milliseconds."""

    id = models.BigAutoField(primary_key=True)
    topic = models.TextField(db_collation="C")
    key = models.TextField(db_collation="C", db_default="")
    payload = models.JSONField(null=True)
    metadata = models.JSONField(db_default={})
    created_at = models.DateTimeField(db_default=StatementTimestamp())

    class Meta:
        db_table = "pgqueue_event_inbox"
        default_permissions = ()
        constraints = [
            models.CheckConstraint(condition=~Q(topic=""), name="pgqueue_event_inbox_topic")
        ]

    def __str__(self) -> str:
        return self.topic


class Event(models.Model):
    """An immutable fact at its position in the log.

    Made by SQL (`migrations/sql/`), since models know no partitions: a million positions each.
    """

    position = models.BigIntegerField(_("position"), primary_key=True)
    topic = models.TextField(_("topic"), db_collation="C")
    key = models.TextField(_("key"), db_collation="C")
    payload = models.JSONField(_("payload"), null=True)
    metadata = models.JSONField(_("metadata"))
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        db_table = "pgqueue_event"
        verbose_name = _("event")
        verbose_name_plural = _("events")

    def __str__(self) -> str:
        return gettext("%(topic)s at %(position)s") % {
            "topic": self.topic,
            "position": self.position,
        }
