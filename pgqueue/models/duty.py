from django.db import models


class Duty(models.Model):
    """Recurring work that whichever worker finds it due does, one at a time."""

    name = models.TextField(db_collation="C", primary_key=True)
    due_at = models.DateTimeField()
    ran_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "pgqueue_duty"
        default_permissions = ()
        verbose_name_plural = "duties"

    def __str__(self) -> str:
        return self.name
