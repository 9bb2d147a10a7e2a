"""The rows that governed claims read beside a policy: lanes, gates, breakers and bells."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import IdsField, InstantField, InstantsField


class Lane(models.Model):
    """A channel's key that claims have to look at before they take: it is governed.

    A claim from it locks its row first. A lane with neither work nor a past is removed.
    """

    class State(models.TextChoices):
        """Whether a claim would find something to take in it."""

        IDLE = "idle", _("Idle")
        RUNNABLE = "runnable", _("Runnable")
        SATURATED = "saturated", _("Saturated")
        THROTTLED = "throttled", _("Throttled")

    pk = models.CompositePrimaryKey("channel", "key")
    channel = models.TextField(db_collation="C")
    key = models.TextField(db_collation="C")
    state = models.TextField(choices=State.choices)
    turn_at = InstantField(help_text=_("Its place in the round: the earliest is served next."))
    # Of the generic cell rate algorithm: at this time all starts so far are within the rate.
    tat = InstantField(help_text=_("Theoretical arrival time, by which the rate is kept."))
    wake_at = InstantField(null=True, help_text=_("When a throttled lane may go on."))
    heaviest = models.SmallIntegerField(
        db_default=1,
        help_text=_(
            "The greatest weight of its last claim: its rate may be late by so many starts."
        ),
    )
    paused_until = InstantField(
        null=True, help_text=_("Before this time no message starts: a task was told to wait.")
    )
    urgent_at = InstantField(
        null=True, help_text=_("From when on it has urgent messages, which pass over turns.")
    )

    class Meta:
        db_table = "pgqueue_lane"
        default_permissions = ()
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["idle", "runnable", "saturated", "throttled"]),
                name="pgqueue_lane_state",
            )
        ]
        indexes = [
            models.Index(
                fields=["channel", "turn_at"],
                condition=Q(state="runnable"),
                name="pgqueue_lane_runnable",
            ),
            models.Index(
                fields=["wake_at"], condition=Q(state="throttled"), name="pgqueue_lane_throttled"
            ),
            models.Index(
                fields=["channel", "key"],
                condition=Q(paused_until__isnull=False),
                name="pgqueue_lane_paused",
            ),
            models.Index(
                fields=["channel", "urgent_at"],
                condition=Q(state="runnable", urgent_at__isnull=False),
                name="pgqueue_lane_urgent",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.channel}, key {self.key!r}"


class Gate(models.Model):
    """A row that claims lock first, where a policy limits the channel as a whole."""

    channel = models.TextField(db_collation="C", primary_key=True)
    tat = InstantField(help_text=_("Theoretical arrival time, as a lane's."))
    wake_at = InstantField(null=True, help_text=_("When the channel's rate lets it go on."))
    heaviest = models.SmallIntegerField(
        db_default=1, help_text=_("The greatest weight of its last claim, as a lane's.")
    )

    class Meta:
        db_table = "pgqueue_gate"
        default_permissions = ()

    def __str__(self) -> str:
        return self.channel


class Breaker(models.Model):
    """The failures of a channel or a key, and its circuit breaker: open, half-open, or closed.

    Without a row the breaker is closed, and no run has failed lately.
    """

    pk = models.CompositePrimaryKey("channel", "key")
    channel = models.TextField(db_collation="C")
    key = models.TextField(
        db_collation="C", help_text=_("The key; empty: the breaker of the channel as a whole.")
    )
    failed_at = InstantsField(help_text=_("When its last runs failed."))
    open_until = InstantField(
        null=True,
        help_text=_("Before this time no message starts, and then one. Empty: it is closed."),
    )
    probe_id = models.BigIntegerField(
        null=True, help_text=_("The message that was let through to try it.")
    )
    probe_attempt = models.IntegerField(null=True, help_text=_("The attempt of this message."))

    class Meta:
        db_table = "pgqueue_breaker"
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["probe_id"],
                condition=Q(probe_id__isnull=False),
                name="pgqueue_breaker_probed",
            ),
            models.Index(
                fields=["open_until"],
                condition=Q(open_until__isnull=False),
                name="pgqueue_breaker_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.channel}, key {self.key!r}" if self.key else self.channel


class Bell(models.Model):
    """Look at this lane: something is new in it, or it may have room. Without a key: at all."""

    id = models.BigAutoField(primary_key=True)
    channel = models.TextField(db_collation="C")
    # Null, unlike '', is no key.
    key = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    ended = IdsField(
        null=True,
        help_text="Messages of flows that ended or died: not a lane is meant, but their children.",
    )

    woken = IdsField(
        null=True,
        help_text="Messages that got a signal, or wait for one since now.",
    )

    class Meta:
        db_table = "pgqueue_bell"
        default_permissions = ()
        indexes = [models.Index("channel", "id", name="pgqueue_bell_turns")]

    def __str__(self) -> str:
        return f"{self.channel}, {'all keys' if self.key is None else f'key {self.key!r}'}"
