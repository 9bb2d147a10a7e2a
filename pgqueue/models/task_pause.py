"""The pauses of tasks."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from pgqueue.models.fields import InstantField


class TaskPause(models.Model):
    """A task of which no message starts before a time: one of its runs was told to wait."""

    task = models.TextField(db_collation="C", primary_key=True)
    until = InstantField(help_text=_("Before this time no message of the task starts."))

    class Meta:
        db_table = "pgqueue_task_pause"
        default_permissions = ()

    def __str__(self) -> str:
        return self.task
