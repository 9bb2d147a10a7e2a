from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue.engine.values import Connection
from pgqueue.statements import load

SQL = load(__name__)

DUE_EARLIER = ""
"""The text of a notification, in place of a channel, that a delayed message is due earlier."""


def listen(connection: Connection) -> None:
    """Listen for new messages: each notification names a channel, or is DUE_EARLIER."""
    _listen(connection, "")


def listen_for_results(connection: Connection) -> None:
    """Listen for ends of messages that have waiter rows: each notification is a message id."""
    _listen(connection, "_results")


def listen_for_notices(connection: Connection) -> None:
    """Listen for notices of watched channels: each notification is a JSON object."""
    _listen(connection, "_notices")


def is_watched(connection: Connection, channel: str) -> bool:
    """Return whether notices are switched on for the channel."""
    return connection.execute(SQL["is_watched"], {"channel": channel}).fetchone() is not None


def _listen(connection: Connection, to: str) -> None:
    row = connection.execute(SQL["channel"]).fetchone()
    connection.execute(Text("LISTEN {}").format(Identifier((row or ("",))[0] + to)))
