"""Where the database is: a URL, or where the URL is to be found.

The option `url` says it. Spark hides an option of this name in its plans and logs. Where the secret
must not travel with the plan at all, the option names an environment variable or a file, such as a
mounted secret of Kubernetes; each process that connects, on the driver or an executor, reads it
there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgqueue.spark.errors import InvalidOption
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
        InvalidOption: the variable is not set, the file can't be read, or it is empty.
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


def connect(reference: str, *, name: str) -> psycopg.Connection[Any]:
    """Open a connection in autocommit.

    Args:
        reference: see `resolve`.
        name: its purpose; it is added to the application_name, which PostgreSQL shows.

    Raises:
        InvalidOption: there is no URL, or it is none.
        psycopg.OperationalError: the database can't be reached.
    """
    try:
        parameters = conninfo_to_dict(resolve(reference))
    except psycopg.ProgrammingError:
        # Its text contains the URL, and with it the password.
        raise InvalidOption("The option url is no connection URL that libpq understands.") from None
    theirs = parameters.pop("application_name", None) or ""
    parameters.setdefault("connect_timeout", 10)
    parameters["application_name"] = f"{theirs} pgqueue spark {name}".lstrip()
    parameters["client_encoding"] = "utf-8"
    connection = psycopg.connect(
        **parameters,  # type: ignore[arg-type]
        autocommit=True,
        cursor_factory=ReadableCursor,
    )
    read_as_iso(connection)
    return connection
