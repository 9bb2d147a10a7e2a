from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar

from django.db import connections, models, router
from django.db.models import Q
from django.db.models.base import ModelBase
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from pgqueue.engine import predicates
from pgqueue.engine.sequence import head
from pgqueue.exceptions import InvalidSubscription
from pgqueue.models.fields import (
    InstantField,
    JSONField,
    NamesField,
    StatementTimestamp,
    database_time,
)
from pgqueue.options.filters import Filter, compiled
from pgqueue.options.subscription_options import MATCHED, MOST_EVENTS, OPTIONS
from pgqueue.values.attempts import MAX_ATTEMPTS
from pgqueue.values.error_words import shown

COMPILED = ("exact", "regex", "eq_path", "eq_value", "path", "vars", "key_path", "split_path")
"""What `save()` makes of the rest, for the statement that matches."""
OF_WORKERS = {"position", "follows", "seen_at", "error"}
SEEN_FOR = timedelta(minutes=5)
"""How long one that code declares goes on without a worker that has it: `is_active` in SQL."""


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    def pause(self) -> int:
        """Have them make no messages; return how many weren't paused before."""
        return self.filter(paused=False).update(paused=True)

    def resume(self) -> int:
        """Have them go on where they were; return how many were paused before.

        Webhooks that are not enabled stay paused: `pgqueue.webhooks.enable()` enables them.
        """
        paused = self.filter(paused=True).exclude(webhook__enabled=False)
        return paused.update(paused=False, error="")

    def disabled(self) -> SubscriptionQuerySet:
        """Return the webhooks among them that are not enabled."""
        return self.filter(webhook__enabled=False)


class Subscription(models.Model):
    """A rule that makes messages of events.

    Workers write those that are declared in code, and everybody else may add others, at run time
    and in a transaction of theirs.
    """

    of_workers: ClassVar[frozenset[str]] = frozenset(OF_WORKERS)

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    task = models.TextField(
        _("task"),
        blank=True,
        db_default="",
        default="",
        help_text=_("The import path of the task. Empty: raw messages."),
    )
    topics = NamesField(
        _("topics"),
        db_default=[],
        default=list,
        blank=True,
        help_text=OPTIONS["topics"].help,
    )
    where = JSONField(_("where"), db_default={}, default=dict, blank=True)
    predicate = models.TextField(
        _("predicate"),
        blank=True,
        db_default="",
        default="",
        help_text=OPTIONS["predicate"].help,
    )
    params = JSONField(
        _("params"),
        db_default={},
        default=dict,
        blank=True,
        help_text=OPTIONS["params"].help,
    )
    channel = models.TextField(
        _("channel"), db_collation="C", db_default="default", default="default"
    )
    key = models.TextField(
        _("key"),
        db_collation="C",
        blank=True,
        db_default="",
        default="",
        help_text=OPTIONS["key"].help,
    )
    ordered = models.BooleanField(
        _("ordered"),
        db_default=False,
        default=False,
        help_text=OPTIONS["ordered"].help,
    )
    batch = models.IntegerField(
        _("batch"),
        null=True,
        blank=True,
        help_text=OPTIONS["batch"].help,
    )
    split_by = models.TextField(
        _("split by"),
        blank=True,
        db_default="",
        default="",
        help_text=OPTIONS["split_by"].help,
    )
    priority = models.SmallIntegerField(_("priority"), db_default=0, default=0)
    weight = models.SmallIntegerField(
        _("weight"),
        db_default=1,
        default=1,
        help_text=_("For how many messages each of its messages counts in limits, 1 to 100."),
    )
    max_attempts = models.IntegerField(
        _("max attempts"), db_default=MAX_ATTEMPTS, default=MAX_ATTEMPTS
    )
    metadata = JSONField(_("metadata"), db_default={}, default=dict, blank=True)
    paused = models.BooleanField(
        _("paused"),
        db_default=False,
        default=False,
        help_text=_("It goes on where it was when it is resumed."),
    )
    expires_after = models.DurationField(
        _("expires after"),
        null=True,
        blank=True,
        help_text=OPTIONS["expires_after"].help,
    )
    expires_at = InstantField(_("expires at"), null=True, editable=False)

    position = models.BigIntegerField(
        _("position"),
        editable=False,
        help_text=_("The last event that it was matched with, unless it follows."),
    )
    follows = models.BooleanField(
        _("follows"),
        db_default=False,
        default=False,
        editable=False,
        help_text=_("It is where the dispatch is."),
    )
    error = models.TextField(
        _("error"),
        db_default="",
        default="",
        editable=False,
        help_text=_("Why the dispatch has paused it."),
    )
    created_at = InstantField(_("created at"), db_default=StatementTimestamp(), editable=False)

    declared = models.BooleanField(_("declared"), db_default=False, default=False, editable=False)
    definition = models.TextField(_("definition"), db_default="", default="", editable=False)
    superseded = NamesField(_("superseded"), db_default=[], default=list, editable=False)
    seen_at = InstantField(
        _("seen at"),
        null=True,
        editable=False,
        help_text=_("About when a worker last had it in its code."),
    )

    exact = NamesField(_("exact"), db_default=[], default=list, editable=False)
    regex = models.TextField(_("regex"), db_default="", default="", editable=False)
    eq_path = models.TextField(_("eq path"), db_default="", default="", editable=False)
    eq_value = JSONField(_("eq value"), null=True, editable=False)
    path = models.TextField(_("path"), db_default="", default="", editable=False)
    vars = JSONField(_("vars"), db_default={}, default=dict, editable=False)
    key_path = models.TextField(_("key path"), db_default="", default="", editable=False)
    split_path = models.TextField(_("split path"), db_default="", default="", editable=False)

    objects = SubscriptionQuerySet.as_manager()

    class Meta:
        db_table = "pgqueue_subscription"
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
        constraints = [
            models.CheckConstraint(
                condition=~Q(name="") & ~Q(channel=""), name="pgqueue_subscription_names"
            ),
            models.CheckConstraint(
                condition=Q(batch__range=(1, MOST_EVENTS)),
                name="pgqueue_subscription_batch",
                violation_error_message=_("A batch has 1 to 10 000 events."),
            ),
            models.CheckConstraint(
                condition=Q(priority__range=(-100, 100)), name="pgqueue_subscription_priority"
            ),
            models.CheckConstraint(
                condition=Q(weight__range=(1, 100)), name="pgqueue_subscription_weight"
            ),
            models.CheckConstraint(
                condition=Q(max_attempts__gte=1), name="pgqueue_subscription_attempts"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(
        self,
        *,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        """Save it, compiled and checked; it expires `expires_after` from now.

        In a row that is there, what workers write is left; of one that code declares that is all
        but `paused`. Unless it is paused, an error that it has is forgotten.

        Raises:
            InvalidFilter: a pattern, a condition or a place is invalid.
            InvalidSubscription: the predicate is invalid, or this resumes a webhook that is not
                enabled.
        """
        self.compile()
        using = using or router.db_for_write(type(self), instance=self)
        if self.predicate:
            connections[using].ensure_connection()
            predicates.check(connections[using].connection, self.predicate)
        if self.position is None:
            self.position = head(connections[using])
        if update_fields is None and not self._state.adding:
            update_fields = self._fields_to_update()
        if not self._state.adding and not self.paused and "paused" in (update_fields or ()):
            self._check_is_enabled(using)
        if update_fields is None or "expires_after" in update_fields:
            lasting = self.expires_after
            self.expires_at = database_time(using) + lasting if lasting else None
        super().save(
            force_insert=force_insert,
            force_update=force_update,
            using=using,
            update_fields=None if update_fields is None else _with_dependent(update_fields),
        )

    def _check_is_enabled(self, using: str) -> None:
        """Refuse to resume a webhook that is not enabled by its subscription.

        Raises:
            InvalidSubscription: the webhook is not enabled.
        """
        if Subscription.objects.using(using).filter(pk=self.pk).disabled().exists():
            raise InvalidSubscription(
                f"The webhook {shown(self.pk)} is disabled: enable it by pgqueue.webhooks.enable()."
            )

    def _fields_to_update(self) -> set[str]:
        """Return the fields that a save of the whole row writes; forget an error."""
        own = {field.name for field in self._meta.concrete_fields if not field.primary_key}
        update_fields = {"paused"} if self.declared else own - self.of_workers
        if self.error and not self.paused:
            self.error = ""
            update_fields |= {"error"}
        return update_fields

    @property
    def is_in_code(self) -> bool:
        """Whether a worker has declared it in the last minutes."""
        return bool(self.declared and self.seen_at and self.seen_at > timezone.now() - SEEN_FOR)

    def state(self, *, cursor: int, head: int) -> str:
        """Say whether it makes messages, and how many events it has yet to be matched with.

        Args:
            cursor: where the dispatch is.
            head: the log's last position.
        """
        behind = max(head - (cursor if self.follows else self.position), 0)
        if self.paused:
            state = gettext("paused")
        elif self.declared and not self.is_in_code:
            return gettext("in no worker's code")
        elif not behind:
            state = gettext("follows")
        elif self.follows:
            state = (
                ngettext("follows, %d event behind", "follows, %d events behind", behind) % behind
            )
        else:
            state = (
                ngettext("catching up, %d event behind", "catching up, %d events behind", behind)
                % behind
            )
        return f"{state}: {self.error}" if self.error else state

    @property
    def filter(self) -> Filter:
        """Which events it wants.

        Raises:
            InvalidFilter: it is invalid.
        """
        return Filter(tuple(self.topics), self.where)

    def compile(self) -> None:
        """Compute the columns of the statement that matches, from topics, conditions and places.

        `update()` does not call it, and leaves the old filter in force. Nor does a worker: of a row
        that code declares, `save()` writes only `paused`.

        Raises:
            InvalidFilter: one is invalid.
        """
        for name, value in compiled(self.filter, key=self.key, split_by=self.split_by).items():
            setattr(self, name, value)


def _with_dependent(names: Iterable[str]) -> set[str]:
    """Return fields, and the fields that follow from them.

    A save writes no other fields: a worker may have declared the subscription anew meanwhile.
    """
    fields = set(names)
    if fields & MATCHED:
        fields |= set(COMPILED)
    if "expires_after" in fields:
        fields |= {"expires_at"}
    return fields
