"""The URL of the database, or the place of the URL.

The option `url` gives it. Spark hides an option of this name in its plans and logs. If the secret
must not travel with the plan, the option names an environment variable or a file, such as a mounted
secret of Kubernetes. Each process that connects, on the driver or an executor, reads it there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgqueue.arrow.errors import InvalidOption
from pgqueue.values.readable import ReadableCursor, read_as_iso

VARIABLE = "env:"
FILE = "file:"
DEFAULT = "env:DATABASE_URL"


def resolve(reference: str) -> str:
    """Return the connection URL that an option's value gives or names.

    Args:
        reference: a URL or connection string of libpq; or `env:NAME`, a variable that contains one;
            or `file:PATH`, a file that contains one.

    Raises:
        InvalidOption: the variable is not set, or the file is unreadable or empty.
    """
    if reference.startswith(VARIABLE):
        name = reference.removeprefix(VARIABLE)
        url = os.environ.get(name, "").strip()
        if not url:
            raise InvalidOption(f"The option url is {reference}, but that variable is not set.")
        return url
    if reference.startswith(FILE):
        path = Path(reference.removeprefix(FILE))
        try:
            url = path.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise InvalidOption(f"The option url is {reference}: {error}") from None
        if not url:
            raise InvalidOption(f"The option url is {reference}, but that file is empty.")
        return url
    return reference


def connect(reference: str, *, name: str, patience: int = 10) -> psycopg.Connection[Any]:
    """Open a connection in autocommit.

    Args:
        reference: see `resolve`.
        name: the purpose of the connection, which is added to its application_name.
        patience: seconds to wait for the connection, if the URL names none.

    Raises:
        InvalidOption: the URL is missing or invalid.
        psycopg.OperationalError: the database is unreachable.
    """
    connection = psycopg.connect(
        **parameters(reference, name=name, patience=patience),
        autocommit=True,
        cursor_factory=ReadableCursor,
    )
    read_as_iso(connection)
    return connection


def parameters(reference: str, *, name: str, patience: int = 10) -> dict[str, Any]:
    """Return libpq's parameters for a connection: see `connect`.

    Raises:
        InvalidOption: the URL is missing or invalid.
    """
    try:
        found = conninfo_to_dict(resolve(reference))
    except psycopg.ProgrammingError:
        # The error's text contains the URL with the password.
        raise InvalidOption("The option url is no connection URL that libpq understands.") from None
    theirs = found.pop("application_name", None) or ""
    found.setdefault("connect_timeout", patience)
    found["application_name"] = f"{theirs} pgqueue spark {name}".lstrip()
    found["client_encoding"] = "utf-8"
    return dict(found)
