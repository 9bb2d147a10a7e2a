from __future__ import annotations

from django.db import connection, models


class Note(models.Model):
    """What a run wrote, with the schema and the session that it had."""

    text = models.TextField()
    schema = models.TextField()
    session = models.IntegerField()

    def __str__(self) -> str:
        return self.text

    @classmethod
    def take(cls, text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_schema(), pg_backend_pid()")
            schema, session = cursor.fetchone()
        cls.objects.create(text=text, schema=schema, session=session)
