from django.db import models
from django.utils.translation import gettext_lazy as _

from pgqueue.models.readable import InstantField, JSONField
from pgqueue.states import Outcome


class History(models.Model):
    """A message that ended: append-only, in one partition for each UTC day.

    Made by SQL (`migrations/sql/`), since models know no partitions. PostgreSQL's key
    would have to hold `finished_at`; ids are unique all the same, being a message's.
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

    class Meta:
        db_table = "pgqueue_history"
        verbose_name = _("history")
        verbose_name_plural = _("history")

    def __str__(self) -> str:
        return f"{self.task} #{self.pk}"
