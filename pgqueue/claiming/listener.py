"""Listen for new messages, and for requests to cancel, on the connection that claims messages."""

from __future__ import annotations

import time
from collections.abc import Callable

from psycopg import OperationalError

from pgqueue.database.transactions import is_pooled
from pgqueue.engine import notifications
from pgqueue.engine.values import Connection
from pgqueue.threads.wakeup import Wakeup


class ClaimListener:
    """Waits for notifications of new messages. Any thread, or a signal handler, can end the wait.

    Args:
        on_notification: Called with the text of each notification, including ones that arrive
            with the answer to a claim. It returns whether a claim is worthwhile now.
        wakeup: Ends the wait from outside; the listener closes it. None: a new one.
        on_cancel: Called likewise with the worker id of each request to cancel a running message.
            It does not end the wait. None: the caller cancels no runs.
    """

    def __init__(
        self,
        on_notification: Callable[[str], bool],
        wakeup: Wakeup | None = None,
        *,
        on_cancel: Callable[[str], None] | None = None,
    ) -> None:
        self._on_notification = on_notification
        self._on_cancel = on_cancel
        self._cancels = ""
        self._connection: Connection | None = None
        self._has_news = False
        self._wakeup = wakeup or Wakeup()

    def listen(self, connection: Connection) -> bool:
        """Listen on this connection; return False where no notification arrives (a pooler).

        Raises:
            psycopg.OperationalError: the connection is broken.
        """
        if is_pooled(connection):
            return False
        if connection is not self._connection:
            notifications.listen(connection)
            if self._on_cancel:
                self._cancels = notifications.listen_for_cancels(connection)
            # A handler, because most notifications arrive with the answers to claims.
            connection.add_notify_handler(lambda each: self._note(each.channel, each.payload))
            self._connection = connection
        return True

    def wait(self, nap: float) -> None:
        """Return after `nap` seconds, or earlier if there was news since the last wait.

        News is a notification that is worth a claim, a call of `wake()`, or the end of the
        connection.
        """
        until = time.monotonic() + nap
        while not self._has_news and (left := until - time.monotonic()) > 0:
            connection = self._connection
            listened = [connection] if connection and not connection.closed else []
            ready = self._wakeup.wait(left, *listened)
            if self._wakeup in ready:
                return
            if ready and connection:
                self._read(connection)
        self._has_news = False

    def wake(self) -> None:
        """End the wait, or the next one. It takes no lock: a signal handler may call it."""
        self._wakeup.set()

    def close(self) -> None:
        """Close the wake-up; the connection belongs to the caller."""
        self._wakeup.close()

    def _read(self, connection: Connection) -> None:
        try:
            connection.pgconn.consume_input()
            while notification := connection.pgconn.notifies():
                self._note(notification.relname.decode(), notification.extra.decode())
        except OperationalError:
            # The connection broke. The next claim opens another one, or fails.
            self._has_news = True

    def _note(self, channel: str, notification: str) -> None:
        if self._on_cancel and channel == self._cancels:
            self._on_cancel(notification)
        else:
            self._has_news |= self._on_notification(notification)
