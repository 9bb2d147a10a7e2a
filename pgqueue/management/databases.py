from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import connections

from pgqueue.conf import settings


def database_of(given: str | None) -> str:
    """Return the given alias of a database, or the alias of `PGQUEUE`.

    Raises:
        CommandError: the settings have no such database.
    """
    try:
        database = given or settings().database
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error
    if database not in connections:
        raise CommandError(
            f"DATABASES has no {database!r}, only {', '.join(map(repr, connections))}."
        )
    return database
