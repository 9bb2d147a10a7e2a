from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue.engine.values import Connection
from pgqueue.statements import load

SQL = load(__name__)

DUE_EARLIER = ""
"""What a notification says, in place of a channel, to whoever promotes delayed messages."""


def listen(connection: Connection) -> None:
    """Hear of new messages: each notification names a channel, or is DUE_EARLIER."""
    _listen(connection, "")


def listen_for_results(connection: Connection) -> None:
    """Hear of messages that ended while somebody waited for that: each notification is an id."""
    _listen(connection, "_results")


def listen_for_notices(connection: Connection) -> None:
    """Hear of what happens to the messages of watched channels: each notification is JSON."""
    _listen(connection, "_notices")


def is_watched(connection: Connection, channel: str) -> bool:
    """Say whether what happens to the channel's messages is notified."""
    return connection.execute(SQL["is_watched"], {"channel": channel}).fetchone() is not None


def _listen(connection: Connection, to: str) -> None:
    row = connection.execute(SQL["channel"]).fetchone()
    connection.execute(Text("LISTEN {}").format(Identifier((row or ("",))[0] + to)))
