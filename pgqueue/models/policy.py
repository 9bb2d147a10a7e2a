from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import ExpressionWrapper, FloatField, Q
from django.db.models.functions import Coalesce, Extract, NullIf
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.models.generated import GeneratedField
from pgqueue.options.policies import (
    FASTEST_RATE,
    LONGEST_BURST,
    LONGEST_PER,
    SHORTEST_START,
    SLOWEST_RATE,
)


def _seconds(expression: Any) -> Any:
    return ExpressionWrapper(expression, output_field=FloatField())


START = _seconds(_seconds(Extract("per", "epoch")) / NullIf("rate", 0.0))
"""The time of one start; none where the rate is 0, which is refused as a rate."""


AT_LEAST_ONE = {
    "max_running": _("max_running must be 1 or more."),
    "burst": _("burst must be 1 or more."),
    "max_size": _("max_size must be 1 or more."),
}


class Policy(models.Model):
    """What a channel, or each or one of its keys, is limited to.

    A key's own policy replaces the one for each key. The channel's holds beside it. A message
    without a key belongs to no key: only the channel's holds for it.
    """

    class Scope(models.TextChoices):
        """What one policy is for."""

        CHANNEL = "channel", _("The channel as a whole")
        EACH = "each", _("Each key")
        KEY = "key", _("One key")

    channel = models.TextField(_("channel"), db_collation="C")
    scope = models.TextField(_("scope"), choices=Scope.choices)
    key = models.TextField(
        _("key"),
        db_collation="C",
        db_default="",
        default="",
        blank=True,
        help_text=_("The key, if the policy is for one key."),
    )
    max_running = models.IntegerField(
        _("max running"),
        null=True,
        blank=True,
        help_text=_("Messages that run at once, on all workers together."),
    )
    rate = models.FloatField(
        _("rate"), null=True, blank=True, help_text=_("Messages started in the time below.")
    )
    per = models.DurationField(
        _("per"),
        db_default=timedelta(seconds=1),
        default=timedelta(seconds=1),
        help_text=_("The time that the rate is for: 1 second, or 00:01:00."),
    )
    burst = models.IntegerField(
        _("burst"),
        null=True,
        blank=True,
        help_text=_(
            "Starts that may follow each other at once after a pause. "
            "If empty: those of 100 ms, and at least 1."
        ),
    )
    max_size = models.IntegerField(
        _("max size"),
        null=True,
        blank=True,
        help_text=_("Messages that wait or run, beyond which none is accepted."),
    )
    weight = models.SmallIntegerField(
        _("weight"),
        null=True,
        blank=True,
        help_text=_("Messages for each turn, where other keys have one."),
    )
    governs = GeneratedField(
        expression=ExpressionWrapper(
            Q(max_running__isnull=False) | Q(rate__isnull=False) | Q(weight__isnull=False),
            output_field=models.BooleanField(),
        ),
        output_field=models.BooleanField(),
        db_persist=True,
        help_text=_("Whether claims have to look at it."),
    )

    class Meta:
        db_table = "pgqueue_policy"
        verbose_name = _("policy")
        verbose_name_plural = _("policies")
        indexes = [
            # Each says of a channel that there is such a policy: most of them have none.
            models.Index(
                fields=["channel"],
                condition=Q(weight__isnull=False),
                name="pgqueue_policy_weighted",
            ),
            models.Index(
                fields=["channel"], condition=Q(max_size__isnull=False), name="pgqueue_policy_sized"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "scope", "key"],
                name="pgqueue_policy_once",
                violation_error_message=_("There is such a policy already."),
            ),
            models.CheckConstraint(
                condition=Q(scope="key") & ~Q(key="") | Q(scope__in=["channel", "each"], key=""),
                name="pgqueue_policy_scope",
                violation_error_message=_("A policy for one key names it; the others don't."),
            ),
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{name}__gte": 1}),
                    name=f"pgqueue_policy_{name}",
                    violation_error_message=message,
                )
                for name, message in AT_LEAST_ONE.items()
            ),
            models.CheckConstraint(
                condition=Q(rate__range=(SLOWEST_RATE, FASTEST_RATE)),
                name="pgqueue_policy_rate",
                violation_error_message=_(
                    "rate must be a millionth or more, and a million at most."
                ),
            ),
            models.CheckConstraint(
                condition=Q(per__gt=timedelta(), per__lte=LONGEST_PER),
                name="pgqueue_policy_per",
                violation_error_message=_("per must be longer than 0, and a year at most."),
            ),
            # Or claims would fail by it, of whichever channel.
            models.CheckConstraint(
                condition=Q(GreaterThanOrEqual(START, SHORTEST_START))
                & Q(LessThanOrEqual(_seconds(START * Coalesce("burst", 1)), LONGEST_BURST)),
                name="pgqueue_policy_pace",
                violation_error_message=_(
                    "By rate and per, a start must take a microsecond or more, "
                    "and a burst 100 years or less."
                ),
            ),
            models.CheckConstraint(
                condition=Q(weight__isnull=True) | Q(weight__range=(1, 100)) & ~Q(scope="channel"),
                name="pgqueue_policy_weight",
                violation_error_message=_("weight must be 1 to 100, and is for keys."),
            ),
        ]

    def __str__(self) -> str:
        if self.scope == self.Scope.EACH:
            return gettext("%s, each key") % self.channel
        if self.scope == self.Scope.KEY:
            return gettext("%(channel)s, key “%(key)s”") % {
                "channel": self.channel,
                "key": self.key,
            }
        return self.channel
