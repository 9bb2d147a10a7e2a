from collections.abc import Collection

from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue.engine.values import Connection, Cursors
from pgqueue.statements import load

SQL = load(__name__)

DUE_EARLIER = ""
"""What a notification says, in place of a channel, to whoever promotes delayed messages."""


def listen(connection: Connection) -> None:
    """Hear of new messages: each notification names a channel, or is DUE_EARLIER."""
    row = connection.execute(SQL["channel"]).fetchone()
    connection.execute(Text("LISTEN {}").format(Identifier((row or ("",))[0])))


def tell(connection: Cursors, channels: Collection[str]) -> None:
    """Wake who idly waits for messages of `channels`, once the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["tell"], {"channels": list(channels)})
