"""Channels and their policies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import ExpressionWrapper, FloatField, Q
from django.db.models.functions import Coalesce, Extract, NullIf
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import GeneratedField, InstantField, StatementTimestamp, exactly
from pgqueue.options.policies import (
    BREAKER,
    FASTEST_RATE,
    LONGEST_BURST,
    LONGEST_PER,
    MOST_FAILURES,
    SHORTEST_START,
    SLOWEST_RATE,
)
from pgqueue.values.instants import aware
from pgqueue.values.number_checks import LONGEST

RETENTIONS = (
    "retention",
    "retention_succeeded",
    "retention_cancelled",
    "retention_discarded",
    "retention_expired",
    "dead_retention",
)
A_WHILE = (timedelta(microseconds=1), LONGEST)
IS_PAUSED = Q(paused=True) & (Q(paused_until=None) | Q(paused_until__gt=StatementTimestamp()))


class ChannelQuerySet(models.QuerySet["Channel"]):
    def paused(self) -> ChannelQuerySet:
        """Return the channels whose pause has not ended."""
        return self.filter(IS_PAUSED)

    def pause(self, until: datetime | timedelta | None = None) -> int:
        """Have workers start none of their messages; return how many weren't paused before.

        Args:
            until: when the pause ends, or how long it lasts; None: it ends by `resume()` only. A
                channel that is paused already gets this end.
        """
        end: Any = until
        if isinstance(until, timedelta):
            end = StatementTimestamp() + exactly(until)
        changed = self.filter(~IS_PAUSED).update(paused=True, paused_until=end)
        self.paused().exclude(paused_until=end).update(paused_until=end)
        return changed

    def resume(self) -> int:
        """Have workers start their messages again; return how many were paused before."""
        changed = self.paused().update(paused=False)
        self.filter(paused=True).update(paused=False)
        return changed


class Channel(models.Model):
    """How a channel is configured. One that works by the defaults has no row.

    A trigger tells workers that wait of any change: it may have been paused.
    """

    class OnDead(models.TextChoices):
        """The effect of a dead message on the messages behind it in an ordered lane."""

        BLOCK = "block", _("It blocks them")
        SKIP = "skip", _("It is skipped")

    class OnFull(models.TextChoices):
        """The fate of a message beyond a policy's max_size."""

        REFUSE = "refuse", _("Its producer gets ChannelFull")
        DROP = "drop", _("It is dropped")

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    paused = models.BooleanField(
        _("paused"),
        db_default=False,
        default=False,
        help_text=_("Workers start none of its messages."),
    )
    paused_until = InstantField(
        _("paused until"),
        null=True,
        blank=True,
        help_text=_("When the pause ends by itself. Empty: when it is resumed."),
    )
    retention = models.DurationField(
        _("retention"),
        null=True,
        blank=True,
        help_text=_("How long its history is kept. Empty: as PGQUEUE says."),
    )
    retention_succeeded = models.DurationField(
        _("retention succeeded"),
        null=True,
        blank=True,
        help_text=_("How long messages that succeeded are kept. Empty: as its history."),
    )
    retention_cancelled = models.DurationField(
        _("retention cancelled"),
        null=True,
        blank=True,
        help_text=_("The same for messages that were cancelled."),
    )
    retention_discarded = models.DurationField(
        _("retention discarded"),
        null=True,
        blank=True,
        help_text=_("The same for messages that were discarded, as dead letters are in the end."),
    )
    retention_expired = models.DurationField(
        _("retention expired"),
        null=True,
        blank=True,
        help_text=_("The same for messages that expired."),
    )
    dead_retention = models.DurationField(
        _("dead retention"),
        null=True,
        blank=True,
        help_text=_(
            "How long its dead letters are kept before they are discarded. Empty: as PGQUEUE says."
        ),
    )
    on_dead = models.TextField(
        _("on dead"),
        choices=OnDead.choices,
        db_default=OnDead.BLOCK,
        default=OnDead.BLOCK,
        help_text=_("What a dead message does to those behind it, where they run in order."),
    )
    on_full = models.TextField(
        _("on full"),
        choices=OnFull.choices,
        db_default=OnFull.REFUSE,
        default=OnFull.REFUSE,
        help_text=_("What becomes of a message beyond a policy's max_size."),
    )
    handler = models.TextField(
        _("handler"),
        blank=True,
        db_default="",
        default="",
        help_text=_("The import path of the task that raw messages are given to."),
    )
    watched = models.BooleanField(
        _("watched"),
        db_default=False,
        default=False,
        help_text=_("Whether watch() is notified of what happens to its messages."),
    )
    urgent_first = models.BooleanField(
        _("urgent first"),
        db_default=False,
        default=False,
        help_text=_(
            "Messages of priority 50 and more pass over the turns of keys. Needs a policy."
        ),
    )
    age_after = models.DurationField(
        _("age after"),
        null=True,
        blank=True,
        help_text=_(
            "A message that has waited for so long passes over the turns of keys, too. "
            "Empty: never. Needs a policy."
        ),
    )

    objects = ChannelQuerySet.as_manager()

    class Meta:
        db_table = "pgqueue_channel"
        verbose_name = _("channel")
        verbose_name_plural = _("channels")
        constraints = [
            models.CheckConstraint(
                condition=Q(**{f"{name}__range": A_WHILE for name in RETENTIONS}),
                name="pgqueue_channel_retention",
                violation_error_message=_(
                    "What is kept is kept for longer than 0, and for a hundred years at most."
                ),
            ),
            models.CheckConstraint(
                condition=Q(age_after__range=A_WHILE),
                name="pgqueue_channel_age_after",
                violation_error_message=_(
                    "age_after must be longer than 0, and a hundred years at most."
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_paused(self) -> bool:
        """Whether its pause has not ended, by this machine's clock."""
        return self.paused and (
            self.paused_until is None or datetime.now(UTC) < aware(self.paused_until)
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


NO_BREAKER = Q(**{f"{name}__isnull": True for name in BREAKER})
A_BREAKER = Q(
    **{f"{name}__isnull": False for name in BREAKER},
    breaker_failures__range=(1, MOST_FAILURES),
    breaker_within__gt=timedelta(),
    breaker_within__lte=LONGEST_PER,
    breaker_pause__gt=timedelta(),
    breaker_pause__lte=LONGEST_PER,
)


class Policy(models.Model):
    """A limit of a channel, of one of its keys, or of each of them.

    A key's own policy replaces the one for each key. The channel's holds beside it. A message
    without a key belongs to no key: only the channel's holds for it.
    """

    class Scope(models.TextChoices):
        """The part of a channel that a policy limits."""

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
    breaker_failures = models.SmallIntegerField(
        _("breaker: failures"),
        null=True,
        blank=True,
        help_text=_("Failed runs that open the circuit breaker. It needs the two times below."),
    )
    breaker_within = models.DurationField(
        _("breaker: within"),
        null=True,
        blank=True,
        help_text=_("The time in which so many runs must fail: 00:01:00."),
    )
    breaker_pause = models.DurationField(
        _("breaker: pause"),
        null=True,
        blank=True,
        help_text=_("The time for which no message starts. Then one message is tried."),
    )
    governs = GeneratedField(
        expression=ExpressionWrapper(
            Q(max_running__isnull=False)
            | Q(rate__isnull=False)
            | Q(weight__isnull=False)
            | Q(breaker_failures__isnull=False),
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
            models.Index(
                fields=["channel"],
                condition=Q(breaker_failures__isnull=False),
                name="pgqueue_policy_breaking",
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
            models.CheckConstraint(
                condition=NO_BREAKER | A_BREAKER,
                name="pgqueue_policy_breaker",
                violation_error_message=_(
                    "A breaker needs 1 to 1000 failures, and two times: longer than 0, and a year "
                    "at most."
                ),
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
