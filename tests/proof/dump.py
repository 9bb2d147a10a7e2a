"""Dump the tables as rows for the checker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from pgqueue.database.sql_files import load

SQL = load(__name__)


def dump(connection: psycopg.Connection[Any], file: Path, *, waiting: list[dict[str, Any]]) -> None:
    """Write the rows of all tables that the checker reads, as JSON.

    Args:
        waiting: what is left and should not be, as rows with a `what`.
    """
    tables: dict[str, Any] = {"waiting": waiting}
    with connection.cursor(row_factory=dict_row) as cursor:
        for name, query in SQL.items():
            tables[name] = cursor.execute(query).fetchall()
    file.write_text(json.dumps(tables, default=str))
