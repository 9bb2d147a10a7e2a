"""Messages: live ones, and the history of ended ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models, transaction
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import operate
from pgqueue.engine.operate import BATCH, Operated, Verb
from pgqueue.models.fields import GeneratedField, InstantField, JSONField, StatementTimestamp
from pgqueue.models.flow import Flow
from pgqueue.states import Outcome, State

LIVE = [State.HELD, State.SCHEDULED, State.READY, State.RUNNING]
INDEXED = (
    Q(state=State.READY, governed=False)
    | Q(state=State.READY, governed=True, ordered=False)
    | Q(ordered=True, state__in=LIVE)
    | Q(state=State.RUNNING)
    | Q(state__in=[State.HELD, State.SCHEDULED])
    | Q(state=State.DEAD)
)
"""True of every message, and in the words of the indexes that begin with the channel."""


class MessageQuerySet(models.QuerySet["Message"]):
    def in_channel(self, channel: str) -> MessageQuerySet:
        """The messages of one channel, found by its indexes."""
        return self.filter(INDEXED, channel=channel)

    def in_channels(self, channels: Iterable[str]) -> MessageQuerySet:
        """The messages of several channels, found by their indexes."""
        return self.filter(INDEXED, channel__in=channels)

    def dead(self) -> MessageQuerySet:
        """Failed or lost too often: kept for a replay."""
        return self.filter(state=State.DEAD)

    def lost(self) -> MessageQuerySet:
        """Running, but the lease ran out: the worker died."""
        return self.filter(state=State.RUNNING, lease_until__lt=StatementTimestamp())

    def to_cancel(self, flow_id: int | None = None) -> MessageQuerySet:
        """Messages that a cancel ends: no dead letters, and not the message at the end of a flow.

        That message runs also where all others are cancelled.
        """
        rows = self.exclude(state=State.DEAD)
        if flow_id is None:
            return rows
        flows = Flow.objects.using(self.db).filter(pk=flow_id, handler_id__isnull=False)
        return rows.exclude(pk__in=flows.values("handler_id"))

    def run_now(self) -> Operated:
        """Make delayed messages ready, whatever their time."""
        return self._operate(operate.run_now)

    def cancel(self) -> Operated:
        """End messages that wait; ask running ones to end. Dead letters are left as they are."""
        return self._operate(operate.cancel)

    def replay(self) -> Operated:
        """Make dead letters ready, with all attempts before them."""
        return self._operate(operate.replay)

    def discard(self) -> Operated:
        """End dead letters for good."""
        return self._operate(operate.discard)

    def release(self) -> Operated:
        """Take running messages from their workers, and make them ready for others.

        For a message whose worker is known to be dead, or its run to be stuck. A run that goes on
        is not stopped: it may do its work beside the next one, and its result counts for nothing.
        """
        return self._operate(operate.release)

    def _operate(self, verb: Verb) -> Operated:
        """Run a verb on what is here now, each 1 000 in a transaction of its own."""
        self._for_write = True
        with needing_tables(self.db):
            ids = sorted(self.values_list("pk", flat=True))
        done = Operated()
        for start in range(0, len(ids), BATCH):
            with transaction.atomic(using=self.db), borrow(self.db) as connection:
                done |= operate.unless_locked(connection, verb, ids[start : start + BATCH])
        return done


class Message(models.Model):
    """One unit of work, one row from when it is enqueued until it ends."""

    id = models.BigAutoField(_("ID"), primary_key=True)
    channel = models.TextField(_("channel"), db_collation="C")
    key = models.TextField(
        _("key"),
        db_collation="C",
        db_default="",
        blank=True,
        help_text=_("The sub-queue inside its channel: a tenant, a user."),
    )
    task = models.TextField(_("task"), help_text=_("The import path of the task's function."))
    payload = JSONField(_("payload"), null=True, blank=True)
    body = models.BinaryField(_("body"), null=True, blank=True)
    metadata = JSONField(_("metadata"), db_default={}, blank=True)
    options = JSONField(
        _("options"),
        null=True,
        blank=True,
        help_text=_("What the task's using() changed for this message alone."),
    )
    priority = models.SmallIntegerField(
        _("priority"), db_default=0, help_text=_("-100 to 100, higher first.")
    )
    rank = GeneratedField(
        expression=F("priority") * -1,
        output_field=models.SmallIntegerField(),
        db_persist=True,
        help_text=_("-priority: an index and a row comparison need one direction."),
    )
    state = models.TextField(_("state"), choices=State.choices)
    run_at = InstantField(_("run at"), db_default=StatementTimestamp())
    expires_at = InstantField(_("expires at"), null=True, blank=True)
    lease_until = InstantField(_("lease until"), null=True, blank=True)
    lease_for = models.DurationField(
        _("lease for"),
        null=True,
        blank=True,
        help_text=_("How long its lease is: it ends that long after now at the latest."),
    )
    worker_id = models.UUIDField(_("worker id"), null=True, blank=True)
    attempt = models.IntegerField(
        _("attempt"), db_default=0, help_text=_("Claims so far. A part of the fence: never reset.")
    )
    failures = models.IntegerField(
        _("failures"), db_default=0, help_text=_("Errors it raised so far.")
    )
    lost = models.IntegerField(
        _("lost"), db_default=0, help_text=_("Workers that died while they ran it.")
    )
    max_attempts = models.IntegerField(
        _("max attempts"), help_text=_("Errors after which it is dead.")
    )
    ordered = models.BooleanField(_("ordered"), db_default=False)
    governed = models.BooleanField(_("governed"), db_default=False)
    # Null, unlike '', is equal to nothing.
    dedupe_key = models.TextField(_("dedupe key"), db_collation="C", null=True, blank=True)  # noqa: DJ001
    debounced = models.BooleanField(
        _("debounced"),
        db_default=False,
        help_text=_("Its dedupe_key is its own only until it is started."),
    )
    progress = JSONField(_("progress"), null=True, blank=True)
    errors = JSONField(
        _("errors"), db_default=[], help_text=_("The first error and the last nine.")
    )
    claimed_at = InstantField(_("claimed at"), null=True, blank=True)
    started_at = InstantField(_("started at"), null=True, blank=True)
    cancel_requested_at = InstantField(_("cancel requested at"), null=True, blank=True)
    parent_id = models.BigIntegerField(_("parent id"), null=True, blank=True)
    flow_id = models.BigIntegerField(_("flow id"), null=True, blank=True)
    created_at = InstantField(_("created at"), db_default=StatementTimestamp())

    objects = MessageQuerySet.as_manager()

    class Meta:
        db_table = "pgqueue_message"
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        permissions = [
            ("operate_message", "Can run, cancel and replay messages"),
            ("purge_message", "Can discard messages"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=State.values), name="pgqueue_message_state"
            ),
            models.CheckConstraint(
                condition=Q(priority__range=(-100, 100)), name="pgqueue_message_priority"
            ),
            models.UniqueConstraint(
                fields=["channel", "dedupe_key"],
                condition=Q(dedupe_key__isnull=False, state__in=LIVE),
                name="pgqueue_message_dedupe",
            ),
        ]
        # Each serves one query. State is a literal in those, so that a partial index applies.
        indexes = [
            models.Index(
                fields=["channel", "key", "rank", "run_at", "id"],
                condition=Q(state=State.READY, governed=False),
                name="pgqueue_message_free",
            ),
            models.Index(
                fields=["run_at"],
                condition=Q(state=State.SCHEDULED),
                name="pgqueue_message_due",
            ),
            # No lease_until in it: a heartbeat must not touch an index. The migration 0002_storage
            # turns its deduplication off: to deduplicate entries made each claim dearer.
            models.Index(
                fields=["channel", "key"],
                condition=Q(state=State.RUNNING),
                name="pgqueue_message_running",
            ),
            models.Index(
                fields=["channel", "key", "id"],
                condition=Q(state=State.DEAD),
                name="pgqueue_message_dead",
            ),
            # The oldest first: their retention ends first. A query without a time does not use this
            # index, and so is not led through all dead letters of a channel.
            models.Index(
                fields=["channel", "claimed_at"],
                condition=Q(state=State.DEAD, claimed_at__isnull=False),
                name="pgqueue_message_dead_since",
            ),
            models.Index(
                fields=["channel", "key", "rank", "run_at", "id"],
                condition=Q(state=State.READY, governed=True, ordered=False),
                name="pgqueue_message_governed",
            ),
            models.Index(
                fields=["channel", "key", "id"],
                condition=Q(ordered=True, state__in=LIVE),
                name="pgqueue_message_ordered",
            ),
            models.Index(
                fields=["channel", "key", "id"],
                condition=Q(ordered=True, state=State.DEAD),
                name="pgqueue_message_ordered_dead",
            ),
            # The messages that fill a channel, beside the ready and the running ones.
            models.Index(
                fields=["channel", "key"],
                condition=Q(state__in=[State.HELD, State.SCHEDULED]),
                name="pgqueue_message_waiting",
            ),
            models.Index(
                fields=["flow_id", "id"],
                condition=Q(flow_id__isnull=False),
                name="pgqueue_message_flow",
            ),
            # Not by lease_until, as above, though that is when a hold ends.
            models.Index(fields=["id"], condition=Q(state=State.HELD), name="pgqueue_message_held"),
            models.Index(
                fields=["expires_at"],
                condition=Q(
                    expires_at__isnull=False,
                    state__in=[State.HELD, State.SCHEDULED, State.READY],
                ),
                name="pgqueue_message_expires",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} #{self.pk}"


class History(models.Model):
    """A message that ended: append-only, in one partition for each UTC day.

    Made by SQL (`migrations/sql/`), since models know no partitions. PostgreSQL's key
    would have to hold `finished_at`; ids are unique all the same, being a message's, unless their
    sequence was set back.
    """

    id = models.BigIntegerField(_("ID"), primary_key=True)
    channel = models.TextField(_("channel"), db_collation="C")
    key = models.TextField(_("key"), db_collation="C")
    task = models.TextField(_("task"))
    payload = JSONField(_("payload"), null=True)
    body = models.BinaryField(_("body"), null=True)
    metadata = JSONField(_("metadata"))
    options = JSONField(_("options"), null=True)
    priority = models.SmallIntegerField(_("priority"))
    run_at = InstantField(_("run at"))
    expires_at = InstantField(_("expires at"), null=True)
    worker_id = models.UUIDField(_("worker id"), null=True)
    attempt = models.IntegerField(_("attempt"))
    failures = models.IntegerField(_("failures"))
    lost = models.IntegerField(_("lost"))
    max_attempts = models.IntegerField(_("max attempts"))
    ordered = models.BooleanField(_("ordered"))
    dedupe_key = models.TextField(_("dedupe key"), db_collation="C", null=True)  # noqa: DJ001
    progress = JSONField(_("progress"), null=True)
    errors = JSONField(_("errors"))
    claimed_at = InstantField(_("claimed at"), null=True)
    started_at = InstantField(_("started at"), null=True)
    cancel_requested_at = InstantField(_("cancel requested at"), null=True)
    parent_id = models.BigIntegerField(_("parent id"), null=True)
    flow_id = models.BigIntegerField(_("flow id"), null=True)
    created_at = InstantField(_("created at"))
    outcome = models.TextField(_("outcome"), choices=Outcome.choices)
    result = JSONField(_("result"), null=True)
    finished_at = InstantField(_("finished at"))
    txid = models.BigIntegerField(_("txid"))
    steps = JSONField(
        _("steps"), null=True, help_text=_("The steps of a durable task, and its signals.")
    )

    class Meta:
        db_table = "pgqueue_history"
        verbose_name = _("history")
        verbose_name_plural = _("history")

    def __str__(self) -> str:
        return f"{self.task} #{self.pk}"

    def refresh_from_db(
        self,
        using: str | None = None,
        fields: Iterable[str] | None = None,
        from_queryset: models.QuerySet[Any] | None = None,
    ) -> None:
        """Read columns of this row, also where a sequence that was set back gave its id again."""
        if from_queryset is None and "finished_at" not in self.get_deferred_fields():
            rows = type(self)._base_manager.db_manager(using or self._state.db)
            from_queryset = rows.filter(finished_at=self.finished_at)
        super().refresh_from_db(using, fields, from_queryset)


class Dedupe(models.Model):
    """A key that is remembered for longer than its message lives."""

    pk = models.CompositePrimaryKey("channel", "dedupe_key")
    channel = models.TextField(db_collation="C")
    dedupe_key = models.TextField(db_collation="C")
    message_id = models.BigIntegerField()
    expires_at = InstantField()

    class Meta:
        db_table = "pgqueue_dedupe"
        default_permissions = ()
        indexes = [models.Index(fields=["expires_at"], name="pgqueue_dedupe_expires")]

    def __str__(self) -> str:
        return f"{self.channel}, {self.dedupe_key!r}"
