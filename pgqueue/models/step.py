"""The steps of durable tasks, and the signals that they wait for."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import InstantField, JSONField, NamesField, StatementTimestamp


class Step(models.Model):
    """A step of a live message: done, failed, or what the message waits for.

    History has the steps of ended messages.
    """

    class Kind(models.TextChoices):
        """The kind of a step."""

        STEP = "step", _("Step")
        ATOMIC = "atomic", _("Atomic step")
        VALUE = "value", _("Value")
        SLEEP = "sleep", _("Sleep")
        SIGNAL = "signal", _("Signal")
        EVENT = "event", _("Event")
        CALL = "call", _("Call")

    class State(models.TextChoices):
        """The state of a step."""

        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        RETRYING = "retrying", _("Retrying")
        WAITING = "waiting", _("Waiting")

    pk = models.CompositePrimaryKey("message_id", "name")
    message_id = models.BigIntegerField(_("message id"))
    started_at = InstantField(_("started at"))
    finished_at = InstantField(_("finished at"), null=True)
    until = InstantField(_("until"), null=True)
    number = models.IntegerField(_("number"))
    attempt = models.IntegerField(_("attempt"))
    tries = models.IntegerField(_("tries"))
    name = models.TextField(_("name"), db_collation="C")
    kind = models.TextField(_("kind"), choices=Kind.choices)
    state = models.TextField(_("state"), choices=State.choices)
    function = models.TextField(_("function"), db_default="")
    signals = NamesField(
        _("signals"), null=True, help_text=_("The names of the signals that it waits for.")
    )
    result = JSONField(_("result"), null=True)
    error = JSONField(_("error"), null=True)
    unvisited = models.BooleanField(
        _("unvisited"),
        db_default=False,
        help_text=_("The last run did not call it: its code may no longer have the step."),
    )

    class Meta:
        db_table = "pgqueue_step"
        default_permissions = ()
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    kind__in=["step", "atomic", "value", "sleep", "signal", "event", "call"]
                ),
                name="pgqueue_step_kind",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["done", "failed", "retrying", "waiting"]),
                name="pgqueue_step_state",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="pgqueue_step_name"),
        ]
        # Lists and figures of what messages wait for: the longest waits first.
        indexes = [
            models.Index(
                fields=["kind", "started_at"],
                condition=Q(state__in=["retrying", "waiting"]),
                name="pgqueue_step_open",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of message {self.message_id}"


class StoredSignal(models.Model):
    """A signal to a live message. A step takes the first one of its name."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.BigIntegerField()
    sent_at = InstantField(db_default=StatementTimestamp())
    name = models.TextField(db_collation="C")
    # Null, unlike '', is equal to nothing.
    dedupe_id = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    sender_id = models.BigIntegerField(null=True, help_text="The message whose run has sent it.")
    taken_by = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    payload = JSONField(null=True)

    class Meta:
        db_table = "pgqueue_signal"
        default_permissions = ()
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="pgqueue_signal_name"),
            models.UniqueConstraint(
                fields=["message_id", "dedupe_id"],
                condition=Q(dedupe_id__isnull=False),
                name="pgqueue_signal_once",
            ),
        ]
        indexes = [
            models.Index(fields=["message_id", "id"], name="pgqueue_signal_message"),
            models.Index(
                fields=["message_id", "name", "id"],
                condition=Q(taken_by__isnull=True),
                name="pgqueue_signal_untaken",
            ),
            models.Index(
                fields=["sender_id", "id"],
                condition=Q(sender_id__isnull=False),
                name="pgqueue_signal_sender",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} to message {self.message_id}"


class EventWait(models.Model):
    """A durable run that waits for an event: the dispatch looks for it."""

    pk = models.CompositePrimaryKey("message_id", "step")
    message_id = models.BigIntegerField()
    step = models.TextField(db_collation="C")
    topic = models.TextField(db_collation="C")
    # Null, unlike '', is any key.
    key = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    path = models.TextField(db_default="")
    vars = JSONField(db_default={})
    position = models.BigIntegerField(help_text="The end of the log when it began.")

    class Meta:
        db_table = "pgqueue_event_wait"
        default_permissions = ()
        indexes = [
            models.Index(fields=["topic", "key"], name="pgqueue_event_wait_topic"),
            models.Index(fields=["position"], name="pgqueue_event_wait_position"),
        ]

    def __str__(self) -> str:
        return f"message {self.message_id} waits for {self.topic}"
