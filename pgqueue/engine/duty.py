from collections.abc import Collection
from datetime import timedelta

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection

SQL = load(__name__)


def due(connection: Connection, names: Collection[str]) -> dict[str, timedelta]:
    """Return the time until each duty is due; it is negative where the duty is overdue.

    A duty without a row (a new one, or after a flush) gets one and is due at once.
    """
    found = {name: timedelta(seconds=left) for name, left in connection.execute(SQL["due"])}
    missing = [name for name in names if name not in found]
    if missing:
        connection.execute(SQL["add"], {"names": missing})
    return {name: found.get(name, timedelta()) for name in names}


def take(connection: Connection, name: str, *, early: bool) -> bool:
    """Lock a duty until the transaction ends, if it is due (or `early`) and not locked."""
    row = connection.execute(SQL["take"], {"name": name, "early": early}).fetchone()
    return row is not None


def done(connection: Connection, name: str, *, again_in: timedelta) -> None:
    """Store that the locked duty was done, and the time at which it is due again."""
    connection.execute(SQL["done"], {"name": name, "again_in": again_in})


def failed(connection: Connection, name: str) -> None:
    """Store that a duty failed, unless it has failed before since it was last done."""
    connection.execute(SQL["failed"], {"name": name})


def postpone(connection: Connection, name: str, *, by: timedelta) -> None:
    """Move the time at which the locked duty is due, without counting it as done."""
    connection.execute(SQL["postpone"], {"name": name, "by": by})
