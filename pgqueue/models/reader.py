from django.db import models

from pgqueue.models.readable import InstantField


class Reader(models.Model):
    """A process that waits for events, or reads for groups; notified of events while it is idle."""

    id = models.UUIDField(primary_key=True)
    host = models.TextField()
    pid = models.IntegerField()
    group = models.TextField(  # noqa: DJ001
        null=True, db_collation="C", help_text="The group that it reads for; null: it only waits."
    )
    last_seen = InstantField()
    notify_until = InstantField(
        null=True, help_text="Until then it is idle, and is notified of new events."
    )
    feed_until = InstantField(
        null=True, help_text="The same, but it is the WAL feed that notifies it."
    )

    class Meta:
        db_table = "pgqueue_reader"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
