from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Cursors, exact

SQL = load(__name__)


def remember(connection: Cursors, ids: Sequence[str], *, lasting: timedelta) -> set[str]:
    """Remember ids in the caller's transaction; return the ids that are new."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["remember"], {"ids": list(ids), "lasting": exact(lasting)})
        return {id for (id,) in cursor.fetchall()}
