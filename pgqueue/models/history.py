from django.db import models

from pgqueue.states import Outcome


class History(models.Model):
    """A message that ended: append-only, in one partition for each UTC day.

    Made by SQL (`migrations/sql/`), since models know no partitions. PostgreSQL's key
    would have to hold `finished_at`; ids are unique all the same, being a message's.
    """

    id = models.BigIntegerField(primary_key=True)
    channel = models.TextField(db_collation="C")
    key = models.TextField(db_collation="C")
    task = models.TextField()
    payload = models.JSONField(null=True)
    body = models.BinaryField(null=True)
    metadata = models.JSONField()
    options = models.JSONField(null=True)
    priority = models.SmallIntegerField()
    run_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    worker_id = models.UUIDField(null=True)
    attempt = models.IntegerField()
    failures = models.IntegerField()
    lost = models.IntegerField()
    max_attempts = models.IntegerField()
    ordered = models.BooleanField()
    dedupe_key = models.TextField(db_collation="C", null=True)  # noqa: DJ001
    progress = models.JSONField(null=True)
    errors = models.JSONField()
    claimed_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    parent_id = models.BigIntegerField(null=True)
    created_at = models.DateTimeField()
    outcome = models.TextField(choices=Outcome.choices)
    result = models.JSONField(null=True)
    finished_at = models.DateTimeField()
    txid = models.BigIntegerField()

    class Meta:
        db_table = "pgqueue_history"
        verbose_name_plural = "history"

    def __str__(self) -> str:
        return f"{self.task} #{self.pk}"
