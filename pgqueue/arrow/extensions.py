"""DuckDB with its extensions, which come as wheels: nothing is downloaded when it runs."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import make_conninfo

from pgqueue.arrow.errors import MissingPackage
from pgqueue.arrow.urls import resolve

if TYPE_CHECKING:
    import pyarrow as pa

EXTRA = "ducklake"
POSTGRES = "postgres_scanner"
TYPES = {
    "int64": "BIGINT",
    "int32": "INTEGER",
    "double": "DOUBLE",
    "decimal128(38, 18)": "DECIMAL(38, 18)",
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
    "binary": "BLOB",
    "date32[day]": "DATE",
}
"""The types of DuckDB by those of Arrow."""


def duckdb_with(*names: str) -> Any:
    """Return a new connection of DuckDB, in memory, with extensions.

    Raises:
        MissingPackage: DuckDB or the wheel of an extension is not installed.
    """
    db = needed("duckdb", EXTRA).connect(config={"autoinstall_known_extensions": "false"})
    [(version,)] = db.execute("SELECT library_version FROM pragma_version()").fetchall()
    for name in names:
        db.execute(f"LOAD {quoted(str(_file(name, version)))}")
    return db


def attach(db: Any, reference: str, sql: str) -> None:
    """Attach a database of PostgreSQL.

    Args:
        reference: see `arrow.urls.resolve`.
        sql: The statement. Its first `{}` is in the place of the connection string.

    Raises:
        duckdb.Error: the statement failed. The error does not contain the connection string.
    """
    conninfo = make_conninfo(resolve(reference))
    error = needed("duckdb", EXTRA).Error
    try:
        db.execute(sql.replace("{}", conninfo.replace("'", "''"), 1))
    except error as failure:
        raise type(failure)(str(failure).replace(conninfo, "…")) from None


def type_of(field: pa.Field) -> str:
    """Return the type of DuckDB for a field of Arrow."""
    return TYPES[str(field.type)]


def _file(name: str, version: str) -> Path:
    package = f"duckdb_extension_{name}"
    found = find_spec(package)
    folders = list(found.submodule_search_locations or []) if found else []
    files = [file for each in folders for file in Path(each).rglob(f"{name}.duckdb_extension")]
    for file in files:
        if re.search(rf"{re.escape(version)}(?![\d.])", str(file.parent)):
            return file
    raise MissingPackage(
        f"DuckDB {version} needs the package {package.replace('_', '-')} of the same version: "
        f"pip install 'pgqueue[{EXTRA}]'."
    )


def quoted(text: str) -> str:
    """Return a text as a literal of DuckDB's SQL."""
    return "'" + text.replace("'", "''") + "'"


def needed(name: str, extra: str) -> Any:
    """Import a module of a package that comes with an extra.

    Raises:
        MissingPackage: the package is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"The format {extra} needs {name.partition('.')[0]}: pip install 'pgqueue[{extra}]'. "
            f"({error})"
        ) from error


def on_one_line(error: Exception, secret: str = "") -> str:
    """Return the text of an error on one line, with "…" in the place of a secret text."""
    said = " ".join(str(error).split())
    return said.replace(" ".join(secret.split()), "…") if secret else said
