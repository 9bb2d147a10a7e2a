from django.db import models

from pgqueue.models.readable import InstantField


class Write(models.Model):
    """The last write of Spark under an application id, so that none is committed twice."""

    app_id = models.TextField(primary_key=True, db_collation="C")
    version = models.BigIntegerField(help_text="Of a stream, the number of its batch.")
    origin = models.TextField(help_text="The checkpoint of a stream; '' for a single write.")
    rows = models.BigIntegerField()
    committed_at = InstantField()

    class Meta:
        db_table = "pgqueue_write"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.app_id}, {self.version}"
