from django.db import models
from django.utils.translation import gettext_lazy as _

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
    payload = models.JSONField(_("payload"), null=True)
    body = models.BinaryField(_("body"), null=True)
    metadata = models.JSONField(_("metadata"))
    options = models.JSONField(_("options"), null=True)
    priority = models.SmallIntegerField(_("priority"))
    run_at = models.DateTimeField(_("run at"))
    expires_at = models.DateTimeField(_("expires at"), null=True)
    worker_id = models.UUIDField(_("worker id"), null=True)
    attempt = models.IntegerField(_("attempt"))
    failures = models.IntegerField(_("failures"))
    lost = models.IntegerField(_("lost"))
    max_attempts = models.IntegerField(_("max attempts"))
    ordered = models.BooleanField(_("ordered"))
    dedupe_key = models.TextField(_("dedupe key"), db_collation="C", null=True)  # noqa: DJ001
    progress = models.JSONField(_("progress"), null=True)
    errors = models.JSONField(_("errors"))
    claimed_at = models.DateTimeField(_("claimed at"), null=True)
    started_at = models.DateTimeField(_("started at"), null=True)
    cancel_requested_at = models.DateTimeField(_("cancel requested at"), null=True)
    parent_id = models.BigIntegerField(_("parent id"), null=True)
    flow_id = models.BigIntegerField(_("flow id"), null=True)
    created_at = models.DateTimeField(_("created at"))
    outcome = models.TextField(_("outcome"), choices=Outcome.choices)
    result = models.JSONField(_("result"), null=True)
    finished_at = models.DateTimeField(_("finished at"))
    txid = models.BigIntegerField(_("txid"))

    class Meta:
        db_table = "pgqueue_history"
        verbose_name = _("history")
        verbose_name_plural = _("history")

    def __str__(self) -> str:
        return f"{self.task} #{self.pk}"
