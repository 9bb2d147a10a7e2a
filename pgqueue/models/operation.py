from django.db import models

from pgqueue.models.clock import StatementTimestamp


class Operation(models.Model):
    """An operation on many messages that somebody has asked for who may.

    A worker does nothing for a message of such a task that is not named here: whoever may enqueue
    is not who may operate.
    """

    message_id = models.BigIntegerField(primary_key=True, help_text="The message that does it.")
    user = models.JSONField(null=True, help_text="Who asked: an id and a name.")
    created_at = models.DateTimeField(db_default=StatementTimestamp())

    class Meta:
        db_table = "pgqueue_operation"
        default_permissions = ()

    def __str__(self) -> str:
        return f"#{self.message_id}"
