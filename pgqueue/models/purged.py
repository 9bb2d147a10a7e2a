from django.db import models

from pgqueue.models.readable import InstantField


class Purged(models.Model):
    """Up to when history was purged of what is kept for so long.

    So that it is not read from its beginning each time. What was written under other rules is
    void: then it is read once more.
    """

    keep = models.DurationField(primary_key=True)
    rules = models.TextField(help_text="A digest of how long everything is kept.")
    until = InstantField()

    class Meta:
        db_table = "pgqueue_purged"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.keep} until {self.until}"
