"""The script that makes PostgreSQL roles for producers, workers, operators and readers."""

from __future__ import annotations

from importlib.resources import files

from psycopg.sql import SQL, Literal

from pgqueue.engine.values import Cursors
from pgqueue.values.names import as_identifier

PARTS = ("producer", "worker", "operator", "reader")
PREFIX = "pgqueue_"
SCHEMA = (
    "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.oid = 'pgqueue_message'::regclass"
)


def script(connection: Cursors, *, prefix: str = PREFIX) -> str:
    """Return an SQL script that makes the roles, for the schema of the queue's tables.

    Args:
        prefix: the beginning of the roles' names. Roles belong to the whole server: two queues
            on it need two prefixes, or share their roles.

    Raises:
        ValueError: the prefix makes invalid names.
        psycopg.errors.UndefinedTable: the database lacks the queue's tables.
    """
    names = {part: Literal(as_identifier(prefix + part)) for part in PARTS}
    with connection.cursor() as cursor:
        cursor.execute(SCHEMA)
        [schema] = cursor.fetchone()
    text = files("pgqueue.operating").joinpath("roles.sql").read_text("utf-8")
    return SQL(text).format(schema=Literal(schema), **names).as_string(None)
