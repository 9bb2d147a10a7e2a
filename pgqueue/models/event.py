"""The event log: events, who reads them and how far, and rows that Spark has written."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import InstantField, JSONField, StatementTimestamp

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


class AppendLock(models.Model):
    """A topic and a key whose publishers use conditions: one after the other holds the row.

    The duty `forget` deletes the row when nobody has used it for a day.
    """

    pk = models.CompositePrimaryKey("topic", "key")
    topic = models.TextField(db_collation="C")
    key = models.TextField(db_collation="C")
    used_at = InstantField(db_default=StatementTimestamp())

    class Meta:
        db_table = "pgqueue_append_lock"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.topic} {self.key}"


class Group(models.Model):
    """A named cursor on the log. Its partitions are rows of `Cursor`.

    The handler's code says which events it reads, and what follows when it fails with one.
    """

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    partitions = models.IntegerField(_("partitions"), db_default=1, default=1)
    created_at = InstantField(_("created at"), db_default=StatementTimestamp())

    class Meta:
        db_table = "pgqueue_group"
        verbose_name = _("group")
        verbose_name_plural = _("groups")
        constraints = [
            models.CheckConstraint(
                condition=Q(partitions__range=(1, 1024)),
                name="pgqueue_group_partitions",
                violation_error_message=_("A group has 1 to 1024 partitions."),
            )
        ]

    def __str__(self) -> str:
        return self.name


class Cursor(models.Model):
    """How far a partition of a group has been handled, and which reader has it.

    The group without a name is the dispatch's, which makes messages for subscriptions.
    """

    pk = models.CompositePrimaryKey("group", "partition")
    group = models.TextField(db_collation="C")
    partition = models.IntegerField()
    position = models.BigIntegerField(help_text=_("The last event that was handled."))
    reader_id = models.UUIDField(null=True)
    lease_until = InstantField(null=True)
    failures = models.IntegerField(db_default=0, help_text=_("Of the next event, so far."))
    error = models.TextField(db_default="", help_text=_("The last of them."))
    retry_at = InstantField(null=True, help_text=_("When the next event is tried again."))
    is_stopped = models.BooleanField(
        db_default=False, help_text=_("An event failed for good: an operator resumes the group.")
    )
    updated_at = InstantField(db_default=StatementTimestamp())
    suspect = models.BigIntegerField(
        null=True, help_text=_("The event that may have ended the last reader's process.")
    )
    lost = models.IntegerField(
        db_default=0, help_text=_("How many readers were lost there; 1: which event is not known.")
    )
    begun_at = InstantField(
        null=True, help_text=_("When the suspected event's handler began, while it runs.")
    )

    class Meta:
        db_table = "pgqueue_cursor"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.group}/{self.partition}"


class Reader(models.Model):
    """A process that waits for events, or reads for groups; notified of events while it is idle."""

    id = models.UUIDField(primary_key=True)
    host = models.TextField()
    pid = models.IntegerField()
    group = models.TextField(  # noqa: DJ001
        null=True, db_collation="C", help_text="The group that it reads for; null: it only waits."
    )
    last_seen = InstantField()
    notify_until = InstantField(
        null=True, help_text="Until then it is idle, and is notified of new events."
    )
    feed_until = InstantField(
        null=True, help_text="The same, but it is the WAL feed that notifies it."
    )

    class Meta:
        db_table = "pgqueue_reader"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class Waiter(models.Model):
    """A process waits for this message to end, until then: its end is notified."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.BigIntegerField()
    until = InstantField()

    class Meta:
        db_table = "pgqueue_waiter"
        default_permissions = ()
        indexes = [models.Index(fields=["message_id"], name="pgqueue_waiter_message")]

    def __str__(self) -> str:
        return f"#{self.message_id}"


class LogFloor(models.Model):
    """Up to where retention has removed a log: a reader that is behind it is told so."""

    log = models.TextField(primary_key=True, db_collation="C", help_text="Its name: history.")
    position = models.BigIntegerField(
        help_text="The highest position that was removed: of history, a transaction's number."
    )

    class Meta:
        db_table = "pgqueue_log_floor"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.log}: {self.position}"


class Staged(models.Model):
    """A row that a task of Spark has written, and that is no message or event yet.

    It becomes one when the whole write is committed, or is given to a verb. Rows of writes that
    never commit are removed after a week.
    """

    pk = models.CompositePrimaryKey("attempt", "number")
    attempt = models.BigIntegerField(
        help_text="Of a task of Spark: milliseconds since 1970, times 2^22, and a random number."
    )
    number = models.BigIntegerField(help_text="The row's place in what the attempt wrote.")
    message_id = models.BigIntegerField(null=True, help_text="For a verb; all else is null then.")
    channel = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    key = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    task = models.TextField(null=True)  # noqa: DJ001
    payload = JSONField(null=True)
    body = models.BinaryField(null=True)
    metadata = JSONField(null=True)
    priority = models.SmallIntegerField(null=True)
    weight = models.SmallIntegerField(null=True)
    max_attempts = models.IntegerField(null=True)
    run_at = InstantField(null=True)
    expires_at = InstantField(null=True)
    ordered = models.BooleanField(null=True)
    dedupe_key = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    topic = models.TextField(db_collation="C", null=True)  # noqa: DJ001

    class Meta:
        db_table = "pgqueue_staged"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.attempt}, {self.number}"


class Write(models.Model):
    """The last write of Spark under an application id, so that none is committed twice."""

    app_id = models.TextField(primary_key=True, db_collation="C")
    version = models.BigIntegerField(help_text="Of a stream, the number of its batch.")
    origin = models.TextField(help_text="The checkpoint of a stream; '' for a single write.")
    rows = models.BigIntegerField()
    committed_at = InstantField()

    class Meta:
        db_table = "pgqueue_write"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.app_id}, {self.version}"
