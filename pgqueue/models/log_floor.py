from django.db import models


class LogFloor(models.Model):
    """Up to where retention has removed a log: a reader that is behind it is told so."""

    log = models.TextField(primary_key=True, db_collation="C", help_text="Its name: history.")
    position = models.BigIntegerField(
        help_text="The highest position that was removed: of history, a transaction's number."
    )

    class Meta:
        db_table = "pgqueue_log_floor"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.log}: {self.position}"
