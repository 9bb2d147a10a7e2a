from typing import Any

from django.core.checks import CheckMessage
from django.db import models


class GeneratedField(models.GeneratedField):
    """Django's, whose check connects to no database.

    Django 6.1 asks each server whether it has virtual generated columns, also for a stored one:
    `check`, `makemigrations` and `runserver` would need a database that answers, as they have
    none while an image is built. Every PostgreSQL that the queue supports has stored ones, and our
    own checks say where a database is no PostgreSQL (pgqueue.E003) or too old (pgqueue.E004).
    """

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Check all but what the databases support."""
        return super().check(**{**kwargs, "databases": []})

    def deconstruct(self) -> Any:
        """In migrations it is Django's."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.GeneratedField", args, kwargs
