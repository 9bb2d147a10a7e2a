from django.db import connections

from pgqueue.statements import load

SQL = load(__name__)

LIMIT = 1000


def channels_in_use(alias: str) -> list[str]:
    """Return the channels that are configured, or have something ready, running or dead."""
    with connections[alias].cursor() as cursor:
        cursor.execute(SQL["in_use"], {"limit": LIMIT})
        return [name for (name,) in cursor.fetchall()]
