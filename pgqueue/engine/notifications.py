from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection

SQL = load(__name__)

# The names of PostgreSQL's channels, without their common beginning.
NEW = ""
RESULTS = "_results"
NOTICES = "_notices"
EVENTS = "_events"
CANCELS = "_cancels"
DUE_EARLIER = ""
"""The text of a notification, instead of a channel: a delayed message is due earlier."""


def listen(connection: Connection) -> None:
    """Listen for new messages: each notification names a channel, or is DUE_EARLIER."""
    listen_to(connection, NEW)


def listen_for_cancels(connection: Connection) -> str:
    """Listen for requests to cancel running messages: each notification is a worker's id.

    Returns:
        The full name of the PostgreSQL channel.
    """
    return listen_to(connection, CANCELS)


def listen_for_results(connection: Connection) -> None:
    """Listen for ends of messages that have waiter rows: each notification is a message id."""
    listen_to(connection, RESULTS)


def listen_for_notices(connection: Connection) -> None:
    """Listen for notices of watched channels: each notification is a JSON object."""
    listen_to(connection, NOTICES)


def is_watched(connection: Connection, channel: str) -> bool:
    """Return whether notices are switched on for the channel."""
    return connection.execute(SQL["is_watched"], {"channel": channel}).fetchone() is not None


def listen_to(connection: Connection, name: str) -> str:
    """Listen to one of the channels named above; return its full name, as PostgreSQL knows it."""
    row = connection.execute(SQL["channel"]).fetchone()
    channel: str = (row or ("",))[0] + name
    connection.execute(Text("LISTEN {}").format(Identifier(channel)))
    return channel


def unlisten(connection: Connection, channel: str) -> None:
    """Stop listening to a channel, given by its full name."""
    connection.execute(Text("UNLISTEN {}").format(Identifier(channel)))
