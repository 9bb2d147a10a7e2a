"""The log lines of runs."""

from __future__ import annotations

from django.db import models

from pgqueue.models.fields import JSONField


class RunLog(models.Model):
    """The log lines of one run of a message, live or ended."""

    pk = models.CompositePrimaryKey("message_id", "attempt")
    message_id = models.BigIntegerField()
    attempt = models.IntegerField()
    lines = JSONField(help_text="A list of lines, or an envelope if they are encrypted.")

    class Meta:
        db_table = "pgqueue_run_log"
        default_permissions = ()

    def __str__(self) -> str:
        return f"log lines of attempt {self.attempt} of message {self.message_id}"
