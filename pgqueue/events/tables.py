"""The names of tables, and the topics of their events."""

from __future__ import annotations

import re

from pgqueue.options.filters import as_topic

EVENTS = ("insert", "update", "delete", "truncate")
"""The last words of the topics of a table's events."""

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_NO_WORD = re.compile(r"[.*\s]")


def parts_of(table: str) -> tuple[str, ...]:
    """Return a table's schema, if it has one, and its name.

    Args:
        table: the name in the database, for example `legacy.users`. A name with a dot needs quotes:
            `"my.schema"."my.table"`. Upper case is kept.

    Raises:
        ValueError: the text is no name of a table.
    """
    parts, at = [], 0
    while found := _PART.match(table, at):
        parts.append(found[2] or found[1].replace('""', '"'))
        at = found.end()
        if not table.startswith(".", at):
            break
        at += 1
    if at != len(table) or len(parts) not in (1, 2):
        raise ValueError("it must be the name of a table, with its schema or without.")
    return tuple(parts)


def parts_of_model(db_table: str) -> tuple[str, ...]:
    """Return the schema and the name of a model's `db_table`, whose dots do not separate parts.

    Django quotes a `db_table` without quotes: so `'legacy"."users'` is one way to name a schema.
    """
    quoted = db_table if db_table.startswith('"') and db_table.endswith('"') else f'"{db_table}"'
    return parts_of(quoted)


def quoted(parts: tuple[str, ...]) -> str:
    """Return the name of a table in SQL."""
    return ".".join('"{}"'.format(part.replace('"', '""')) for part in parts)


def topic_of(parts: tuple[str, ...]) -> str:
    """Return the topic of a table's events without the last word: the name of the table.

    A character that a word of a topic must not contain becomes `_`.

    Raises:
        InvalidEvent: the topic is too long.
    """
    return as_topic(".".join(_NO_WORD.sub("_", part) for part in parts))
