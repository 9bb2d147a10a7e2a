from django.db import models


class Reader(models.Model):
    """A process that waits for events, or reads for groups; those who publish notify it if idle."""

    id = models.UUIDField(primary_key=True)
    host = models.TextField()
    pid = models.IntegerField()
    group = models.TextField(  # noqa: DJ001
        null=True, db_collation="C", help_text="The group that it reads for; null: it only waits."
    )
    last_seen = models.DateTimeField()
    notify_until = models.DateTimeField(
        null=True, help_text="Until then it is idle, and is notified of new events."
    )

    class Meta:
        db_table = "pgqueue_reader"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
