from django.db import models
from django.db.models import Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.models.clock import StatementTimestamp
from pgqueue.models.readable import InstantField, JSONField

TOPIC_LIMIT = 200


class EventInbox(models.Model):
    """An event that was published, and has no position yet: rows live for milliseconds."""

    id = models.BigAutoField(primary_key=True)
    topic = models.TextField(db_collation="C")
    key = models.TextField(db_collation="C", db_default="")
    payload = JSONField(null=True)
    metadata = JSONField(db_default={})
    created_at = InstantField(db_default=StatementTimestamp())

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
    payload = JSONField(_("payload"), null=True)
    metadata = JSONField(_("metadata"))
    created_at = InstantField(_("created at"))

    class Meta:
        db_table = "pgqueue_event"
        verbose_name = _("event")
        verbose_name_plural = _("events")

    def __str__(self) -> str:
        return gettext("%(topic)s at %(position)s") % {
            "topic": self.topic,
            "position": self.position,
        }
