"""Hear, on the connection that one claims on, that there may be something to claim."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from psycopg import OperationalError

from pgqueue.connections import is_pooled
from pgqueue.engine import notifications
from pgqueue.engine.values import Connection


class Ear:
    """Waits for notifications, and can be woken by any thread.

    Args:
        hear: is given the text of each notification, also of those that come with the answer to a
            claim; says whether it is worth a claim.
    """

    def __init__(self, hear: Callable[[str], bool]) -> None:
        self._hear = hear
        self._listening: Connection | None = None
        self._has_heard = False
        self._bell, self._rope = socket.socketpair()
        self._rope.setblocking(False)

    def listen(self, connection: Connection) -> bool:
        """Hear what is notified from now on; return False where that can't be heard.

        Raises:
            psycopg.OperationalError: the connection broke.
        """
        if is_pooled(connection):
            return False
        if connection is not self._listening:
            notifications.listen(connection)
            # As a handler, since most arrive with the answers to claims.
            connection.add_notify_handler(lambda notification: self._note(notification.payload))
            self._listening = connection
        return True

    def wait(self, nap: float) -> None:
        """Return after `nap` seconds; or earlier, once there is news since the last wait.

        That what it listens on broke is news.
        """
        until = time.monotonic() + nap
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            if self._listening and not self._listening.closed:
                selector.register(self._listening.fileno(), selectors.EVENT_READ)
            while not self._has_heard and (left := until - time.monotonic()) > 0:
                ready = {key.fileobj for key, _ in selector.select(left)}
                if self._bell in ready:
                    self._bell.recv(4096)
                    return
                if ready and self._listening:
                    self._read(self._listening)
        self._has_heard = False

    def wake(self) -> None:
        """End the wait, or the next. Takes no lock: a signal handler may call it."""
        with suppress(OSError):  # closed, or full: it was woken already
            self._rope.send(b".")

    def close(self) -> None:
        """Hear no more."""
        self._bell.close()
        self._rope.close()

    def _read(self, connection: Connection) -> None:
        try:
            connection.pgconn.consume_input()
            while said := connection.pgconn.notifies():
                self._note(said.extra.decode())
        except OperationalError:
            # The next claim, on another connection, tells whether that is all.
            self._has_heard = True

    def _note(self, notification: str) -> None:
        self._has_heard |= self._hear(notification)
