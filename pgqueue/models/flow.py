from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import InstantField, JSONField, StatementTimestamp


class Flow(models.Model):
    """Messages that were stored together, some of which wait for others."""

    id = models.BigAutoField(_("ID"), primary_key=True)
    name = models.TextField(_("name"))
    handler_id = models.BigIntegerField(
        _("handler id"),
        null=True,
        blank=True,
        help_text=_("The message that runs when all others have ended."),
    )
    created_at = InstantField(_("created at"), db_default=StatementTimestamp())
    ended_at = InstantField(
        _("ended at"),
        null=True,
        blank=True,
        help_text=_("When a duty found that none of its messages is left."),
    )

    names = JSONField(
        db_default={},
        editable=False,
        help_text="The ids of its messages that have a name, by these names.",
    )

    class Meta:
        db_table = "pgqueue_flow"
        verbose_name = _("flow")
        verbose_name_plural = _("flows")
        default_permissions = ("view",)
        indexes = [
            models.Index(
                fields=["created_at"], condition=Q(ended_at=None), name="pgqueue_flow_living"
            ),
            models.Index(
                fields=["ended_at"], condition=Q(ended_at__isnull=False), name="pgqueue_flow_ended"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} #{self.pk}"


class Dependency(models.Model):
    """One message of a flow, the child, waits for another one, the parent."""

    pk = models.CompositePrimaryKey("flow_id", "child_id", "parent_id")
    flow_id = models.BigIntegerField()
    child_id = models.BigIntegerField()
    parent_id = models.BigIntegerField()

    class Meta:
        db_table = "pgqueue_dependency"
        default_permissions = ()
        indexes = [models.Index(fields=["parent_id"], name="pgqueue_dependency_parent")]

    def __str__(self) -> str:
        return f"{self.child_id} waits for {self.parent_id}"


class Blocked(models.Model):
    """A message that waits for its parents. It watches the first of them that has not ended."""

    class OnFailure(models.TextChoices):
        """The effect of a failed parent on the message."""

        WAIT = "wait", _("Wait")
        CANCEL = "cancel", _("Cancel")
        RUN = "run", _("Run")

    message_id = models.BigIntegerField(primary_key=True)
    flow_id = models.BigIntegerField()
    watched_id = models.BigIntegerField(help_text=_("All parents with a lower id have ended."))
    on_failure = models.TextField(choices=OnFailure.choices)

    class Meta:
        db_table = "pgqueue_blocked"
        default_permissions = ()
        constraints = [
            models.CheckConstraint(
                condition=Q(on_failure__in=["wait", "cancel", "run"]),
                name="pgqueue_blocked_on_failure",
            )
        ]
        indexes = [models.Index(fields=["watched_id"], name="pgqueue_blocked_watched")]

    def __str__(self) -> str:
        return f"{self.message_id} waits for {self.watched_id}"


class FailedMember(models.Model):
    """A message of a flow that ended without success.

    Written with its end, so that one snapshot finds a message live, here, or succeeded.
    """

    message_id = models.BigIntegerField(primary_key=True)
    flow_id = models.BigIntegerField(db_index=True)

    class Meta:
        db_table = "pgqueue_failed_member"
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.message_id)
