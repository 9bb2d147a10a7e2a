from django.db import models

from pgqueue.models.readable import InstantField


class Waiter(models.Model):
    """A process waits for this message to end, until then: its end is notified."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.BigIntegerField()
    until = InstantField()

    class Meta:
        db_table = "pgqueue_waiter"
        default_permissions = ()
        indexes = [models.Index(fields=["message_id"], name="pgqueue_waiter_message")]

    def __str__(self) -> str:
        return f"#{self.message_id}"
