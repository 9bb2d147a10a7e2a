"""Roles of PostgreSQL for those who produce, work, operate and look: the script that makes them."""

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
    """Return an SQL script that makes the roles, for the schema that the queue's tables are in.

    Args:
        prefix: what the names of the roles begin with. Roles belong to the whole server: two queues
            on it need two prefixes, or share their roles.

    Raises:
        ValueError: it makes no names.
        psycopg.errors.UndefinedTable: there are no tables.
    """
    names = {part: Literal(as_identifier(prefix + part)) for part in PARTS}
    with connection.cursor() as cursor:
        cursor.execute(SCHEMA)
        [schema] = cursor.fetchone()
    text = files("pgqueue.operating").joinpath("roles.sql").read_text("utf-8")
    return SQL(text).format(schema=Literal(schema), **names).as_string(None)
